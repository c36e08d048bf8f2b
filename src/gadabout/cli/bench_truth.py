"""`gadabout bench truth`: the true figures of the built-in sets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import in_float64, show_table


def truth(
    targets: Annotated[
        list[str], typer.Argument(metavar="TARGET…", help="Names of any set, see `gadabout list`; `all` for all.")
    ],
    seed: Annotated[int, typer.Option(parser=whole("--seed", 0, 2**31), metavar="N", help="Seed.")] = 0,
    draws: Annotated[
        int | None,
        typer.Option(
            parser=whole("--draws", 100),
            metavar="N",
            help="Draws: exact ones, or of each chain of NUTS.",
            show_default="the target's own",
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the files go.", show_default="the package")
    ] = None,
) -> None:
    """True means, variances and quantiles of built-in targets, from exact draws or two long NUTS runs that agree."""
    in_float64(None)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.truth import truth as measure
    from gadabout.lab.peers.truth import write
    from gadabout.targets.sets import NAMES

    rows, failed = [], []
    for name in NAMES if targets == ["all"] else targets:
        try:
            with working(f"truth of {name}", True):
                document = measure(name, seed, draws)
            write(document, folder)
            rows.append(_cells(document))
        except ValueError as error:
            raise CliError(str(error)) from error
        except RuntimeError as error:
            failed.append(str(error))
    if rows:
        headings = ("target", "method", "draws", "error of mean, sd", "of variance", "apart", "R-hat")
        show_table("Largest standard errors, as shares of the standard deviation and of the variance", headings, rows)
    if failed:
        raise CliError("; ".join(failed))


def _cells(document: dict[str, Any]) -> tuple[str, ...]:
    variables = document["variables"].values()
    of_mean = max(float((v["mean_error"] / v["variance"] ** 0.5).max()) for v in variables)
    of_variance = max(float((v["variance_error"] / v["variance"]).max()) for v in variables)
    apart, r_hat = document.get("largest_difference"), document.get("rhat_max")
    return (
        document["target"],
        document["method"],
        f"{document['num_draws'] * document.get('num_chains', 1):,}",
        f"{of_mean:.4f}",
        f"{of_variance:.4f}",
        "" if apart is None else f"{apart:.1f}",
        "" if r_hat is None else f"{r_hat:.4f}",
    )
