"""Commands of `gadabout bench` that compare samplers with each other, or with reference values of a target."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.measurements import Row, in_float64, measuring, show_table, span
from gadabout.cli.options import (
    DataHome,
    JsonFile,
    Repeats,
    RowsFile,
    Seed,
    check_destinations,
    check_json,
    check_rows,
    number,
    save_json,
    whole,
    writing,
)

TUNED = "tuned, 4 or 64; 16 or 64 of gadabout, 64 of ChEES and MEADS"


def bias(
    chains: Annotated[int, number("--chains", 1, "Chains.")] = 100,
    draws: Annotated[int, number("--draws", 40, "Draws of each chain, every tenth kept.")] = 4_000,
    json_file: JsonFile = None,
) -> None:
    """Bias of chains without rejection at three step sizes, on a Gaussian regression whose posterior is known."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.stochastic_gradient import BATCH, ROWS, bias_table

    rows = list(bias_table(chains, draws))
    columns = [
        ("sampler", "{method}"),
        ("step size", "{step_size:.3g}"),
        ("mean: off by (error), in sd", lambda row: _pairs(row, "mean", "+.3f")),
        ("variance: share of the true one (error)", lambda row: _pairs(row, "variance", ".3f")),
    ]
    show_table(f"{ROWS} rows, batches of {BATCH}; {chains} chains of {draws} draws", columns, rows)
    save_json(json_file, rows)


def _pairs(row: Row, name: str, form: str) -> str:
    values = zip(row[name], row[f"{name}_error"], strict=True)
    return "  ".join(f"{value:{form}} ({error:.3f})" for value, error in values)


def held_out(
    draws: Annotated[int, number("--draws", 1, "Draws of each chain, every 25th kept.")] = 2_000,
    seed: Seed = 0,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Predictive log loss on every fifth row of caravan: SGLD and pSGLD on batches of 100 beside a long gadMALA run."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.stochastic_gradient import held_out as measure

    with measuring():
        rows = list(measure(draws, seed, data_home))
    columns = [
        ("sampler", "{sampler}"),
        ("log loss", "{log_loss:.5f}"),
        ("ratio", "{ratio:.4f}"),
        ("of mean", "{log_loss_of_mean:.5f}"),
        ("mean sd", "{mean_sd:.3f}"),
        ("iterations", "{iterations:,}"),
        ("rows", "{rows_per_gradient:,}"),
        ("s", "{seconds:.1f}"),
    ]
    show_table("caravan, every fifth row held out, 4 chains", columns, rows)
    save_json(json_file, rows)


def objectives(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="The paper's or of the wild set; ripley, german and banana if none."),
    ] = None,
    chains: Annotated[int, number("--chains", 2, "Chains.")] = 16,
    warmup: Annotated[int, number("--warmup", 1, "Iterations to learn.")] = 2_000,
    draws: Annotated[int, number("--draws", 4, "Draws of each chain.")] = 2_000,
    seeds: Annotated[int, typer.Option(parser=whole("--seeds", 1), metavar="K", help="Seeds, from 0 on.")] = 3,
    data_home: DataHome = None,
    json_file: RowsFile = None,
) -> None:
    """Objectives, estimators, factors and proposals of Algorithm 1: effective draws by evaluation of the density."""
    check_rows(json_file)
    in_float64()
    from gadabout.lab.peers.objectives import objectives as measure
    from gadabout.lab.peers.objectives import summary

    names = targets or ["ripley", "german", "banana"]
    with measuring("objectives, estimators and proposals"):
        rows = list(measure(names, chains, warmup, draws, seeds, json_file, data_home))
    columns = [
        ("target", "{target}"),
        ("learned", "{method}"),
        ("accepted", "{acceptance_rate:.2f}"),
        ("R-hat", "{rhat:.3f}"),
        ("q/1,000", "{q_per_1000_evaluations:,.1f}"),
        ("with warm-up", "{with_warmup:,.1f}"),
        ("seconds", "{seconds:.1f}"),
    ]
    title = f"{chains} chains, {warmup:,} iterations to learn, {draws:,} draws: q by 1,000 evaluations"
    show_table(title, columns, summary(rows), left=2)


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
        number(
            "--chains",
            2,
            "Chains of every peer.",
            default=TUNED,
        ),
    ] = None,
    draws: Annotated[
        int | None, number("--draws", 4, "Draws kept of each chain of every peer.", default="tuned")
    ] = None,
    repeats: Repeats = 3,
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
    in_float64()
    from gadabout.lab.peers.peer_cold import cold as measure_cold
    from gadabout.lab.peers.peer_samplers import choose
    from gadabout.lab.peers.peers import TARGETS, compare

    rows = []
    with measuring():
        names, lacking = choose(peer or [])
    if lacking:
        print(f'left out, not installed: {", ".join(lacking)}; pip install "gadabout[peers]"')
    for name in targets or TARGETS:
        with measuring(f"peers on {name}"):
            found = compare(name, names, repeats, data_home, chains=chains, draws=draws, file=json_file)
        _show_peers(name, found, repeats)
        rows += found
        if cold:
            with measuring(f"peers on {name}, from the start of a process"):
                cold_rows = measure_cold(found, repeats, data_home, json_file)
            show_cold(name, cold_rows, repeats)
    _show_overall(rows)
    if plot is not None:
        from gadabout.lab.peers.peer_picture import draw

        with writing(plot):
            draw(rows, plot)


