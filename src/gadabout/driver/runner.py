"""Stages that run a compiled sampler: its start, its chunks, the ends of its windows, what it hands over."""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.adaptations import Pool
from gadabout.driver import loop
from gadabout.driver.own_functions import fresh_with, own
from gadabout.driver.pipeline import Pipeline, Segment, Settings
from gadabout.driver.programs import shapes_of
from gadabout.driver.records import Records
from gadabout.driver.search import Starts, find_start
from gadabout.driver.streams import Stream, stream_key
from gadabout.executables import traced_as
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import Handover, Plan
from gadabout.target import Target


class Runner:
    """The programs of a run on its target, its chains and its devices."""

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
    ):
        self.plan, self.settings, self.records = plan, settings, records
        self.starts, self.pipeline, self.learned = starts, pipeline, learned
        self.start_key, noise = stream_key(seed, Stream.STARTS), stream_key(seed, Stream.CHAINS)
        self.chain_keys = jax.vmap(lambda chain: jax.random.fold_in(noise, chain))(jnp.arange(settings.num_chains))
        self.kernels = kernels_of(plan, starts.layout.dim)
        pipeline.target = self.target = fresh_with(target, plan.samplers, self._each_once, plan.samplers, self._begun())
        self._edition = self.target.edition if own(plan.samplers) else None

    def first(self) -> Handover:
        """What the first stage begins with."""
        return Handover(self.chain_keys, jnp.zeros((), jnp.uint32), None, self.learned)

    def search(self, handover: Handover) -> Handover:
        """The handover with places to start, where the log density and its derivatives are finite."""
        order = max(self.kernels.derivatives)
        positions = find_start(self.target, self.starts, self.settings.num_chains, order, self.start_key)
        return replace(handover, positions=positions)

    def start(self, sampler: Sampler, handover: Handover) -> loop.Run:
        """A run of a sampler from what the stage before hands over: its very state, if it is of the same kind."""
        if handover.pools is not None:
            if _alike(handover.pools, self.form(sampler).pools):
                return loop.Run(handover.pools, handover.chain_keys, handover.t)
            handover = replace(handover, positions=loop.positions(self.gathered(handover.pools)))
        handover = self.gathered(handover)
        run = self.lay(loop.start(sampler, self.target, handover, self.settings.pooled))
        if run.pools.kernel.uneven:
            self.pipeline.unknown_pace()
        return run

    def check_memory(self, sampler: Sampler, run: loop.Run, warmup: bool) -> None:
        """Raises MemoryError where the records of a stage would not fit into memory."""
        adapt, settings = warmup or sampler.adaptation.continues, self.settings
        recorded = self.records.shapes(sampler, self.target, run, adapt, warmup)
        length = settings.num_warmup // settings.thinning if warmup else settings.num_draws
        self.records.check_memory(recorded, length, "num_warmup" if warmup else "num_draws")

    def form(self, sampler: Sampler) -> loop.Run:
        """The shapes and types of a sampler's run."""
        return shapes_of(loop.start, sampler, self.target, self._begun(), self.settings.pooled)

    def _begun(self) -> Handover:
        """What samplers begin with, shapes and types in place of positions."""
        shape = (self.settings.num_chains, self.starts.layout.dim)
        return replace(self.first(), positions=jax.ShapeDtypeStruct(shape, jnp.result_type(float)))

    def _each_once(self, target: Target, samplers: tuple[Sampler, ...], begun: Handover) -> Any:
        """One iteration of each sampler, learning and not, and all else that its functions are called for."""
        made: list[Any] = []
        for sampler in samplers:
            run = loop.start(sampler, target, begun, self.settings.pooled)
            made += [loop.iteration(sampler, target, run, adapt, Pool()) for adapt in (True, False)]
            if sampler.adaptation.finishes:
                run = loop.end_window(sampler, run, sampler.adaptation.ending(1, 1))
            made += [loop.settle(sampler, run), loop.verdict(sampler, run)]
        return made

    def settle(self, sampler: Sampler, run: loop.Run) -> loop.Run:
        """A run whose kernels are those that draws are made with."""
        if not run.pools.kernel.settles:
            return run
        with traced_as(self._edition):
            return self.lay(loop.settle(sampler, self.gathered(run)))

    def hand_over(self, run: loop.Run) -> Handover:
        """What the next stage begins with."""
        return Handover(run.chain_keys, run.t, None, self.learned, run.pools)

    def gathered(self, tree: PyTree) -> PyTree:
        """What lies over several devices, on one."""
        return loop.gather(tree, self.settings.mesh)

    def lay(self, run: loop.Run) -> loop.Run:
        """A run with its chains on the devices of the run."""
        return loop.lay(run, self.settings.mesh)

    def end_window(self, sampler: Sampler, run: loop.Run, ending: PyTree) -> loop.Run:
        """A run where windows of its adaptation end; `run` is donated."""
        with traced_as(self._edition):
            return self.lay(loop.end_window(sampler, self.gathered(run), ending))

    def learn(self, sampler: Sampler, run: loop.Run, stage: str, done: int, total: int) -> tuple[loop.Run, int]:
        """The next iterations of warm-up, up to the end of a window at most: the run, and all iterations done."""
        adaptation = sampler.adaptation
        end = min(end for end in (*adaptation.window_ends(total), total) if end > done)
        run, made = self.pipeline.chunk(sampler, run, Segment(stage, done, end, total, adapt=True, warmup=True))
        if done + made == end and adaptation.finishes:
            run = self.end_window(sampler, run, adaptation.ending(end, total))
        return run, done + made

    def draw(self, sampler: Sampler, run: loop.Run, stage: str, done: int, total: int) -> tuple[loop.Run, int]:
        """The next iterations that are kept: the run, still being computed, and their number."""
        adapt = sampler.adaptation.continues
        segment = Segment(stage, done, total, total, adapt=adapt, warmup=False)
        return self.pipeline.chunk(sampler.drawing(), run, segment)

    def settled(self, sampler: Sampler, run: loop.Run, learning: bool) -> PyTree:
        """The kernels as draws are made with them, from a copy: a run that was stopped can still go on."""
        if learning:
            if sampler.adaptation.finishes:
                copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if eqx.is_array(leaf) else leaf, run)
                run = self.end_window(sampler, copied, sampler.adaptation.ending(1, 1))
            run = self.settle(sampler, run)
        return self.gathered(run.pools.kernel)

    def verdict(self, sampler: Sampler, run: loop.Run) -> dict[str, np.ndarray]:
        """What the adaptation says of its end, an entry for each pool."""
        with traced_as(self._edition):
            found = loop.verdict(sampler, self.gathered(run))
        return {name: np.asarray(value) for name, value in found.items()}

    def drawn(self) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and type of all that an iteration of the draws can record, by name (`loop.shapes`)."""
        sampler = self.plan.samplers[-1]
        return loop.shapes(sampler, self.target, self.form(sampler), sampler.adaptation.continues)

    def offered(self) -> set[str]:
        """The names of all that the plan's iterations can record."""
        names = set()
        for sampler in self.plan.samplers:
            run = self.form(sampler)
            for adapt in (True, False):
                names |= set(loop.shapes(sampler, self.target, run, adapt))
        return names


class Kernels(NamedTuple):
    """What the kernels of a plan need, each: derivatives of log π, learning included; numbers in its own arrays."""

    derivatives: tuple[int, ...]
    sizes: tuple[int, ...]


def kernels_of(plan: Plan, n: int) -> Kernels:
    """What the kernels of a plan need."""

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
    """log π where chains stand, and its gradient if `order` is not 0."""

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
