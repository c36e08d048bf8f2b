"""Work of a stage's own, aside from the iterations that are kept: the descent, trials, and looks before draws."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.driver import loop
from gadabout.driver.descend import MOST_TURNS, Landing, land, nobody
from gadabout.driver.pipeline import Chunk, Segment
from gadabout.driver.programs import blank, program, ready, shapes_of
from gadabout.driver.scout import MOST_COORDINATES, Scouts, look_round, scouts_of, send_out
from gadabout.factors import FactorKind
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import Judge, Warm, evidence

JUDGED = (loop.POSITION, "acceptance_rate", "lp", "gradient_evaluations", "diverging")
"""the records by which iterations are judged"""
ANEW = 250
"""iterations at most in which a sampler learns again"""

if TYPE_CHECKING:
    from gadabout.driver.services import Services


def descend_ahead(services: "Services", positions: Any, kind: FactorKind) -> list[Future]:
    """Compiles, in other threads, what `descend` runs from positions."""
    if services.known:
        return []
    landed = land.ahead(*_walk(services, positions, kind))
    return [landed, send_out.ahead(*_scouts(services, positions))] if _may_scout(services) else [landed]


def descend(services: "Services", warm: Warm, kind: FactorKind) -> Warm:
    """The warm state with chains in the typical set, and a first Gaussian."""
    positions: Any = warm.positions if warm.positions is not None else services.search(warm).positions
    pipeline = services.pipeline
    ready(descend_ahead(services, positions, kind))
    pipeline.clock("compile")
    sent = time.perf_counter()
    landing = land(*_walk(services, positions, kind))
    scouts = send_out(*_scouts(services, positions)) if _may_scout(services) else None
    if np.asarray(landing.outside).any():
        landing = land(*_walk(services, landing.positions, kind, landing))
    jax.block_until_ready(landing)
    pipeline.clock("warmup")
    pipeline.foresee((time.perf_counter() - sent) * len(positions) / int(landing.evaluations))
    pipeline.add_aside(0, int(landing.evaluations))
    services.note({"distinct_starts": int(landing.distinct), "apart": bool(landing.apart)})
    found = landing.positions if scouts is None else _elsewhere(services, scouts, landing)
    return replace(warm, positions=found, learned=landing.learned)


def _elsewhere(services: "Services", scouts: Scouts, landing: Landing) -> Any:
    """Where chains stand, every second of them in a mode that only scouts have found, as long as there are such.

    None goes further where the log density looks concave.
    """
    pipeline, chains = services.pipeline, len(landing.positions)
    pipeline.add_aside(0, scouts_of(chains) + chains)
    if not scouts.convex:
        return landing.positions
    assert landing.learned.factor is not None
    known = services.target, scouts.starts, landing.positions, landing.learned.factor, jnp.asarray(MOST_TURNS)
    ready([look_round.ahead(*known)])
    pipeline.clock("compile")
    report = look_round(*known)
    elsewhere = np.flatnonzero(report.elsewhere)[: chains // 2]
    pipeline.clock("warmup")
    pipeline.add_aside(0, int(report.evaluations))
    services.note({"started_elsewhere": len(elsewhere)})
    moved = 2 * np.arange(len(elsewhere)) + 1
    return landing.positions.at[moved].set(report.positions[elsewhere])


def _walk(services: "Services", positions: Any, kind: FactorKind, before: Landing | None = None) -> tuple:
    """What `land` is called with."""
    before = before or jax.tree.map(blank, shapes_of(nobody, positions, kind))
    return services.target, positions, kind, jnp.asarray(MOST_TURNS), before


def _may_scout(services: "Services") -> bool:
    """Not where the user says where each chain starts."""
    several = services.settings.num_chains > 1 and services.starts.tries > 1
    return several and services.starts.layout.dim <= MOST_COORDINATES


def _scouts(services: "Services", starts: Any) -> tuple:
    """What `send_out` is called with."""
    return services.target, starts, services.keys.start


def trial(services: "Services", sampler: Sampler, warm: Warm, num_iterations: int) -> tuple[Warm, np.ndarray, float]:
    """A sampler learns for half of the iterations; where that leaves chains, the second half's draws, its cost."""
    run, half = services.start(sampler, warm), max(2, num_iterations // 2)
    fields = (loop.POSITION, "gradient_evaluations")
    run, _ = _ahead(services, sampler, run, half, True, fields)
    run = services.settle(sampler, services.end_window(sampler, run, sampler.adaptation.ending(1, 1)))
    run, seen = _ahead(services, sampler, run, half, False, fields)
    warm = replace(services.hand_over(run), positions=loop.positions(services.gathered(run.pools)), pools=None)
    return warm, seen[loop.POSITION], float(seen["gradient_evaluations"].mean())


def look(
    services: "Services", sampler: Sampler, run: loop.Run, num_iterations: int
) -> tuple[loop.Run, np.ndarray, dict[str, np.ndarray]]:
    """Iterations with θ standing still: positions (t, num_chains, n), and statistics.

    They are made by the program that learned, where it can: it is there. Else by that which draws.
    """
    ready([] if services.known else [look_ahead(services, sampler, run)])
    services.pipeline.clock("compile")
    looking, adapt, fields = _looked_with(services, sampler, run)
    windows = loop.no_windows(sampler.adaptation) if adapt else None
    sent = time.perf_counter()
    run, seen = _ahead(services, looking, run, num_iterations, adapt, fields, windows)
    services.pipeline.paced(num_iterations, time.perf_counter() - sent)
    services.pipeline.clock("warmup")
    return run, seen.pop(loop.POSITION), seen


def look_ahead(services: "Services", sampler: Sampler, run: loop.Run) -> Future:
    """Compiles, in another thread, what `look` runs."""
    looking, adapt, fields = _looked_with(services, sampler, run)
    return services.pipeline.ahead(looking, run, adapt, fields)


seen_by = program(evidence.seen_by, brief=True)


def seen_ahead(services: "Services", judge: Judge, run: loop.Run) -> Future:
    """Compiles, in another thread, what tells how the Gaussian of a run sees the draws that are looked at."""
    gaussian = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), judge.where(run.pools.kernel))
    draws = judge.usual_length(services) * services.settings.num_chains
    return seen_by.ahead(gaussian.factor, gaussian.mean, np.zeros((draws, services.starts.layout.dim)))