def _show_peers(name: str, rows: list[dict[str, Any]], repeats: int) -> None:
    columns = [
        ("peer", "{peer}"),
        ("draws", "{chains}×{draws}"),
        ("q", "{q:,.0f}"),
        ("q/s", _speed),
        ("ratio", lambda row: f"{row['ratio']:.2f}" if row["ratio"] is not None and row["repeats"] else ""),
        ("compile s", "{compile_seconds:.1f}"),
        ("run s", "{seconds:.2f}"),
        ("R-hat", _outcome),
    ]
    title = f"{name}: warm-up counted, median and range of {repeats}; without a range, of the tuning seed alone"
    show_table(title, columns, rows)


def _speed(row: Row) -> str:
    low, high = row["q_per_second_range"]
    return _short(row["q_per_second"]) + (f"\n{_short(low)}–{_short(high)}" if row["repeats"] else "")


def _outcome(row: Row) -> str:
    wrong = " wrong" if row["right"] is False else ""
    return f"{_rhat(row)}{wrong}{' failed' if row['failures'] else ''}"


def _rhat(row: Row) -> str:
    return "" if row["rhat_max"] is None else f"{row['rhat_max']:.3f}"


def _short(number: float) -> str:
    """A number as text; from ten thousand on in thousands, with the suffix k."""
    return f"{number:,.0f}" if number < 9_999.5 else f"{number / 1000:,.1f}k"


def show_cold(name: str, rows: list[dict[str, Any]], repeats: int) -> None:
    """Prints the seconds of whole processes; leaves them empty for a peer that would need too many draws."""
    made = lambda text: lambda row: "" if row["q"] is None else text(row)
    columns = [
        ("peer", "{peer}"),
        ("draws", lambda row: "too many" if row["q"] is None else f"{row['draws']:,}"),
        ("q", made("{q:,.0f}".format_map)),
        ("s, nothing compiled", made(lambda row: span(row, "empty_seconds", ".1f"))),
        ("s, all compiled", made(lambda row: span(row, "warm_seconds", ".1f"))),
    ]
    title = f"{name}: from the start of a process to q = 1,000, median of {repeats}"
    show_table(title, columns, rows)


def _show_overall(rows: list[dict[str, Any]]) -> None:
    from gadabout.lab.peers.peers import overall

    mean, count, failing = overall(rows)
    if mean is not None:
        print(f"gadabout's q/s over the best peer's, geometric mean (targets: {count}): {mean:.2f}")
    if failing:
        print(f"a run of gadabout failed, and counts for nothing, on: {', '.join(failing)}")


def samplers(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="Names of `gadabout list`; neal, german and caravan if none."),
    ] = None,
    sampler: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A row of the table, given once for each; all if none.")
    ] = None,
    chains: Annotated[int, number("--chains", 1, "Chains, pooled.")] = 4,
    draws: Annotated[int, number("--draws", 4, "Draws kept of each chain.")] = 5_000,
    warmup: Annotated[
        int | None, typer.Option(parser=whole("--warmup", 0), metavar="N", help="Warm-up; the sampler's own if none.")
    ] = None,
    seed: Seed = 0,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """All exact samplers side by side: q, the smallest of bulk ESS and ESS of (x - mean)^2, per second and gradient."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.samplers import samplers as measure

    rows = []
    for name in targets or ["neal", "german", "caravan"]:
        with measuring(f"samplers on {name}"):
            found = list(measure([name], chains, draws, seed, data_home, sampler, warmup))
        rows += found
        _show_samplers(f"{name}: {chains} chains of {draws} draws, warm-up counted", found)
    save_json(json_file, rows)


def _show_samplers(title: str, rows: list[dict[str, Any]]) -> None:
    by_gradient = lambda q: "no gradient" if q is None else f"{1000 * q:,.2f}"
    columns = [
        ("sampler", "{sampler}"),
        ("accept", "{acceptance_rate:.2f}"),
        ("q", "{q:,.0f}"),
        ("q/s", "{q_per_second:,.0f}"),
        ("q/1000 grad", lambda row: by_gradient(row["q_per_gradient"])),
        ("R-hat", _rhat),
        ("seconds", "{seconds:.1f}"),
    ]
    show_table(title, columns, sorted(rows, key=lambda row: -row["q_per_second"]), whole=len(columns))
