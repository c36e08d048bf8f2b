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
    peers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rows of `gadabout bench peers --cold --json`, same machine.")
    ] = None,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Seconds of whole processes to 16 × 1,000 draws of the default, beside the floor; nothing compiled beforehand.

    The floor is a process that imports JAX and gadabout, compiles the log density and its gradient of 16 rows, and
    calls that once. The second process has JAX's persistent cache as `gadabout sample` sets it, filled by a first.
    """
    in_float64(json_file)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.wait import TARGETS
    from gadabout.lab.peers.wait import wait as measure

    try:
        with working("whole processes", True):
            rows = measure(targets or TARGETS, repeats, data_home, against, peers)
    except (ValueError, RuntimeError) as error:
        raise CliError(str(error)) from error
    words = {"floor": "the floor", "second": "the second process", "against": str(against), "peer": "the quickest peer"}
    others = [other for other in words if other in rows[0]]
    title = f"from the start of a process to the result of 16 × 1,000 draws, in seconds: median (range) of {repeats}"
    show_table(
        title, ["target", "the default", *(words[other] for other in others)], (_cells(row, others) for row in rows)
    )
    for other in others:
        mean = geometric_mean(row[f"ratio_to_{other}"] for row in rows)
        print(f"the default over {words[other]}, geometric mean: {mean:.2f}")
    save(rows, json_file)


def _cells(row: dict[str, Any], others: list[str]) -> tuple[str, ...]:
    spans = {
        kind: f"{row[kind]:.2f} ({row[f'{kind}_range'][0]:.2f}–{row[f'{kind}_range'][1]:.2f})"
        for kind in ("default", *others)
    }
    ratios = {other: f"\nratio {row[f'ratio_to_{other}']:.2f}" for other in others}
    named = {"peer": f"{row['peer_name']}: "} if "peer" in others else {}
    return (row["target"], spans["default"], *(f"{named.get(o, '')}{spans[o]}{ratios[o]}" for o in others))
