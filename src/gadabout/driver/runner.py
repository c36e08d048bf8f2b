"""Compiled stages of a run: the start, chunks, the ends of windows, the handover; the random keys."""

import time
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gadabout.adaptations import Pool
from gadabout.driver import devices, limits, loop
from gadabout.driver.chunk import Chunk, Pipeline, Segment, Settings
from gadabout.driver.records import Records
from gadabout.executables import operations, traced_as
from gadabout.minibatch import AbstractFeed
from gadabout.programs import asks_the_host, fresh_with, own, shapes_of
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import Handover, Plan
from gadabout.starts import Starts, find_start
from gadabout.target import Target, fresh

LONG_WARMUP = 5_000
"""iterations of warm-up from which on programs compiled with all optimisations make a run faster"""
ALONE = 100_000.0
"""Operations of a gradient up to which a CPU runs chains of uneven work one by one, unless `chain_block` is given.

(NUTS, 16 chains, warm-up and draws, one by one: 1.8 times as fast on Ripley with 14,000 operations, 5 on a stochastic
volatility with 30,000, 4 on Neal with 600; 1.1 times as slow on German with 140,000, 2 on Caravan with 2,000,000. Loop
bodies are counted once: 1.4 times as slow on Lotka and Volterra's equations, but faster on a hidden Markov model.
Functions on the host, whose operations are unknown, are called with all chains at once.)
"""


class Stream(IntEnum):
    """The streams of a run's randomness, a key for each purpose; the number is folded into the key of the seed."""

    STARTS = 0
    CHAINS = 1
    PREDICTIONS = 0x7072_6564


def stream_key(seed: int, stream: Stream) -> Key[Array, ""]:
    """The key of one stream of a run with this seed."""
    return jax.random.fold_in(jax.random.key(seed), int(stream))


