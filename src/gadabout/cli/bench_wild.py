"""`gadabout bench wild`: the default on a built-in set, right or flagged."""

from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import RowsFile, check_file
from gadabout.cli.errors import CliError, did_you_mean
from gadabout.cli.measurements import in_float64, show_table


def wild(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="Names of any set, see `gadabout list`; a whole set if none."),
    ] = None,
    set_name: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME", help="wild, hierarchical or modes.", show_default="wild"),
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="K|A,B,…", help="How many seeds from 0 on, or which.")] = "3",
    json_file: RowsFile = None,
) -> None:
    """The default on a built-in set: right by its truth, flagged, or wrong without a word.

    Right is within 5 combined standard errors of the truth in every coordinate, with R-hat of at most max(1.01, 1 + 3 ·
    chains/ESS) and an ESS of at least 400; below that a run has too few draws. Flagged is what is neither, where
    findings name every coordinate that is wrong.
    """
    if json_file is not None:
        check_file("--json", json_file)
    if targets and set_name is not None:
        raise CliError("--set runs a whole set; leave it out, or name no targets")
    numbers = seeds_of(seeds)
    in_float64(None)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.wild import runs, summary
    from gadabout.targets.sets import SETS

    chosen = SETS.get(set_name or "wild")
    if chosen is None:
        raise CliError(f"--set: there is no set {set_name!r}; {did_you_mean(set_name or '', SETS)}")
    rows = []
    for name in targets or chosen.builders:
        try:
            with working(f"the default on {name}", True):
                rows += runs([name], numbers, json_file)
        except (ValueError, RuntimeError) as error:
            raise CliError(str(error)) from error
    headings = ("target", "outcome", "off by", "R-hat", "ESS", "findings", "seconds")
    title = f"sample() with default arguments, seeds {', '.join(map(str, numbers))}: the worst of each"
    show_table(title, headings, map(_cells, summary(rows)), left=2)


def seeds_of(text: str) -> list[int]:
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
