"""`gadabout bench`: measurements beside other programs."""

from typing import Annotated, Any

import typer

from gadabout.cli import (
    bench_costs,
    bench_minibatch,
    bench_objectives,
    bench_peers,
    bench_processes,
    bench_regret,
    bench_truth,
    bench_wait,
    bench_wild,
)
from gadabout.cli.counts import whole
from gadabout.cli.destinations import JsonFile
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import DataHome, in_float64, save, show_table

bench = typer.Typer(help="Measurements, made in one run on one machine and told as ratios.")


@bench.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Measurements, made in one run on one machine and told as ratios."""
    if context.invoked_subcommand is None:
        print(context.get_help())


bench.command("bias")(bench_minibatch.bias)
bench.command("costs")(bench_costs.costs)
bench.command("growth")(bench_costs.growth)
bench.command("held-out")(bench_minibatch.held_out)
bench.command("minibatch")(bench_minibatch.minibatch)
bench.command("objectives")(bench_objectives.objectives)
bench.command("peers")(bench_peers.peers)
bench.command("processes")(bench_processes.processes)
bench.command("regret")(bench_regret.regret)
bench.command("truth")(bench_truth.truth)
bench.command("wait")(bench_wait.wait)
bench.command("wild")(bench_wild.wild)


@bench.command("overhead")
def overhead(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]…", help="Names of `gadabout list`; neal and german if none.")
    ] = None,
    iterations: Annotated[
        int, typer.Option(parser=whole("--iterations", 1), metavar="N", help="Iterations of each phase.")
    ] = 20_000,
    repeats: Annotated[int, typer.Option(parser=whole("--repeats", 1), metavar="N", help="Repeats, interleaved.")] = 9,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Time per iteration of `sample()` beside a hand-written scan of gadMALA fast, one chain, float64."""
    in_float64(json_file)
    from gadabout.lab.peers.overhead import overhead as measure

    try:
        rows = measure(targets or ["neal", "german"], iterations, repeats, data_home)
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    headings = ("target", "phase", "µs/iter", "by hand", "ratio (range)", "compile s", "by hand")
    title = f"gadMALA fast, {iterations} iterations a phase, median of {repeats}"
    show_table(title, headings, map(_overhead_cells, rows), left=2, whole=0)
    save(rows, json_file)


@bench.command("samplers")
def samplers(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="Names of `gadabout list`; neal, german and caravan if none."),
    ] = None,
    chains: Annotated[int, typer.Option(parser=whole("--chains", 1), metavar="N", help="Chains, pooled.")] = 4,
    draws: Annotated[
        int, typer.Option(parser=whole("--draws", 4), metavar="N", help="Draws kept of each chain.")
    ] = 5_000,
    seed: Annotated[int, typer.Option(parser=whole("--seed", 0, 2**32 - 1), metavar="N", help="Seed.")] = 0,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """All exact samplers side by side: q, the smallest of bulk ESS and ESS of (x - mean)^2, per second and gradient."""
    in_float64(json_file)
    from gadabout.cli.progress import working
    from gadabout.lab.peers.samplers import samplers as measure

    rows = []
    try:
        for name in targets or ["neal", "german", "caravan"]:
            with working(f"samplers on {name}", True):
                found = list(measure([name], chains, draws, seed, data_home))
            rows += found
            _show_samplers(name, found, chains, draws)
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    save(rows, json_file)


def _overhead_cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = row["ratio_range"]
    return (
        row["target"],
        row["phase"],
        f"{row['sample_us']:.2f}",
        f"{row['by_hand_us']:.2f}",
        f"{row['ratio']:.2f} ({low:.2f}–{high:.2f})",
        f"{row['sample_compile_s']:.1f}",
        f"{row['by_hand_compile_s']:.1f}",
    )


def _show_samplers(name: str, rows: list[dict[str, Any]], chains: int, draws: int) -> None:
    headings = ("sampler", "accept", "q", "q/s", "q/1000 grad", "R-hat", "seconds")
    best_first = sorted(rows, key=lambda row: -row["q_per_second"])
    title = f"{name}: {chains} chains of {draws} draws, warm-up counted"
    show_table(title, headings, map(_sampler_cells, best_first), whole=len(headings))


def _sampler_cells(row: dict[str, Any]) -> tuple[str, ...]:
    per_gradient, r_hat = row["q_per_gradient"], row["rhat_max"]
    return (
        row["sampler"],
        f"{row['acceptance_rate']:.2f}",
        f"{row['q']:,.0f}",
        f"{row['q_per_second']:,.0f}",
        "no gradient" if per_gradient is None else f"{1000 * per_gradient:,.2f}",
        "" if r_hat is None else f"{r_hat:.3f}",
        f"{row['seconds']:.1f}",
    )