class Runner:
    """The compiled programs of a run, for its target, its chains and its devices."""

    def __init__(
        self,
        plan: Plan,
        target: Target,
        settings: Settings,
        records: Records,
        starts: Starts,
        pipeline: Pipeline,
        seed: int,
        learned: Learned | None,
        feed: AbstractFeed | None,
    ):
        self.plan, self.settings, self.records, self.feed = plan, settings, records, feed
        self.starts, self.pipeline, self.learned = starts, pipeline, learned
        self.start_key, noise = stream_key(seed, Stream.STARTS), stream_key(seed, Stream.CHAINS)
        self.chain_keys = jax.vmap(lambda chain: jax.random.fold_in(noise, chain))(jnp.arange(settings.num_chains))
        self.kernels = kernels_of(plan, starts.layout.dim)
        target = fresh(target if feed is None else target.with_data(feed.start()), starts.layout.dim)
        self.target = fresh_with(target, plan.samplers, self._each_once, plan.samplers, self._begun())
        self._edition = self.target.edition if own(plan.samplers) else None

    def first(self) -> Handover:
        """The handover to the first stage."""
        return Handover(self.chain_keys, jnp.zeros((), jnp.uint32), None, self.learned)

    def search(self, handover: Handover) -> Handover:
        """The handover with start positions at which the log density and its derivatives are finite."""
        order = max(self.kernels.derivatives)
        positions = find_start(self.target, self.starts, self.settings.num_chains, order, self.start_key)
        return replace(handover, positions=positions)

    def start(self, sampler: Sampler, handover: Handover) -> loop.Run:
        """A run of a sampler from a handover: with its very state, if that has the form of this sampler's state."""
        if handover.pools is not None:
            if _alike(handover.pools, self.form(sampler).pools):
                return loop.Run(handover.pools, handover.chain_keys, handover.t)
            handover = replace(handover, positions=loop.positions(self.gathered(handover.pools)))
        handover = self.gathered(handover)
        run = self.lay(loop.start(sampler, self.target, handover, self.settings.pooled))
        if run.pools.kernel.uneven:
            self.pipeline.chunk_length.forget_pace()
        return run

    def check_memory(self, sampler: Sampler, run: loop.Run, warmup: bool) -> None:
        """Raises MemoryError if the records of a stage do not fit into memory."""
        adapt, settings = warmup or sampler.adaptation.continues, self.settings
        recorded = self.records.shapes(sampler, self.target, run, adapt, warmup)
        length = settings.num_warmup // settings.thinning if warmup else settings.num_draws
        limits.check_draws(self.records, recorded, length, "num_warmup" if warmup else "num_draws")

    def form(self, sampler: Sampler) -> loop.Run:
        """The shapes and types of a sampler's run."""
        return shapes_of(loop.start, sampler, self.target, self._begun(), self.settings.pooled)

    def _begun(self) -> Handover:
        """The handover with which samplers begin, with shape and type in place of positions."""
        shape = (self.settings.num_chains, self.starts.layout.dim)
        return replace(self.first(), positions=jax.ShapeDtypeStruct(shape, jnp.result_type(float)))

    def _each_once(self, target: Target, samplers: tuple[Sampler, ...], begun: Handover) -> Any:
        """One iteration of each sampler, with and without adaptation, and all other calls of its functions."""
        made: list[Any] = []
        for sampler in samplers:
            run = loop.start(sampler, target, begun, self.settings.pooled)
            made += [loop.iteration(sampler, target, run, adapt, Pool()) for adapt in (True, False)]
            if sampler.adaptation.finishes:
                run = loop.end_window(sampler, run, sampler.adaptation.ending(1, 1))
            made += [loop.settle(sampler, run), loop.verdict(sampler, run)]
        return made

    def settle(self, sampler: Sampler, run: loop.Run) -> loop.Run:
        """The run with the kernels that make the draws."""
        if not run.pools.kernel.settles:
            return run
        with traced_as(self._edition):
            return self.lay(loop.settle(sampler, self.gathered(run)))

    def hand_over(self, run: loop.Run) -> Handover:
        """The handover to the next stage."""
        return Handover(run.chain_keys, run.t, None, self.learned, run.pools)

    def gathered(self, tree: PyTree) -> PyTree:
        """A tree that is distributed over several devices, gathered on one."""
        return devices.gather(tree, self.settings.mesh)

    def lay(self, run: loop.Run) -> loop.Run:
        """A run with its chains on the devices of the run."""
        return loop.lay(run, self.settings.mesh)

    def end_window(self, sampler: Sampler, run: loop.Run, ending: PyTree) -> loop.Run:
        """The run after windows of its adaptation end; `run` is donated."""
        with traced_as(self._edition):
            return self.lay(loop.end_window(sampler, self.gathered(run), ending))

    def learn(self, sampler: Sampler, run: loop.Run, stage: str, done: int, total: int) -> tuple[loop.Run, int]:
        """Makes the next iterations of warm-up, up to the end of a window; returns the run and all iterations done."""
        adaptation = sampler.adaptation
        end = min(end for end in (*adaptation.window_ends(total), total) if end > done)
        run, made = self._chunk(sampler, run, Segment(stage, done, end, total, adapt=True, warmup=True))
        if done + made == end and adaptation.finishes:
            run = self.end_window(sampler, run, adaptation.ending(end, total))
        return run, done + made

    def draw(self, sampler: Sampler, run: loop.Run, stage: str, done: int, total: int) -> tuple[loop.Run, int]:
        """Begins the next iterations that are kept; returns the run, still being computed, and their number."""
        adapt = sampler.adaptation.continues
        segment = Segment(stage, done, total, total, adapt=adapt, warmup=False)
        return self._chunk(sampler.drawing(), run, segment)

    def _chunk(self, sampler: Sampler, run: loop.Run, segment: Segment) -> tuple[loop.Run, int]:
        """Submits the next chunk of a segment; returns the run, still being computed, and the chunk's iterations.

        Its length is limited by the buffer and the batches. If the batches end, it is shorter, and the last one.
        """
        thinning, mesh, batches = self.settings.thinning, self.settings.mesh, None
        recorded = self.records.shapes(sampler, self.target, run, segment.adapt, segment.warmup)
        offset = segment.done % thinning
        length = min(self.pipeline.length(segment), thinning * loop.buffer_length(recorded) - offset)
        if self.feed is not None:
            wanted = min(length, self.feed.capacity)
            batches, found = self.feed.chunk(self.pipeline.t, wanted)
            length = min(found, wanted)
            if length < wanted:
                self.pipeline.fail(f"the iterator of batches ended after {self.pipeline.t + found} iterations")
        sent = time.perf_counter()
        run, buffer, tally = loop.advance(
            sampler, self.target, run, length, thinning, segment.adapt, tuple(recorded),
            offset=offset, batches=batches, mesh=mesh, block=self._block(run),
            optimised=self.settings.num_warmup >= LONG_WARMUP,
        )  # fmt: skip
        if devices.several(mesh):
            buffer, tally = devices.gather((buffer, tally), mesh)
        self.pipeline.push(Chunk(segment, length, buffer, tally, sent))
        return run, length

    def _block(self, run: loop.Run) -> int | None:
        """The number of chains that a program computes at a time; None for all."""
        block = self.settings.chain_block
        return 1 if block is None and run.pools.kernel.uneven and self._cheap else block

    @cached_property
    def _cheap(self) -> bool:
        """Whether a CPU gains little by computing the gradients of several chains at once: counted, not timed."""
        if jax.default_backend() != "cpu":
            return False
        gradient = lambda target, x: target.at(x, 1)
        called = gradient, self.target, jnp.zeros(self.starts.layout.dim)
        return operations(*called) <= ALONE and not asks_the_host(*called)

    def settled(self, sampler: Sampler, run: loop.Run, learning: bool) -> PyTree:
        """The kernels that make the draws, from a copy of the run: a run that was stopped can still continue."""
        if learning:
            if sampler.adaptation.finishes:
                copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, run)
                run = self.end_window(sampler, copied, sampler.adaptation.ending(1, 1))
            run = self.settle(sampler, run)
        return self.gathered(run.pools.kernel)

    def verdict(self, sampler: Sampler, run: loop.Run) -> dict[str, np.ndarray]:
        """Diagnostics of the adaptation at the end of warm-up, an entry for each pool."""
        with traced_as(self._edition):
            found = loop.verdict(sampler, self.gathered(run))
        return {name: np.asarray(value) for name, value in found.items()}

    def drawn(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and type of all that an iteration of the draws can record, by name (`loop.shapes`)."""
        sampler = self.plan.samplers[-1]
        return loop.shapes(sampler, self.target, self.form(sampler), sampler.adaptation.continues)

    def offered(self) -> set[str]:
        """The names of all records that the plan's iterations can make."""
        names = set()
        for sampler in self.plan.samplers:
            run = self.form(sampler)
            for adapt in (True, False):
                names |= set(loop.shapes(sampler, self.target, run, adapt))
        return names


class Kernels(NamedTuple):
    """Per kernel of a plan: the derivatives of log π that it needs, also to learn; the numbers in its own arrays."""

    derivatives: tuple[int, ...]
    sizes: tuple[int, ...]


def kernels_of(plan: Plan, n: int) -> Kernels:
    """The needs of a plan's kernels in n coordinates."""

    def made() -> Any:
        return [sampler.kernel(n) for sampler in plan.samplers]

    kernels = eqx.filter_eval_shape(made)
    size = lambda kernel: sum(
        leaf.size for leaf in jax.tree.leaves(eqx.filter(kernel, lambda leaf: hasattr(leaf, "size")))
    )
    order = lambda kernel: max(kernel.order, int(kernel.gradient_evaluations(True) > 0))
    return Kernels(tuple(map(order, kernels)), tuple(map(size, kernels)))


def log_densities(
    target: Target, positions: Float[Array, "chains n"], order: int
) -> tuple[Float[Array, " chains"], Float[Array, "chains n"] | None]:
    """log π at the chains' positions, and its gradient if `order` is not 0."""

    def each(data: PyTree, x: Float[Array, " n"]) -> tuple[Array, Array | None]:
        point = target.with_data(data).at(x, min(order, 1))
        return point.logp, point.grad

    return jax.jit(jax.vmap(each, (None, 0)))(target.data, positions)


def _alike(a: PyTree, b: PyTree) -> bool:
    """Whether two trees have the same form, and leaves of the same shapes and types."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    form = lambda leaf: (jnp.shape(leaf), getattr(leaf, "dtype", None))
    return all(form(x) == form(y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
