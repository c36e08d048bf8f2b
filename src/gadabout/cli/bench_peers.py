"""`gadabout bench peers`: the default beside today's samplers."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import RowsFile, check_destinations, writing
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, show_table


def peers(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="Names of `gadabout list`; seven of the paper's if none."),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A sampler, given once for each: gadabout, gadabout-nuts, blackjax, …"),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(
            parser=whole("--chains", 2),
            metavar="N",
            help="Chains of every peer.",
            show_default="tuned, 4 or 64; 16 or 64 of gadabout, 64 of ChEES and MEADS",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            parser=whole("--draws", 4),
            metavar="N",
            help="Draws kept of each chain of every peer.",
            show_default="tuned",
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(parser=whole("--repeats", 1), metavar="N", help="Repeats, interleaved.")] = 3,
    cold: Annotated[
        bool, typer.Option("--cold", help="Also seconds from the start of a process to q = 1,000, compilation counted.")
    ] = False,
    data_home: DataHome = None,
    json_file: RowsFile = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Save a figure of q against seconds: .png, .pdf or .svg.")
    ] = None,
) -> None:
    """The default beside BlackJAX, NumPyro and nutpie: q, the smallest of bulk ESS and ESS of (x - mean)^2, per second.

    Runs with a seed of their own pick each peer's chains and draws, so that q is 4,000 to 8,000; then gadabout and the
    two best others run with fresh seeds. q per second counts warm-up and draws, compilation apart; its ratio is to the
    best of the other programs. Runs whose chains differ, or that miss a known mean or variance by 5 standard errors,
    count for nothing. The packages come with `pip install "gadabout[peers]"`.
    """
    check_destinations(None, plot, json_file)
    in_float64(None)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.peer_cold import cold as measure_cold
    from gadabout.lab.peers.peer_samplers import choose
    from gadabout.lab.peers.peers import TARGETS, compare

    rows = []
    try:
        names, lacking = choose(peer or [])
        if lacking:
            print(f'left out, not installed: {", ".join(lacking)}; pip install "gadabout[peers]"')
        for name in targets or TARGETS:
            with working(f"peers on {name}", True):
                found = compare(name, names, repeats, data_home, chains=chains, draws=draws, file=json_file)
            _show(name, found, repeats)
            rows += found
            if cold:
                with working(f"peers on {name}, from the start of a process", True):
                    cold_rows = measure_cold(found, repeats, data_home, json_file)
                _show_cold(name, cold_rows, repeats)
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        raise CliError(str(error)) from error
    _show_overall(rows)
    if plot is not None:
        from gadabout.lab.peers.peer_picture import draw

        with writing(plot):
            draw(rows, plot)


def _show(name: str, rows: list[dict[str, Any]], repeats: int) -> None:
    headings = ("peer", "draws", "q", "q/s", "ratio", "compile s", "run s", "R-hat")
    title = f"{name}: warm-up counted, median and range of {repeats}; without a range, of the tuning seed alone"
    show_table(title, headings, map(_cells, rows))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = row["q_per_second_range"]
    r_hat = "" if row["rhat_max"] is None else f"{row['rhat_max']:.3f}"
    return (
        row["peer"],
        f"{row['chains']}×{row['draws']}",
        f"{row['q']:,.0f}",
        _short(row["q_per_second"]) + (f"\n{_short(low)}–{_short(high)}" if row["repeats"] else ""),
        f"{row['ratio']:.2f}" if row["ratio"] is not None and row["repeats"] else "",
        f"{row['compile_seconds']:.1f}",
        f"{row['seconds']:.2f}",
        f"{r_hat}{' wrong' if row['right'] is False else ''}{' failed' if row['failures'] else ''}",
    )


def _short(number: float) -> str:
    """A number with thousands as k, from ten of them on."""
    return f"{number:,.0f}" if number < 9_999.5 else f"{number / 1000:,.1f}k"


def _show_cold(name: str, rows: list[dict[str, Any]], repeats: int) -> None:
    headings = ("peer", "draws", "q", "s, nothing compiled", "s, all compiled")
    title = f"{name}: from the start of a process to q = 1,000, median of {repeats}"
    show_table(title, headings, map(_cold_cells, rows))


def _cold_cells(row: dict[str, Any]) -> tuple[str, ...]:
    if row["q"] is None:
        return (row["peer"], "too many", "", "", "")
    spans = [(row[f"{cache}_seconds"], *row[f"{cache}_seconds_range"]) for cache in ("empty", "warm")]
    seconds = [f"{middle:.1f} ({low:.1f}–{high:.1f})" for middle, low, high in spans]
    return (row["peer"], f"{row['draws']:,}", f"{row['q']:,.0f}", *seconds)


def _show_overall(rows: list[dict[str, Any]]) -> None:
    from gadabout.lab.peers.peers import overall

    mean, count, failing = overall(rows)
    if mean is not None:
        print(f"gadabout's q/s over the best peer's, geometric mean (targets: {count}): {mean:.2f}")
    if failing:
        print(f"a run of gadabout failed, and counts for nothing, on: {', '.join(failing)}")
