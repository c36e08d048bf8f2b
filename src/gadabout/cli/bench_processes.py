"""`gadabout bench processes`: chains over several processes of this machine."""

from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import JsonFile
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, save, show_table


def processes(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A name of `gadabout list`.")] = "german",
    most: Annotated[
        int, typer.Option("--processes", parser=whole("--processes", 1), metavar="N", help="1, 2, 4, … up to so many.")
    ] = 2,
    chains: Annotated[
        int, typer.Option(parser=whole("--chains", 1), metavar="N", help="Chains in all, the same for each number.")
    ] = 64,
    repeats: Annotated[int, typer.Option(parser=whole("--repeats", 1), metavar="N", help="Repeats, interleaved.")] = 3,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Iterations per second over 1, 2, 4, … processes with a device each, and the share of time that sums take."""
    in_float64(json_file)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.processes import processes as measure

    counts = [2**k for k in range(most.bit_length())]
    if chains % counts[-1]:
        raise CliError(f"--chains {chains} must be a multiple of the {counts[-1]} processes")
    try:
        with working(f"gadMALA on {target} over processes", True):
            rows = list(measure(target, counts, chains, repeats, data_home))
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    headings = ("processes", "warm-up, 1000 it/s", "draws, 1000 it/s", "sums' share")
    title = f"gadMALA on {target}, {chains} chains in all, {rows[0]['cores']} cores, median of {repeats}"
    show_table(title, headings, map(_cells, rows), whole=0)
    save(rows, json_file)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    share = row["communication"]
    told = "" if share is None else f"{100 * share:.0f} %"
    return str(row["processes"]), f"{row['warmup']:,.1f}", f"{row['sampling']:,.1f}", told
