"""`gadabout bench`: comparisons with other programs; this module measures time and memory."""

from pathlib import Path
from statistics import geometric_mean
from typing import Annotated, Any

import typer

from gadabout.cli import bench_samplers, bench_sets
from gadabout.cli.errors import CliError
from gadabout.cli.measurements import in_float64, measuring, show_table, span
from gadabout.cli.options import DataHome, JsonFile, Repeats, check_json, number, save_json, whole

bench = typer.Typer(help="Measurements, made in one run on one machine and told as ratios.")


@bench.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Measurements, made in one run on one machine and told as ratios."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def costs(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]…", help="The paper's, by name; neal and german if none.")
    ] = None,
    chains: Annotated[int, number("--chains", 1, "Chains.")] = 16,
    draws: Annotated[int, number("--draws", 4, "Draws of each chain.")] = 2_000,
    repeats: Repeats = 3,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Time per gradient inside draws of split HMC beside the gradient alone; time per draw beside its noise alone."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.costs import costs as measure

    with measuring("gradients inside a run and alone"):
        rows = list(measure(targets or ["neal", "german"], chains, draws, repeats, data_home))
    columns = [
        ("target, draws by", "{target}\n{move}"),
        ("µs/grad", "{gradient_us:,.1f}"),
        ("alone", "{bare_us:,.1f}"),
        ("ratio", "{gradient_ratio:.2f}"),
        ("µs/draw", "{draw_us:,.1f}"),
        ("noise", "{noise_us:,.1f}"),
        ("ratio", "{noise_ratio:.1f}"),
    ]
    show_table(f"{chains} chains, for each of them, median of {repeats}", columns, rows, whole=7)
    save_json(json_file, rows)


def growth(
    dims: Annotated[
        list[int] | None,
        typer.Argument(parser=whole("DIM", 1), metavar="[DIM]…", help="Coordinates; 10 to 10,000 if none."),
    ] = None,
    chains: Annotated[int, number("--chains", 1, "1, 4, 16, … chains up to so many.")] = 1_024,
    json_file: JsonFile = None,
) -> None:
    """Time per iteration of all chains of some samplers on a Gaussian, as coordinates grow, and chains."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.costs import growth as measure

    counts = [4**k for k in range(chains.bit_length()) if 4**k <= chains]
    with measuring("iterations as problems grow"):
        rows = list(measure(dims or [10, 100, 1_000, 10_000], counts))
    columns = [
        ("sampler", "{sampler}"),
        ("n", "{n:,}"),
        ("chains", "{chains:,}"),
        ("warm-up, µs/iteration", "{warmup_us:,.1f}"),
        ("draws, µs/iteration", "{sampling_us:,.1f}"),
    ]
    show_table("all chains of an iteration", columns, rows)
    save_json(json_file, rows)


def minibatch(
    rows: Annotated[
        list[str] | None,
        typer.Option("--rows", metavar="N", help="Rows of the file; once or more. 100000 and 10000000 if none."),
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Memory of SGLD with control variates on memory-mapped files of different length, each in its own process."""
    numbers = [whole("--rows", 1_000, 10**9)(text) for text in rows or ["100000", "10000000"]]
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.stochastic_gradient import memory

    with measuring():
        found = [memory(number) for number in numbers]
    mebibytes = lambda size: f"{size / 2**20:.1f}"
    columns = [
        ("rows", "{rows:,}"),
        ("file MiB", lambda row: mebibytes(row["file_bytes"])),
        ("before MiB", lambda row: mebibytes(row["private_bytes_before"])),
        ("at most MiB", lambda row: mebibytes(row["private_bytes"])),
        ("added MiB", lambda row: mebibytes(row["private_bytes"] - row["private_bytes_before"])),
        ("seconds", "{seconds:.1f}"),
    ]
    show_table("Private memory (RssAnon), the pages of the mapped file not counted", columns, found)
    save_json(json_file, found)


