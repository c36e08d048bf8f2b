"""Chunk after chunk: one is computed while the records of the one before it are stored and told of."""

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from gadabout.driver import loop, processes
from gadabout.driver.checkpoint import Account
from gadabout.driver.programs import LONG_WARMUP, asks_the_host
from gadabout.driver.progress import Progress
from gadabout.driver.records import Records
from gadabout.driver.until import Until
from gadabout.executables import operations
from gadabout.minibatch import AbstractFeed
from gadabout.sampler import Sampler

SECONDS_PER_CHUNK = 0.2
FIRST_CHUNK = 64
"""iterations of a chunk at most where their pace is unknown"""
ALONE = 100_000.0
"""operations of a gradient up to which a CPU makes chains of uneven work one by one, unless it is told otherwise

(NUTS, 16 chains, warm-up and draws: 1.8 times as fast on Ripley, with 14,000 operations, 5 on a stochastic volatility
with 30,000, and four on Neal with 600; 1.1 times as slow on German, with 140,000, twice on Caravan, with 2,000,000.
Bodies of loops are counted once: 1.4 times as slow on Lotka and Volterra's equations, but faster on a hidden Markov
model. Functions of the host, which nobody can count, are given all chains at once.)
"""


@dataclass(frozen=True)
class Settings:
    """What is asked of a run; `mesh` has one axis, over which chains are laid, `chain_block` of them at a time."""

    num_chains: int
    num_warmup: int
    num_draws: int
    thinning: int = 1
    pooled: bool = True
    until: Until | None = None
    mesh: Mesh | None = None
    chain_block: int | None = None


@dataclass(frozen=True)
class Segment:
    """What a chunk is a part of: a stage of `total` iterations, `done` of them made; `end` is the next stop in it."""

    stage: str
    done: int
    end: int
    total: int
    adapt: bool
    warmup: bool


class Chunk(NamedTuple):
    """A chunk that was sent off: of which segment, its length, its buffers and its sums, and when."""

    segment: Segment
    length: int
    buffer: dict[str, jax.Array]
    tally: loop.Tally
    sent: float


