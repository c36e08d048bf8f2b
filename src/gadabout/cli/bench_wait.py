"""`gadabout bench wait`: from the start of a process to the finished result of the default."""

from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import JsonFile
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, save, show_table


def wait(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="The paper's names of `gadabout list`; six of them if none."),
    ] = None,
    repeats: Annotated[
        int, typer.Option(parser=whole("--repeats", 1), metavar="N", help="Processes of each kind, interleaved.")
    ] = 3,
    against: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another checkout, or its src, whose default runs as well.")
    ] = None,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Seconds of whole processes to 16 × 1,000 draws of the default, beside the floor; nothing compiled beforehand.

    The floor is a process that imports JAX and gadabout, compiles the log density and its gradient of 16 rows, and
    calls that once. Others stand in `gadabout bench peers --cold`.
    """
    in_float64(json_file)
    from gadabout.benchmarks.wait import TARGETS
    from gadabout.benchmarks.wait import wait as measure
    from gadabout.cli.progress import working

    try:
        with working("whole processes", True):
            rows = measure(targets or TARGETS, repeats, data_home, against)
    except (ValueError, RuntimeError) as error:
        raise CliError(str(error)) from error
    headings = ["target", "floor, s", "default, s", "over the floor"]
    headings += [] if against is None else [f"{against}, s", "over that"]
    title = f"from the start of a process to the result of 16 × 1,000 draws: median (range) of {repeats}"
    show_table(title, headings, map(_cells, rows))
    for other, words in (("floor", "the floor"), ("against", str(against))):
        if other in rows[0]:
            mean = geometric_mean(row[f"ratio_to_{other}"] for row in rows)
            print(f"the default over {words}, geometric mean: {mean:.2f}")
    save(rows, json_file)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    spans = {
        kind: f"{row[kind]:.2f} ({row[f'{kind}_range'][0]:.2f}–{row[f'{kind}_range'][1]:.2f})"
        for kind in ("floor", "default", "against")
        if kind in row
    }
    cells = (row["target"], spans["floor"], spans["default"], f"{row['ratio_to_floor']:.2f}")
    return cells if "against" not in row else (*cells, spans["against"], f"{row['ratio_to_against']:.2f}")
