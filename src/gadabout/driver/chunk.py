"""Chunks of iterations: the length of the next one, and the storage of finished ones.

One chunk is computed while the records of the previous one are stored and reported.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from gadabout.diagnostics import spacing_of
from gadabout.driver import devices, loop
from gadabout.driver.checkpoint import Account
from gadabout.driver.display import Progress
from gadabout.driver.records import Records
from gadabout.driver.stopping import Failed, Satisfied, Until


@dataclass(frozen=True)
class Settings:
    """Settings of a run; `mesh` has one axis, over which chains are distributed, `chain_block` of them at a time."""

    num_chains: int
    num_warmup: int
    num_draws: int
    thinning: int = 1
    pooled: bool = True
    until: Until | None = None
    mesh: Mesh | None = None
    chain_block: int | None = None

    @property
    def iterations_between_rules(self) -> int | None:
        """Iterations between two evaluations of `until`, in whole draws; None without it."""
        return None if self.until is None else self.thinning * self.until.every


@dataclass(frozen=True)
class Segment:
    """The part of a stage that a chunk belongs to: `done` of `total` iterations are made, `end` is the next stop."""

    stage: str
    done: int
    end: int
    total: int
    adapt: bool
    warmup: bool


class Chunk(NamedTuple):
    """A submitted chunk: its segment, length, buffers and sums, and the time of its submission."""

    segment: Segment
    length: int
    buffer: dict[str, jax.Array]
    tally: loop.Tally
    sent: float


class ChunkLength:
    """The iterations of the next chunk: those that take `SECONDS` at the last one's pace; no draw depends on it.

    It grows at most eightfold at a time.
    """

    SECONDS = 0.2
    LONGEST = 2**30
    """most iterations; processes exchange the number in 32 bits"""
    UNKNOWN = 64
    """most iterations while their pace is unknown"""

    def __init__(self, iterations: int = 1):
        self.iterations = iterations

    def update(self, iterations: int, seconds: float) -> None:
        """Sets the length by the time that a chunk took."""
        paced = int(iterations * self.SECONDS / seconds)
        self.iterations = max(1, min(8 * self.iterations, paced, self.LONGEST))

    def forget_pace(self) -> None:
        """Limits the length, for iterations that may take much longer than those before."""
        self.iterations = min(self.iterations, self.UNKNOWN)


class Pipeline:
    """Waits for chunks, stores their records, reports progress, and counts the costs."""

    def __init__(
        self, settings: Settings, records: Records, observers: Sequence[Callable[[Progress], object]], began: float
    ):
        self.settings, self.records, self.observers, self.began = settings, records, observers, began
        self.seconds = {"compile": 0.0, "warmup": 0.0, "sampling": 0.0}
        self.iterations = self.gradient_evaluations = 0
        self.chunk_length = ChunkLength()
        self.failure: str | None = None
        self.cause: Exception | None = None
        """the error of code outside the library that ended the run, if there is one"""
        self.t = 0
        """iterations submitted since the run's start"""
        self._mark = began
        self._pending: Chunk | None = None

    @property
    def account(self) -> Account:
        """The costs so far."""
        return Account(dict(self.seconds), self.iterations, self.gradient_evaluations, self.chunk_length.iterations)

    def restore(self, t: int, account: Account) -> None:
        """Continues after `t` iterations with their costs."""
        self.t, self.seconds, self.iterations = t, dict(account.seconds), account.iterations
        self.gradient_evaluations, self.chunk_length.iterations = account.gradient_evaluations, account.chunk

    def length(self, segment: Segment) -> int:
        """Iterations of the next chunk: by its pace, up to the segment's end and the next evaluation of `until`."""
        length, every = min(self.chunk_length.iterations, segment.end - segment.done), None
        if not segment.warmup:
            every = self.settings.iterations_between_rules
        return length if every is None else min(length, every - segment.done % every)

    def push(self, chunk: Chunk) -> None:
        """Takes a submitted chunk, and stores the previous one meanwhile."""
        self.t += chunk.length
        self.store()
        self._pending = chunk if chunk.length else None

    def wait(self) -> None:
        """Waits for the current chunk, and sets the length of the next one by its time."""
        if (chunk := self._pending) is not None:
            awaited((chunk.buffer, chunk.tally))
            self.chunk_length.update(chunk.length, time.perf_counter() - chunk.sent)

    def store(self) -> None:
        """Waits for the current chunk, stores its records, adds it to the account, and reports it."""
        chunk, self._pending = self._pending, None
        if chunk is None:
            return
        awaited(chunk.tally)
        elapsed, segment = time.perf_counter() - chunk.sent, chunk.segment
        done, thinning = segment.done + chunk.length, self.settings.thinning
        write = lambda: self.records.store(chunk.buffer, segment.warmup, done, chunk.length, segment.total, thinning)
        if (kept := self.guarded(write)) is None:
            return
        self._check_finite(chunk, kept)
        gradients = int(np.sum(np.asarray(chunk.tally.gradient_evaluations), dtype=np.int64))
        acceptance = float(np.mean(np.asarray(chunk.tally.acceptance))) / chunk.length
        self._stored(segment, chunk.length, gradients, acceptance, elapsed)

    def keep(self, segment: Segment, draws: dict[str, np.ndarray], gradients: int, began: float) -> None:
        """Stores draws (t, chains, ...) that a host stage made since `began`; `gradients` counts the whole run's."""
        length, elapsed = len(draws["lp"]), max(time.perf_counter() - began, 1e-9)
        last = np.arange(segment.done + 1, segment.done + length + 1) % self.settings.thinning == 0
        rows = {name: values[last] for name, values in draws.items()}
        if self.guarded(lambda: self.records.keep(rows, segment.warmup)) is None:
            return
        self.t += length
        self.chunk_length.update(length, elapsed)
        acceptance = float(draws["acceptance_rate"].mean())
        self._stored(segment, length, gradients - self.gradient_evaluations, acceptance, elapsed)

    def _stored(self, segment: Segment, length: int, gradients: int, acceptance: float, elapsed: float) -> None:
        """Adds stored iterations and their gradients to the account, and calls the observers.

        An exception in an observer ends the run; all draws are kept.
        """
        self.clock("warmup" if segment.warmup else "sampling")
        self.iterations += length
        self.gradient_evaluations += gradients
        progress = Progress(
            segment.stage, segment.done + length, segment.total, acceptance, self.gradient_evaluations,
            time.perf_counter() - self.began, length / elapsed,
        )  # fmt: skip
        for observer in self.observers:
            try:
                observer(progress)
            except Exception as error:
                self.observers = ()
                self.fail(f"the callback raised {type(error).__name__}: {error}", error)
                return

    def agreed(self, interrupted: bool) -> tuple[bool, bool, bool]:
        """Whether to stop, whether the run failed, whether a checkpoint is due: the same in all processes.

        The length of the next chunk becomes the same in all processes too.
        """
        mine = interrupted, self.failure is not None, self.records.sink.due(), self.chunk_length.iterations
        rows = devices.allgather(self.settings.mesh, *mine)
        self.chunk_length.iterations = int(rows[devices.LEADER, 3])
        return bool(rows[:, 0].any()), bool(rows[:, 1].any()), bool(rows[devices.LEADER, 2])

    def failed(self) -> Failed | None:
        """`Failed` if the run could not continue, in this process or another; otherwise None."""
        rows = devices.allgather(self.settings.mesh, self.failure is not None)
        if not rows.any():
            return None
        return Failed(self.failure or f"process {int(np.argmax(rows))} could not go on; it says why")

    def satisfied(self, done: int) -> Satisfied | None:
        """`Satisfied` if draws of `done` iterations meet the rule of `until`, which the leader evaluates; else None."""
        settings, reason = self.settings, None
        if devices.leads(settings.mesh):
            spacing = spacing_of(settings.num_chains, done // settings.thinning)
            reason = settings.until and settings.until.met(self.records.draws(spacing), self.seconds["sampling"])
        met = devices.allgather(settings.mesh, reason is not None)[devices.LEADER].any()
        return Satisfied(reason or f"process {devices.LEADER} found it met") if met else None

    def guarded[T](self, write: Callable[[], T]) -> T | None:
        """The value of a function that writes to the sink; None, and the run fails, if the disk is full or missing."""
        try:
            return write()
        except OSError as error:
            self.fail(f"the records could not be written: {error}", error)
            return None

    def fail(self, reason: str, cause: Exception | None = None) -> None:
        """Records why the run cannot continue."""
        self.failure, self.cause = reason, cause

    def abandon(self) -> None:
        """Discards the current chunk, which failed."""
        self._pending = None

    def clock(self, name: str) -> None:
        """Adds the time since the last call to an account: "compile", "warmup" or "sampling"."""
        now = time.perf_counter()
        self.seconds[name] += now - self._mark
        self._mark = now

    def _check_finite(self, chunk: Chunk, kept: int) -> None:
        """Lets the run fail after a chunk in which a position became infinite or NaN."""
        finite = np.asarray(chunk.tally.finite)
        if finite.all():
            return
        chains = "all chains" if not finite.any() else f"chains {np.flatnonzero(~finite).tolist()}"
        before = (chunk.segment.done // self.settings.thinning) + kept
        self.fail(
            f"the positions of {chains} are infinite or NaN since the {chunk.segment.stage} stage; "
            f"{before} draws of that stage are kept: use a smaller step size, or another start"
        )


def awaited(tree: PyTree) -> None:
    """Returns once arrays are computed. It polls, because Python handles no signals while it is blocked."""
    pause, leaves = 5e-5, jax.tree.leaves(tree)
    while not all(leaf.is_ready() for leaf in leaves):
        time.sleep(pause)
        pause = min(1.02 * pause, 5e-3)  # the last pause is a fiftieth of the wait, or the first pause
    jax.block_until_ready(leaves)  # raises what the program raised