class Pipeline:
    """Sends chunks off, waits for them, stores what they record, and keeps the account of what they cost."""

    def __init__(
        self,
        dim: int,
        settings: Settings,
        records: Records,
        observers: Sequence[Callable[[Progress], object]],
        began: float,
        feed: AbstractFeed | None,
    ):
        self.dim, self.settings, self.records = dim, settings, records
        self.target: Any = None
        """of compiled stages"""
        self.observers, self.began, self.feed = observers, began, feed
        self.account = Account({"compile": 0.0, "warmup": 0.0, "sampling": 0.0}, 0, 0, 1)
        self.failure: str | None = None
        self.cause: Exception | None = None
        """what somebody else's code raised, if that is why the run cannot go on"""
        self.t = 0
        """iterations sent off since the run's start"""
        self._mark = began
        self._pending: Chunk | None = None

    def chunk(self, sampler: Sampler, run: loop.Run, segment: Segment) -> tuple[loop.Run, int]:
        """The next chunk of a segment: the run, still being computed, and its iterations."""
        recorded = self.records.shapes(sampler, self.target, run, segment.adapt, segment.warmup)
        length = self._length(run, recorded, segment)
        run, ahead = self.send(sampler, run, segment, length, tuple(recorded))
        self.store()
        self._pending = ahead if ahead.length else None
        return run, ahead.length

    def send(
        self,
        sampler: Sampler,
        run: loop.Run,
        segment: Segment,
        length: int,
        fields: tuple[str, ...],
    ) -> tuple[loop.Run, Chunk]:
        """Sends one chunk off and returns at once. Where batches end the chunk is shorter, and the last one."""
        thinning, batches = self.settings.thinning, None
        if self.feed is not None:
            batches, found = self.feed.chunk(self.t, length)
            if found < length:
                self.failure = f"the iterator of batches ended after {self.t + found} iterations"
                length = found
        sent = time.perf_counter()
        offset = segment.done % thinning
        run, buffer, tally = loop.advance(
            sampler, self.target, run, length, thinning, segment.adapt, fields,
            offset=offset, batches=batches, **self._how(run),
        )  # fmt: skip
        self.t += length
        if processes.several(self.settings.mesh):
            buffer, tally = loop.gather((buffer, tally), self.settings.mesh)
        return run, Chunk(segment, length, buffer, tally, sent)

    def _how(self, run: loop.Run) -> dict[str, Any]:
        """How chunks are laid out and compiled."""
        settings, block = self.settings, self.settings.chain_block
        if block is None and run.pools.kernel.uneven and self._cheap:
            block = 1
        return {"mesh": settings.mesh, "block": block, "optimised": settings.num_warmup >= LONG_WARMUP}

    @functools.cached_property
    def _cheap(self) -> bool:
        """Whether a CPU gains little by making the gradients of several chains at once: counted, not timed."""
        if jax.default_backend() != "cpu":
            return False
        gradient = lambda target, x: target.at(x, 1)
        called = gradient, self.target, jnp.zeros(self.dim)
        return operations(*called) <= ALONE and not asks_the_host(*called)

    def wait(self) -> None:
        """Waits for the chunk under way, and sets the length of the next by its time."""
        chunk = self._pending
        if chunk is not None:
            awaited((chunk.buffer, chunk.tally))
            self._pace(chunk.length, time.perf_counter() - chunk.sent)

    def unknown_pace(self) -> None:
        """Goes on in short chunks: of what is run next, nobody knows how long an iteration takes."""
        self.account = replace(self.account, chunk=min(self.account.chunk, FIRST_CHUNK))

    def abandon(self) -> None:
        """Forgets the chunk under way, which failed."""
        self._pending = None

    def store(self) -> None:
        """Stores the records of the chunk under way once it is done, adds it to the account, and tells of it."""
        chunk, self._pending = self._pending, None
        if chunk is None:
            return
        awaited(chunk.tally)
        elapsed, segment = time.perf_counter() - chunk.sent, chunk.segment
        done = segment.done + chunk.length
        store = lambda: self.records.store(
            chunk.buffer, segment.warmup, done, chunk.length, segment.total, self.settings.thinning
        )
        kept = self.guarded(store)
        if kept is None:
            return
        self._judge(chunk, kept)
        gradients = int(np.sum(np.asarray(chunk.tally.gradient_evaluations), dtype=np.int64))
        acceptance = float(np.mean(np.asarray(chunk.tally.acceptance))) / chunk.length
        self._done(segment, chunk.length, gradients, acceptance, elapsed)

    def keep(self, segment: Segment, draws: dict[str, np.ndarray], gradients: int, began: float) -> None:
        """Stores draws (t, chains, ...) that a host stage made since `began`; `gradients` counts those of the run."""
        length, thinning = len(draws["lp"]), self.settings.thinning
        done, elapsed = segment.done + length, max(time.perf_counter() - began, 1e-9)
        ends = np.arange(segment.done + 1, done + 1)
        rows = {name: values[ends % thinning == 0] for name, values in draws.items()}
        store = lambda: self.records.keep(rows, segment.warmup)
        if self.guarded(store) is None:
            return
        self.t += length
        self._pace(length, elapsed)
        added = gradients - self.account.gradient_evaluations
        self._done(segment, length, added, float(draws["acceptance_rate"].mean()), elapsed)

    def _pace(self, length: int, elapsed: float) -> None:
        """Sets the length of the next chunk by the time of one."""
        longest = max(1, min(8 * self.account.chunk, int(length * SECONDS_PER_CHUNK / elapsed)))
        self.account = replace(self.account, chunk=longest)

    def _done(self, segment: Segment, length: int, gradients: int, acceptance: float, elapsed: float) -> None:
        """Adds iterations that were stored, and their gradients, to the account, and tells of them."""
        self.clock("warmup" if segment.warmup else "sampling")
        gradients, since = self.add(length, gradients), time.perf_counter() - self.began
        progress = segment.stage, segment.done + length, segment.total, acceptance, gradients, since, length / elapsed
        self._tell(Progress(*progress))

    def guarded[T](self, write: Callable[[], T]) -> T | None:
        """What a function returns that writes to the sink; where the disk does not let it, the run ends, with None."""
        try:
            return write()
        except OSError as error:
            self.failure, self.cause = f"the records could not be written: {error}", error
            return None

    def _tell(self, progress: Progress) -> None:
        """Tells the observers; one that raises ends the run, and no draw is lost."""
        for observer in self.observers:
            try:
                observer(progress)
            except Exception as error:
                self.observers, self.cause = (), error
                self.failure = f"the callback raised {type(error).__name__}: {error}"
                return

    def add(self, iterations: int, gradients: int) -> int:
        """Adds work to the account; returns all gradients so far."""
        iterations, gradients = self.account.iterations + iterations, self.account.gradient_evaluations + gradients
        self.account = replace(self.account, iterations=iterations, gradient_evaluations=gradients)
        return gradients

    def clock(self, name: str) -> None:
        """Puts the time since the last call to an account: "compile", "warmup" or "sampling"."""
        now = time.perf_counter()
        self.account.seconds[name] += now - self._mark
        self._mark = now

    def every(self, until: Until) -> int:
        """Iterations between two evaluations of a rule: whole draws."""
        return self.settings.thinning * until.every

    def _length(self, run: loop.Run, recorded: dict, segment: Segment) -> int:
        """As long as the time of the last chunk says, and as a buffer, the batches and the next evaluation allow."""
        thinning = self.settings.thinning
        length = thinning * loop.buffer_length(recorded) - segment.done % thinning
        length = min(length, self.account.chunk, segment.end - segment.done)
        if self.feed is not None:
            length = min(length, self.feed.capacity)
        if self.settings.until is not None and not segment.warmup:
            every = self.every(self.settings.until)
            length = min(length, every - segment.done % every)
        return length

    def _judge(self, chunk: Chunk, kept: int) -> None:
        """Notes a chunk in which a position became infinite or NaN: the run cannot go on after it."""
        if np.asarray(chunk.tally.finite).all():
            return
        lost = np.flatnonzero(~np.asarray(chunk.tally.finite)).tolist()
        chains = "all chains" if len(lost) == np.size(chunk.tally.finite) else f"chains {lost}"
        before = (chunk.segment.done // self.settings.thinning) + kept
        self.failure = (
            f"the positions of {chains} are infinite or NaN since the {chunk.segment.stage} stage; "
            f"{before} draws of that stage are kept: use a smaller step size, or another start"
        )


def awaited(tree: PyTree) -> None:
    """Returns once arrays are computed. Python hears of signals meanwhile, which it does not while it is blocked."""
    pause, leaves = 5e-5, jax.tree.leaves(tree)  # found once: whoever waits leaves the processor to what is computed
    while not all(leaf.is_ready() for leaf in leaves):
        time.sleep(pause)
        pause = min(1.02 * pause, 5e-3)  # the last one is a fiftieth of the wait, or the first
    jax.block_until_ready(leaves)  # raises what the program raised
