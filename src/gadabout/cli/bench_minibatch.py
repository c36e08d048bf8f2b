"""`gadabout bench bias`, `held-out` and `minibatch`: chains on minibatches beside what is known."""

from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import JsonFile
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, save, show_table


def bias(
    chains: Annotated[int, typer.Option(parser=whole("--chains", 1), metavar="N", help="Chains.")] = 100,
    draws: Annotated[
        int, typer.Option(parser=whole("--draws", 40), metavar="N", help="Draws of each chain, every tenth kept.")
    ] = 4_000,
    json_file: JsonFile = None,
) -> None:
    """Bias of chains without rejection at three step sizes, on a Gaussian regression whose posterior is known."""
    in_float64(json_file)
    from gadabout.lab.peers.stochastic_gradient import BATCH, ROWS, bias_table

    rows = list(bias_table(chains, draws))
    headings = ("sampler", "step size", "mean: off by (error), in sd", "variance: share of the true one (error)")
    cells = [
        (row["method"], f"{row['step_size']:.3g}", _pairs(row, "mean", "+.3f"), _pairs(row, "variance", ".3f"))
        for row in rows
    ]
    show_table(f"{ROWS} rows, batches of {BATCH}; {chains} chains of {draws} draws", headings, cells)
    save(rows, json_file)


def held_out(
    draws: Annotated[
        int, typer.Option(parser=whole("--draws", 1), metavar="N", help="Draws of each chain, every 25th kept.")
    ] = 2_000,
    seed: Annotated[int, typer.Option(parser=whole("--seed", 0, 2**32 - 1), metavar="N", help="Seed.")] = 0,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Predictive log loss on every fifth row of caravan: SGLD and pSGLD on batches of 100 beside a long gadMALA run."""
    in_float64(json_file)
    from gadabout.lab.peers.stochastic_gradient import held_out as measure

    try:
        rows = list(measure(draws, seed, data_home))
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    headings = ("sampler", "log loss", "ratio", "of mean", "mean sd", "iterations", "rows", "s")
    cells = [
        (
            row["sampler"],
            f"{row['log_loss']:.5f}",
            f"{row['ratio']:.4f}",
            f"{row['log_loss_of_mean']:.5f}",
            f"{row['mean_sd']:.3f}",
            f"{row['iterations']:,}",
            f"{row['rows_per_gradient']:,}",
            f"{row['seconds']:.1f}",
        )
        for row in rows
    ]
    show_table("caravan, every fifth row held out, 4 chains", headings, cells)
    save(rows, json_file)


def minibatch(
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="N", help="Rows of the file; once or more. 100000 and 10000000 if none."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Memory of SGLD with control variates on memory-mapped files of different length, each in its own process."""
    numbers = [whole("--rows", 1_000, 10**9)(text) for text in rows or ["100000", "10000000"]]
    in_float64(json_file)
    from gadabout.lab.peers.stochastic_gradient import memory

    try:
        found = [memory(number) for number in numbers]
    except (OSError, RuntimeError) as error:
        raise CliError(str(error)) from error
    headings = ("rows", "file MiB", "before MiB", "at most MiB", "added MiB", "seconds")
    cells = [
        (
            f"{row['rows']:,}",
            *(
                f"{size / 2**20:.1f}"
                for size in (
                    row["file_bytes"],
                    row["private_bytes_before"],
                    row["private_bytes"],
                    row["private_bytes"] - row["private_bytes_before"],
                )
            ),
            f"{row['seconds']:.1f}",
        )
        for row in found
    ]
    show_table("Private memory (RssAnon), the pages of the mapped file not counted", headings, cells)
    save(found, json_file)


def _pairs(row: dict[str, Any], name: str, form: str) -> str:
    values = zip(row[name], row[f"{name}_error"], strict=True)
    return "  ".join(f"{value:{form}} ({error:.3f})" for value, error in values)