def _looked_with(services: "Services", sampler: Sampler, run: loop.Run) -> tuple[Sampler, bool, tuple[str, ...]]:
    """The program that looks: of which sampler, whether it is the one that learns, and what it records.

    That is what the program records that it is besides, and what judges ask for.
    """
    if services.pipeline.looks(sampler):
        return sampler, True, _learned_by(services, sampler, run)
    drawing = services.drawing(sampler)
    offered = loop.shapes(drawing, services.target, run, False)
    recorded = (name for name in sorted(offered) if services.records.select(name, False))
    return drawing, False, tuple(dict.fromkeys((*recorded, *(name for name in JUDGED if name in offered))))


def learn_anew(
    services: "Services", sampler: Sampler, run: loop.Run, where: Callable, sources: np.ndarray, draws: np.ndarray
) -> loop.Run:
    """Chains start again where others stand, from the Gaussian of draws (draws, n), and the sampler learns again."""
    factor, x = services.fitted(run, where).factor, loop.positions(services.gathered(run.pools))
    covariance = draws.var(0) + np.finfo(draws.dtype).tiny
    if len(factor.covariance_shape()) > 1:
        covariance = np.diag(0.1 * covariance) + 0.9 * np.cov(draws.T).reshape(draws.shape[1], -1)
    fitted = factor.fitted(jnp.asarray(covariance, x.dtype))
    learned = Learned(jnp.asarray(draws.mean(0), x.dtype), fitted)
    run = services.start(sampler, Warm(run.chain_keys, run.t, x[jnp.asarray(sources)], learned))
    recorded, done = _learned_by(services, sampler, run), 0

    def unkept(run, end, windows):
        run, chunk, settled = _unkept(services, sampler, run, end - done, True, recorded, windows)
        return run, chunk.length, settled

    while done < ANEW:
        run, done = services.learn_by(unkept, sampler, run, done, ANEW)
    return services.settle(sampler, run)


def _learned_by(services: "Services", sampler: Sampler, run: loop.Run) -> tuple[str, ...]:
    """What is recorded by the program by which a sampler learned."""
    return tuple(services.records.buffered(sampler, services.target, run, True, True))


def _ahead(
    services: "Services",
    sampler: Sampler,
    run: loop.Run,
    num_iterations: int,
    adapt: bool,
    fields: tuple[str, ...],
    windows: loop.Windows | None = None,
) -> tuple[loop.Run, dict[str, np.ndarray]]:
    """Iterations that nobody keeps, and their records, each of shape (num_iterations, num_chains, ...).

    Raises RuntimeError where batches end before that.
    """
    parts, done = [], 0
    while done < num_iterations:
        run, chunk, _ = _unkept(services, sampler, run, num_iterations - done, adapt, fields, windows)
        done += chunk.length
        parts.append({name: np.array(rows)[: chunk.length] for name, rows in chunk.buffer.items()})
    shape = (done, services.settings.num_chains)
    whole = {name: np.concatenate([part[name] for part in parts]) for name in fields}
    return run, {name: rows.reshape(*shape, *rows.shape[3:]) for name, rows in whole.items()}


def _unkept(
    services: "Services",
    sampler: Sampler,
    run: loop.Run,
    most: int,
    adapt: bool,
    fields: tuple[str, ...],
    windows: loop.Windows | None = None,
) -> tuple[loop.Run, Chunk, bool]:
    """One chunk of iterations that nobody keeps, `most` at the most, and whether θ has settled where windows end in it.

    Raises RuntimeError where batches end before that.
    """
    pipeline = services.pipeline
    offered = services.records.offered(sampler, services.target, run, adapt, fields)
    length = min(loop.buffer_length(offered, loop.block_of(run, adapt)), most)
    run, chunk = pipeline.send(
        sampler, run, Segment("choose", 0, length, length, adapt, True), length, fields, 1, windows
    )
    if not chunk.length:
        raise RuntimeError(f"{pipeline.failure}, before a sampler was chosen")
    chunk, settled = (chunk, False) if windows is None else pipeline.shortened(chunk)
    pipeline.add_aside(chunk.length, int(np.sum(np.asarray(chunk.tally.gradient_evaluations))))
    return run, chunk, settled