def processes(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A name of `gadabout list`.")] = "german",
    most: Annotated[int, number("--processes", 1, "1, 2, 4, … up to so many.")] = 2,
    chains: Annotated[int, number("--chains", 1, "Chains in all, the same for each number.")] = 64,
    repeats: Repeats = 3,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Iterations per second over 1, 2, 4, … processes with a device each, and the share of time that sums take."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.processes import processes as measure

    counts = [2**k for k in range(most.bit_length())]
    if chains % counts[-1]:
        raise CliError(f"--chains {chains} must be a multiple of the {counts[-1]} processes")
    with measuring(f"gadMALA on {target} over processes"):
        rows = list(measure(target, counts, chains, repeats, data_home))
    share = lambda row: "" if row["communication"] is None else f"{100 * row['communication']:.0f} %"
    columns = [
        ("processes", "{processes}"),
        ("warm-up, 1000 it/s", "{warmup:,.1f}"),
        ("draws, 1000 it/s", "{sampling:,.1f}"),
        ("sums' share", share),
    ]
    title = f"gadMALA on {target}, {chains} chains in all, {rows[0]['cores']} cores, median of {repeats}"
    show_table(title, columns, rows, whole=0)
    save_json(json_file, rows)


def wait(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TARGET]…", help="The paper's names of `gadabout list`; six of them if none."),
    ] = None,
    repeats: Annotated[int, number("--repeats", 1, "Processes of each kind, interleaved.")] = 3,
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
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.wait import TARGETS
    from gadabout.lab.peers.wait import wait as measure

    with measuring("whole processes"):
        rows = measure(targets or TARGETS, repeats, data_home, against, peers)
    words = {"floor": "the floor", "second": "the second process", "against": str(against), "peer": "the quickest peer"}
    others = [other for other in words if other in rows[0]]
    columns = [("target", "{target}"), ("the default", lambda row: span(row, "default", ".2f"))]
    columns += [(words[other], lambda row, other=other: _beside(row, other)) for other in others]
    title = f"from the start of a process to the result of 16 × 1,000 draws, in seconds: median (range) of {repeats}"
    show_table(title, columns, rows)
    for other in others:
        mean = geometric_mean(row[f"ratio_to_{other}"] for row in rows)
        print(f"the default over {words[other]}, geometric mean: {mean:.2f}")
    save_json(json_file, rows)


def _beside(row: dict[str, Any], other: str) -> str:
    """Text of a cell: seconds of `other`, with the name of a peer, and the default's ratio to them."""
    name = f"{row['peer_name']}: " if other == "peer" else ""
    return f"{name}{span(row, other, '.2f')}\nratio {row[f'ratio_to_{other}']:.2f}"


def overhead(
    targets: Annotated[
        list[str] | None, typer.Argument(metavar="[TARGET]…", help="Names of `gadabout list`; neal and german if none.")
    ] = None,
    iterations: Annotated[int, number("--iterations", 1, "Iterations of each phase.")] = 20_000,
    repeats: Repeats = 9,
    data_home: DataHome = None,
    json_file: JsonFile = None,
) -> None:
    """Time per iteration of `sample()` beside a hand-written scan of gadMALA fast, one chain, float64."""
    check_json(json_file)
    in_float64()
    from gadabout.lab.peers.overhead import overhead as measure

    with measuring():
        rows = measure(targets or ["neal", "german"], iterations, repeats, data_home)
    columns = [
        ("target", "{target}"),
        ("phase", "{phase}"),
        ("µs/iter", "{sample_us:.2f}"),
        ("by hand", "{by_hand_us:.2f}"),
        ("ratio (range)", lambda row: span(row, "ratio", ".2f")),
        ("compile s", "{sample_compile_s:.1f}"),
        ("by hand", "{by_hand_compile_s:.1f}"),
    ]
    title = f"gadMALA fast, {iterations} iterations a phase, median of {repeats}"
    show_table(title, columns, rows, left=2, whole=0)
    save_json(json_file, rows)


for command in (
    bench_samplers.bias,
    bench_sets.call,
    bench_sets.constants,
    costs,
    bench_sets.gallery,
    growth,
    bench_samplers.held_out,
    minibatch,
    bench_samplers.objectives,
    bench_samplers.peers,
    bench_sets.posteriordb,
    processes,
    bench_sets.regret,
    bench_sets.truth,
    wait,
    bench_sets.wild,
    overhead,
    bench_samplers.samplers,
):
    bench.command()(command)
