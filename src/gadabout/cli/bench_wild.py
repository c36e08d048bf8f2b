"""`gadabout bench wild`: the default on the wild set, right or flagged."""

from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import RowsFile, check_file
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import in_float64, show_table


def wild(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]…", help="Names of the wild set; all 24 if none.")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="K|A,B,…", help="How many seeds from 0 on, or which.")] = "3",
    json_file: RowsFile = None,
) -> None:
    """The default on the wild set: right by its truth, flagged, or wrong without a word.

    Right is within 5 combined standard errors of the truth in every coordinate, with R-hat of at most max(1.01, 1 + 3 ·
    chains/ESS). Flagged is what is not, where findings name every coordinate that is wrong.
    """
    if json_file is not None:
        check_file("--json", json_file)
    numbers = _seeds(seeds)
    in_float64(None)
    from gadabout.benchmarks.wild import runs, summary
    from gadabout.cli.progress import working
    from gadabout.targets.wild import BUILDERS

    rows = []
    for name in targets or BUILDERS:
        try:
            with working(f"the default on {name}", True):
                rows += runs([name], numbers, json_file)
        except (ValueError, RuntimeError) as error:
            raise CliError(str(error)) from error
    headings = ("target", "outcome", "off by", "R-hat", "ESS", "findings", "seconds")
    title = f"sample() with default arguments, seeds {', '.join(map(str, numbers))}: the worst of each"
    show_table(title, headings, map(_cells, summary(rows)), left=2)


def _seeds(text: str) -> list[int]:
    """Whole numbers with commas between them, or so many from 0 on."""
    if "," in text:
        return [whole("--seeds", 0, 2**32 - 1)(each) for each in text.strip(",").split(",")]
    return list(range(whole("--seeds", 1)(text)))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["target"],
        ", ".join(f"{outcome} {count}" for outcome, count in row["outcomes"].items()),
        "" if row["off"] is None else f"{row['off']:.1f}",
        f"{row['rhat']:.3f}",
        f"{row['ess']:,.0f}",
        ", ".join(row["findings"]),
        f"{row['seconds']:.1f}",
    )
