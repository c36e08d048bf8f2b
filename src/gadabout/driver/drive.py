"""The host's side of a run: compiles, sends off chunk after chunk, and keeps what they record."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from gadabout.driver import loop
from gadabout.driver.progress import Progress
from gadabout.driver.sampler import Sampler
from gadabout.driver.schedule import lengths
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


@dataclass
class _Driver:
    sampler: Sampler
    target: Target
    history: History
    thinning: int
    select: Callable[[str, bool], bool]
    observers: Sequence[Callable[[Progress], object]]
    began: float
    chunk: int = 1

    def recorded(self, adapt: bool) -> dict[str, jax.ShapeDtypeStruct]:
        """What is recorded of an iteration, among all that it offers."""
        offered = loop.shapes(self.sampler, self.target, self.history.run, adapt)
        return {name: offered[name] for name in sorted(offered) if self.select(name, adapt)}

    def send(self, length: int, adapt: bool, fields: tuple[str, ...]) -> tuple[int, dict[str, jax.Array], loop.Tally]:
        """Sends one chunk off and returns at once, with arrays that are still being computed."""
        self.history.run, buffer, tally = loop.advance(
            self.sampler, self.target, self.history.run, length, self.thinning, adapt, fields
        )
        return length, buffer, tally

    def stage(self, name: str, total: int, adapt: bool, interrupted: Callable[[], bool]) -> dict[str, np.ndarray]:
        """Runs a stage in chunks and returns its records; ends early, between chunks, when interrupted.

        While one chunk is computed, the records of the one before it are copied and told of.
        """
        recorded = self.recorded(adapt)
        longest = self.thinning * loop.buffer_length(recorded)
        store = Store(recorded, -(-total // self.thinning))
        sent = done = 0
        under_way: deque[tuple[int, dict[str, jax.Array], loop.Tally]] = deque()
        last = time.perf_counter()
        while under_way or (sent < total and not interrupted()):
            if sent < total and not interrupted():
                length = min(self.thinning * max(1, self.chunk // self.thinning), longest, total - sent)
                under_way.append(self.send(length, adapt, tuple(recorded)))
                sent += length
                if len(under_way) == 1 and sent < total:
                    continue
            length, buffer, tally = jax.block_until_ready(under_way.popleft())
            elapsed, last = time.perf_counter() - last, time.perf_counter()
            done += length
            self.chunk = max(1, min(4 * self.chunk, int(length * SECONDS_PER_CHUNK / elapsed)))
            store.append(buffer, -(-length // self.thinning))
            self.tell(name, done, total, length, elapsed, tally)
        return store.by_chain()

    def tell(self, stage: str, done: int, total: int, length: int, elapsed: float, tally: loop.Tally) -> None:
        """Adds a chunk to the account, and tells the observers."""
        history = self.history
        history.iterations += length
        history.gradient_evaluations += int(np.sum(np.asarray(tally.gradient_evaluations), dtype=np.int64))
        acceptance = float(np.mean(np.asarray(tally.acceptance))) / length
        since = time.perf_counter() - self.began
        for observer in self.observers:
            observer(Progress(stage, done, total, acceptance, history.gradient_evaluations, since, length / elapsed))


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
) -> History:
    """Runs warm-up and sampling from a started run; `run` is donated.

    Args:
        num_warmup: warm-up iterations, shared among the schedule's stages.
        num_draws: draws to keep of each chain; `thinning` iterations are made for each.
        select: tells of a record's name, and of whether θ is adapting, whether to keep it.
        observers: called with a `Progress` after every chunk.
        interrupted: asked before every chunk whether to end early.
        began: `time.perf_counter()` at the start of the call whose compile time is accounted for.
    """
    began = time.perf_counter() if began is None else began
    history = History(run)
    driver = _Driver(sampler, target, history, thinning, select, observers, began)
    warmup_lengths = lengths(sampler.schedule, num_warmup)
    for adapt in sorted({s.adapt for s, n in zip(sampler.schedule, [*warmup_lengths, 1], strict=True) if n}):
        driver.send(0, adapt, tuple(driver.recorded(adapt)))
    jax.block_until_ready(history.run.t)
    marks = [time.perf_counter()]
    stages = zip(sampler.schedule, warmup_lengths, strict=False)
    warmup = [driver.stage(s.name, n, s.adapt, interrupted) for s, n in stages if n]
    marks.append(time.perf_counter())
    sampling = sampler.schedule[-1]
    history.sampling = driver.stage(sampling.name, num_draws * thinning, sampling.adapt, interrupted)
    marks.append(time.perf_counter())
    history.interrupted = interrupted()
    names = set.intersection(*map(set, warmup)) if warmup else set()
    history.warmup = {name: _joined([records[name] for records in warmup]) for name in sorted(names)}
    history.seconds = dict(zip(("compile", "warmup", "sampling"), np.diff([began, *marks]).tolist(), strict=True))
    return history


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, 1)
