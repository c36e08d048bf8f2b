"""`gadabout bench costs` and `growth`: what a gradient costs inside a run, and an iteration as problems grow."""

from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import JsonFile
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, save, show_table


def costs(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]…", help="The paper's, by name; neal and german if none.")
    ] = None,
    chains: Annotated[int, typer.Option(parser=whole("--chains", 1), metavar="N", help="Chains.")] = 16,
    draws: Annotated[int, typer.Option(parser=whole("--draws", 4), metavar="N", help="Draws of each chain.")] = 2_000,
    repeats: Annotated[int, typer.Option(parser=whole("--repeats", 1), metavar="N", help="Repeats, interleaved.")] = 3,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Time per gradient inside draws of split HMC beside the gradient alone; time per draw beside its noise alone."""
    in_float64(json_file)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.costs import costs as measure

    try:
        with working("gradients inside a run and alone", True):
            rows = list(measure(targets or ["neal", "german"], chains, draws, repeats, data_home))
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    headings = ("target, draws by", "µs/grad", "alone", "ratio", "µs/draw", "noise", "ratio")
    show_table(f"{chains} chains, for each of them, median of {repeats}", headings, map(_cost_cells, rows), whole=7)
    save(rows, json_file)


def growth(
    dims: Annotated[
        list[int] | None,
        typer.Argument(parser=whole("DIM", 1), metavar="[DIM]…", help="Coordinates; 10 to 10,000 if none."),
    ] = None,
    chains: Annotated[
        int, typer.Option(parser=whole("--chains", 1), metavar="N", help="1, 4, 16, … chains up to so many.")
    ] = 1_024,
    json_file: JsonFile = None,
) -> None:
    """Time per iteration of all chains of some samplers on a Gaussian, as coordinates grow, and chains."""
    in_float64(json_file)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.costs import growth as measure

    counts = [4**k for k in range(chains.bit_length()) if 4**k <= chains]
    with working("iterations as problems grow", True):
        rows = list(measure(dims or [10, 100, 1_000, 10_000], counts))
    headings = ("sampler", "n", "chains", "warm-up, µs/iteration", "draws, µs/iteration")
    show_table("all chains of an iteration", headings, map(_growth_cells, rows))
    save(rows, json_file)


def _cost_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{row['target']}\n{row['move']}",
        f"{row['gradient_us']:,.1f}",
        f"{row['bare_us']:,.1f}",
        f"{row['gradient_ratio']:.2f}",
        f"{row['draw_us']:,.1f}",
        f"{row['noise_us']:,.1f}",
        f"{row['noise_ratio']:.1f}",
    )


def _growth_cells(row: dict[str, Any]) -> tuple[str, ...]:
    sizes = (f"{row['n']:,}", f"{row['chains']:,}")
    return (row["sampler"], *sizes, f"{row['warmup_us']:,.1f}", f"{row['sampling_us']:,.1f}")
