"""The host's side of a run: compiles, sends off chunk after chunk, and keeps what they record."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.driver import loop
from gadabout.driver.feed import AbstractFeed
from gadabout.driver.progress import Progress
from gadabout.driver.sampler import Sampler
from gadabout.driver.schedule import Stage, lengths
from gadabout.driver.store import Store
from gadabout.target import Target

SECONDS_PER_CHUNK = 0.2


@dataclass
class History:
    """What a run leaves on the host: records of shape (num_chains, draws, ...) by name, and the account of its cost."""

    run: loop.Run
    warmup: dict[str, np.ndarray] = field(default_factory=dict)
    sampling: dict[str, np.ndarray] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: {"compile": 0.0, "warmup": 0.0, "sampling": 0.0})
    iterations: int = 0
    gradient_evaluations: int = 0
    interrupted: bool = False
    failure: str | None = None
    """why the run ended before its time, if it could not go on: a position that is not finite, no more batches"""


class Chunk(NamedTuple):
    """A chunk that was sent off: its iterations, the draws among them, its buffers and its sums."""

    length: int
    draws: int
    buffer: dict[str, jax.Array]
    tally: loop.Tally


@dataclass
class _Driver:
    sampler: Sampler
    target: Target
    history: History
    thinning: int
    select: Callable[[str, bool], bool]
    observers: Sequence[Callable[[Progress], object]]
    began: float
    feed: AbstractFeed | None = None
    chunk: int = 1
    t: int = 0
    """iterations sent off since the run's start"""

    def recorded(self, stage: Stage) -> dict[str, jax.ShapeDtypeStruct]:
        """What is recorded of an iteration, among all that it offers."""
        offered = loop.shapes(self.sampler, self.target, self.history.run, stage.adapt)
        return {name: offered[name] for name in sorted(offered) if self.select(name, stage.is_warmup)}

    def send(self, length: int, adapt: bool, fields: tuple[str, ...], sent: int = 0, total: int = 0) -> Chunk:
        """Sends one chunk off and returns at once, with arrays that are still being computed.

        Of a stage's `total` iterations `sent` went before. Where batches end the chunk is shorter, and the last one.
        """
        target = self.target
        if self.feed is not None:
            batches, found = self.feed.chunk(self.t, length)
            target = Target(target.logdensity, batches)
            if found < length:
                self.history.failure = f"the iterator of batches ended after {self.t + found} iterations"
                length = found
        self.history.run, buffer, tally = loop.advance(
            self.sampler, target, self.history.run, length, self.thinning, adapt, fields
        )
        self.t += length
        draws = -(-total // self.thinning) if sent + length == total else (sent + length) // self.thinning
        return Chunk(length, draws - sent // self.thinning, buffer, tally)

    def length(self, sent: int, longest: int, total: int) -> int:
        """Iterations of the next chunk: those of whole draws, unless the batches of one draw exceed a chunk."""
        length = min(self.thinning * max(1, self.chunk // self.thinning), longest, total - sent)
        if self.feed is None:
            return length
        whole = self.feed.capacity // self.thinning * self.thinning
        return min(length, whole or min(self.feed.capacity, self.thinning - sent % self.thinning))

    def stage(
        self, stage: Stage, total: int, interrupted: Callable[[], bool], before: int = 0, whole: int | None = None
    ) -> dict[str, np.ndarray]:
        """Runs a stage in chunks and returns its records; ends early, between chunks, when interrupted.

        While one chunk is computed, the records of the one before it are stored and told of. A window of a stage knows
        how many iterations of the `whole` lie before it.
        """
        recorded = self.recorded(stage)
        longest = self.thinning * loop.buffer_length(recorded)
        store = Store(recorded, -(-total // self.thinning))
        sent, ahead, last = 0, None, time.perf_counter()
        while True:
            behind, ahead = ahead, None
            if sent < total and not interrupted() and self.history.failure is None:
                ahead = self.send(self.length(sent, longest, total), stage.adapt, tuple(recorded), sent, total)
                sent += ahead.length
                ahead = ahead if ahead.length else None  # no batch was left
            if behind is None and ahead is None:
                return store.by_chain()
            if behind is not None:
                jax.block_until_ready(behind)
                elapsed, last = time.perf_counter() - last, time.perf_counter()
                self.chunk = max(1, min(4 * self.chunk, int(behind.length * SECONDS_PER_CHUNK / elapsed)))
                store.append(behind.buffer, behind.draws)
                if not np.all(behind.tally.finite):
                    self.fail(stage.name, behind, store)
                    return store.by_chain()
                done = before + sent - (ahead.length if ahead else 0)
                self.tell(stage.name, done, total if whole is None else whole, behind, elapsed)

    def fail(self, stage: str, chunk: Chunk, store: Store) -> None:
        """Ends the run at a chunk in which a position became infinite or NaN; draws from there on are not kept."""
        lost = np.flatnonzero(~np.asarray(chunk.tally.finite)).tolist()
        chains = "all chains" if len(lost) == np.size(chunk.tally.finite) else f"chains {lost}"
        store.drop_nonfinite(loop.POSITION, chunk.draws)
        self.history.failure = (
            f"the positions of {chains} are infinite or NaN since the {stage} stage; "
            f"{store.filled} draws of that stage are kept: use a smaller step size, or another start"
        )

    def finish(self, act: bool) -> None:
        """Ends a stage in which θ moved; compiles that and no more where `act` is False."""
        self.history.run = loop.finish(self.sampler, self.history.run, jnp.asarray(act))

    def tell(self, stage: str, done: int, total: int, chunk: Chunk, elapsed: float) -> None:
        """Adds a chunk to the account, and tells the observers."""
        history = self.history
        history.iterations += chunk.length
        history.gradient_evaluations += int(np.sum(np.asarray(chunk.tally.gradient_evaluations), dtype=np.int64))
        acceptance = float(np.mean(np.asarray(chunk.tally.acceptance))) / chunk.length
        since, speed = time.perf_counter() - self.began, chunk.length / elapsed
        for observer in self.observers:
            observer(Progress(stage, done, total, acceptance, history.gradient_evaluations, since, speed))


def drive(
    sampler: Sampler,
    target: Target,
    run: loop.Run,
    *,
    num_warmup: int,
    num_draws: int,
    thinning: int,
    select: Callable[[str, bool], bool],
    observers: Sequence[Callable[[Progress], object]] = (),
    interrupted: Callable[[], bool] = lambda: False,
    began: float | None = None,
    feed: AbstractFeed | None = None,
) -> History:
    """Runs warm-up and sampling from a started run; `run` is donated.

    A run that cannot go on ends early, and says why in `History.failure`.

    Args:
        num_warmup: warm-up iterations, shared among the schedule's stages.
        num_draws: draws to keep of each chain; `thinning` iterations are made for each.
        select: tells of a record's name, and of whether it is of warm-up, whether to keep it.
        observers: called with a `Progress` after every chunk.
        interrupted: asked before every chunk whether to end early.
        began: `time.perf_counter()` at the start of the call whose compile time is accounted for.
        feed: the source of batches, one for each iteration, if the target's data are one batch.
    """
    began = time.perf_counter() if began is None else began
    history = History(run)
    driver = _Driver(sampler, target, history, thinning, select, observers, began, feed)
    driver.t = 0 if feed is None else int(run.t)
    *warmup_stages, sampling_stage = sampler.schedule
    stages = [(stage, n) for stage, n in zip(warmup_stages, lengths(sampler.schedule, num_warmup), strict=True) if n]
    for stage in [*(stage for stage, _ in stages), sampling_stage]:
        driver.send(0, stage.adapt, tuple(driver.recorded(stage)))
    if stages:
        driver.finish(False)
    jax.block_until_ready(history.run.t)
    marks = [time.perf_counter()]
    warmup = []
    for stage, n in stages:
        windows = stage.windows(n)
        for i, window in enumerate(windows):
            warmup.append(driver.stage(stage, window, interrupted, sum(windows[:i]), n))
            driver.finish(stage.adapt)
    jax.block_until_ready(history.run.t)
    marks.append(time.perf_counter())
    history.sampling = driver.stage(sampling_stage, num_draws * thinning, interrupted)
    marks.append(time.perf_counter())
    history.interrupted = interrupted()
    names = set.intersection(*map(set, warmup)) if warmup else set()
    history.warmup = {name: _joined([records[name] for records in warmup]) for name in sorted(names)}
    history.seconds = dict(zip(("compile", "warmup", "sampling"), np.diff([began, *marks]).tolist(), strict=True))
    return history


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
