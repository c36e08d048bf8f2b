"""`gadabout bench objectives`: Algorithm 1 carried further, side by side."""

from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import RowsFile, check_file
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, show_table


def objectives(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="The paper's or of the wild set; ripley, german and banana if none."),
    ] = None,
    chains: Annotated[int, typer.Option(parser=whole("--chains", 2), metavar="N", help="Chains.")] = 16,
    warmup: Annotated[int, typer.Option(parser=whole("--warmup", 1), metavar="N", help="Iterations to learn.")] = 2_000,
    draws: Annotated[int, typer.Option(parser=whole("--draws", 4), metavar="N", help="Draws of each chain.")] = 2_000,
    seeds: Annotated[int, typer.Option(parser=whole("--seeds", 1), metavar="K", help="Seeds, from 0 on.")] = 3,
    data_home: DataHome = None,
    json_file: RowsFile = None,
) -> None:
    """Objectives, estimators, factors and proposals of Algorithm 1: effective draws by evaluation of the density."""
    if json_file is not None:
        check_file("--json", json_file)
    in_float64(None)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.objectives import objectives as measure
    from gadabout.lab.peers.objectives import summary

    try:
        with working("objectives, estimators and proposals", True):
            names = targets or ["ripley", "german", "banana"]
            rows = list(measure(names, chains, warmup, draws, seeds, json_file, data_home))
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    headings = ("target", "learned", "accepted", "R-hat", "q/1,000", "with warm-up", "seconds")
    title = f"{chains} chains, {warmup:,} iterations to learn, {draws:,} draws: q by 1,000 evaluations"
    show_table(title, headings, map(_cells, summary(rows)), left=2)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["target"],
        row["method"],
        f"{row['acceptance_rate']:.2f}",
        f"{row['rhat']:.3f}",
        f"{row['q_per_1000_evaluations']:,.1f}",
        f"{row['with_warmup']:,.1f}",
        f"{row['seconds']:.1f}",
    )
