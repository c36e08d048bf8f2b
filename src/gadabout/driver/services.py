"""What stages ask of an engine: programs to run, places to start, the length of their share."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gadabout.driver import aside, loop, processes, room
from gadabout.driver.pipeline import Pipeline, Segment, Settings
from gadabout.driver.programs import blank, operations, shapes_of
from gadabout.driver.records import Records
from gadabout.driver.search import Starts, find_start, find_start_ahead
from gadabout.factors import FactorChoice, FactorKind, isotropic, kind_for
from gadabout.factors.kinds import MANY
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import AbstractStage, AbstractWarmup, Plan, Warm, lengths
from gadabout.target import Target
from gadabout.threefry import split_and_fold

LearningChunk = Callable[[loop.Run, int, loop.Windows | None], tuple[loop.Run, int, bool]]
"""iterations of a run up to an end, windows among them: the run, how many were made, and whether θ has settled"""
OPERATIONS = 1.0
"""of a gradient, for each entry of a covariance, from which correlations are learned beyond `MANY` coordinates"""
MOST_CORRELATED = 2_000
"""coordinates beyond which they never are: a fit takes the time of n³"""


class Services:
    """The programs of a run, on its target, its chains and its devices."""

    plan: Plan
    settings: Settings
    target: Target
    records: Records
    starts: Starts
    learned: Learned | None
    key: Key[Array, ""]
    pipeline: Pipeline
    known: bool
    """whether the same was run before in this process: what is not compiled yet is where it is needed"""
    choice: int
    """which candidate was chosen"""
    evidence: dict[str, Any]
    """why, in numbers and words"""
    drawn_with: dict[int, tuple[Sampler, Sampler]]
    """what `drawing` said of samplers, by their identity"""

    @property
    def num_draws(self) -> int:
        """Draws that are wanted of each chain."""
        return self.settings.num_draws

    @property
    def thinning(self) -> int:
        """Iterations for each draw."""
        return self.settings.thinning

    def share_of_warmup(self, stage: AbstractStage) -> int:
        """Iterations of a stage of warm-up."""
        warm = [each.alternatives for each in self.plan.stages if isinstance(each.alternatives[0], AbstractWarmup)]
        each = lengths([group[0].share for group in warm], self.settings.num_warmup)  # pyright: ignore
        return next(length for group, length in zip(warm, each, strict=True) if any(one is stage for one in group))

    def drawing(self, sampler: Sampler) -> Sampler:
        """The sampler whose adaptation is what goes on while draws are kept: the same one whenever it is asked for."""
        if id(sampler) not in self.drawn_with:
            self.drawn_with[id(sampler)] = sampler, sampler.drawing()  # with the first kept its identity stays its own
        return self.drawn_with[id(sampler)][1]

    @cached_property
    def keys(self) -> "Keys":
        """All randomness of the run but that of batches."""
        return Keys(*split_and_fold(self.key, self.settings.num_chains))

    def acting(self, stage: int, choice: int) -> AbstractStage:
        """What acts in a stage of the plan where something was chosen."""
        either = self.plan.stages[stage].alternatives
        return either[min(choice, len(either) - 1)]

    @cached_property
    def kernels(self) -> "Kernels":
        """What the kernels of the plan's samplers ask for."""
        return shapes_of(_kernels, self.plan, self.starts.layout.dim)

    def check_memory(self) -> None:
        """Raises MemoryError where chains, a sampler's matrices, or a look need more than the machine has."""
        room.check_plan(self)

    def search(self, warm: Warm) -> Warm:
        """The warm state with places to start, where the log density and its derivatives are finite."""
        positions = find_start(*self._wanted_start)
        if self.records.select(loop.POSITION, False):  # known by now; a plan may compile what draws much later
            kept = jax.ShapeDtypeStruct(positions.shape, positions.dtype)
            self.records.check_memory({loop.POSITION: kept}, self.num_draws, "num_draws")
        if self.records.sink.durable:
            processes.in_step(self.settings.mesh, lambda: self._register(positions))
        return replace(warm, positions=positions)

    def search_ahead(self) -> None:
        """Has what `search` will run compiled in another thread."""
        find_start_ahead(*self._wanted_start)

    @property
    def _wanted_start(self) -> tuple:
        """What is asked of a search for starts."""
        order = max(self.kernels.derivatives)
        return self.target, self.starts, self.settings.num_chains, order, self.keys.start

    def _register(self, positions: Float[Array, "chains n"]) -> None:
        """Tells a sink where chains start, and what the run needs."""
        self.records.sink.started(np.asarray(positions), np.asarray(log_densities(self.target, positions)))
        self.records.sink.reserve(*room.needed(self))

    def descend(self, warm: Warm, factor: FactorChoice) -> Warm:
        """The warm state with chains in the typical set, and a first Gaussian."""
        return aside.descend(self, warm, self.kind(factor))

    def descend_ahead(self, factor: FactorChoice) -> None:
        """Has what `descend` will run compiled in other threads."""
        shape = (self.settings.num_chains, self.starts.layout.dim)
        positions = blank(jax.ShapeDtypeStruct(shape, jnp.result_type(float)))
        aside.descend_ahead(self, positions, self.kind(factor))

    def kind(self, factor: FactorChoice) -> FactorKind:
        """The kind of factor that is fitted: beyond 300 coordinates a dense one where gradients are as dear as it.

        That is counted, not timed: the clock would choose otherwise on another day.
        """
        n = self.starts.layout.dim
        if factor == "auto" and MANY < n <= MOST_CORRELATED:
            gradient = operations(lambda target, x: target.at(x, 1), self.target, jnp.zeros(n))
            return "dense" if gradient >= OPERATIONS * n**2 else "diagonal"
        return kind_for(factor, n)

    def start(self, sampler: Sampler, warm: Warm) -> loop.Run:
        """A run of a sampler from what the stage before hands over: its very state, if it is of the same kind."""
        if warm.pools is not None:
            if self.goes_on(sampler, warm):
                return loop.Run(warm.pools, warm.chain_keys, warm.t)
            warm = replace(warm, positions=loop.positions(self.gathered(warm.pools)))
        warm = self.gathered(warm)
        run = self.lay(loop.start(sampler, self.target, warm, self.settings.pooled))
        if run.pools.kernel.uneven:
            self.pipeline.unknown_pace()
        return run

    def goes_on(self, sampler: Sampler, warm: Warm) -> bool:
        """Whether the state handed over is that of the same kind of sampler, whichever factor "auto" came to mean."""
        n, own = self.starts.layout.dim, warm.learned
        positions = jax.ShapeDtypeStruct((self.settings.num_chains, n), jnp.result_type(float))
        for learned in (own, shapes_of(round_one, n, "dense")):
            fresh = replace(warm, positions=positions, learned=learned, pools=None)
            run = shapes_of(loop.start, sampler, self.target, fresh, self.settings.pooled)
            if _alike(warm.pools, run.pools):
                return True
        return False

    def settle(self, sampler: Sampler, run: loop.Run) -> loop.Run:
        """A run whose kernels are those that draws are made with."""
        return self.lay(loop.settle(sampler, self.gathered(run))) if run.pools.kernel.settles else run

    def gathered(self, tree: PyTree) -> PyTree:
        """What lies over several devices, on one."""
        return loop.gather(tree, self.settings.mesh)

    def lay(self, run: loop.Run) -> loop.Run:
        """A run with its chains on the devices of the run."""
        return loop.lay(run, self.settings.mesh)

    def hand_over(self, run: loop.Run) -> Warm:
        """What the next stage begins with."""
        return Warm(run.chain_keys, run.t, None, self.learned, run.pools)

    def choose(self, choice: int, evidence: dict[str, Any]) -> None:
        """Notes which candidate acts from now on, and why, in numbers and words."""
        self.choice = choice
        self.note(evidence)

    def note(self, evidence: dict[str, Any]) -> None:
        """Adds to what speaks for a choice."""
        self.evidence = {**self.evidence, **evidence}

    def fitted(self, run: loop.Run, where: Callable[[Any], Any]) -> Any:
        """What `where` says of the kernel; where each chain learned its own, of the first."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[0], where(self.gathered(run.pools.kernel)))

    def learn_anew(
        self, sampler: Sampler, run: loop.Run, where: Callable[[Any], Any], sources: np.ndarray, draws: np.ndarray
    ) -> loop.Run:
        """A run in which chain i started again from where chain `sources[i]` stands, and its sampler learned again.

        It begins with the Gaussian of `draws`, shape (draws, n).
        """
        return aside.learn_anew(self, sampler, run, where, sources, draws)

    def hand_on(self, run: loop.Run, where: Callable[[Any], Any], theta: dict[str, Any]) -> Warm:
        """The same for a stage with another sampler: where chains stand, mean and factor of what `where` says, and θ.

        θ is that of the kernel by name, and what `theta` adds. Where each chain learned its own, those of the first.
        """

        run, dtype = self.gathered(run), jnp.result_type(float)
        positions, learned = self.shaped(loop.handed_on, run, where)
        more = {name: np.asarray(value, dtype) for name, value in theta.items()}
        learned = replace(learned, theta={**learned.theta, **more})
        return Warm(run.chain_keys, run.t, positions, learned)

    def shaped(self, function: Callable, *arguments: Any) -> Any:
        """What a function makes of arrays."""
        return function(*arguments)

    def end_window(self, sampler: Sampler, run: loop.Run, ending: PyTree) -> loop.Run:
        """A run where windows of its adaptation end; `run` is donated."""
        return self.lay(loop.end_window(sampler, self.gathered(run), ending))

    def has_settled(self, sampler: Sampler, run: loop.Run) -> bool:
        """Whether what every pool learns has settled."""
        return bool(np.asarray(sampler.adaptation.settled(self.gathered(run.pools.memory))).all())

    def chunk(
        self, sampler: Sampler, run: loop.Run, stage: str, done: int, end: int, total: int, *, adapt: bool, warmup: bool
    ) -> tuple[loop.Run, int]:
        """The next iterations of a stage, at most up to `end`: the run, still being computed, and their number.

        While they are computed, the records of those before are stored.
        """
        run, made, _ = self.pipeline.chunk(sampler, run, Segment(stage, done, end, total, adapt, warmup))
        return run, made

    def learn(self, sampler: Sampler, run: loop.Run, stage: str, done: int, total: int) -> tuple[loop.Run, int]:
        """The next iterations of a stage of warm-up in which θ is learned, windows that end among them.

        The run, and the iterations done with them; all of the stage's once θ has settled.
        """

        def kept(run, end, windows):
            return self.pipeline.chunk(sampler, run, Segment(stage, done, end, total, True, True), windows)

        return self.learn_by(kept, sampler, run, done, total)

    def learn_by(
        self, chunk: LearningChunk, sampler: Sampler, run: loop.Run, done: int, total: int
    ) -> tuple[loop.Run, int]:
        """The same with whatever makes the iterations, up to where it is told, and ends the windows it is given."""
        adaptation, windows = sampler.adaptation, None
        if self.pipeline.within(sampler):
            windows, end = self.pipeline.windows(sampler, done, total)
        else:
            end = min(end for end in (*adaptation.window_ends(total), total) if end > done)
        run, made, settled = chunk(run, end, windows)
        if windows is None and done + made == end and adaptation.finishes:
            run = self.end_window(sampler, run, adaptation.ending(end, total))
            settled = adaptation.settles and self.has_settled(sampler, run)
        return run, total if settled else done + made

    def trial(self, sampler: Sampler, warm: Warm, num_iterations: int) -> tuple[Warm, np.ndarray, float]:
        """Runs a sampler, learning in the first half: where that leaves chains, the second half's draws, its cost.

        Draws have the shape (iterations, num_chains, n), the cost is in gradients an iteration of a chain.
        """
        return aside.trial(self, sampler, warm, num_iterations)

    def look(
        self, sampler: Sampler, run: loop.Run, num_iterations: int
    ) -> tuple[loop.Run, np.ndarray, dict[str, np.ndarray]]:
        """Iterations with θ standing still that nobody keeps: positions (t, num_chains, n), and statistics."""
        return aside.look(self, sampler, run, num_iterations)

    def seen_by(self, factor: Any, mean: Any, draws: np.ndarray) -> tuple:
        """Draws (draws, n) as a Gaussian sees them, its standard deviations, and log |L|."""
        return aside.seen_by(factor, mean, draws)

    def offered(self) -> set[str]:
        """The names of all that the plan's iterations can record."""
        positions = jax.ShapeDtypeStruct((self.settings.num_chains, self.starts.layout.dim), jnp.result_type(float))
        warm, names = replace(self.first(), positions=positions), set()
        for sampler in self.plan.samplers:
            run = shapes_of(loop.start, sampler, self.target, warm, self.settings.pooled)
            for adapt in (True, False):
                names |= set(loop.shapes(sampler, self.target, run, adapt))
        return names

    def first(self) -> Warm:
        """What the first stage begins with."""
        return Warm(self.keys.chains, jax.device_put(np.zeros((), np.uint32)), None, self.learned)


def round_one(n: int, kind: FactorKind) -> Learned:
    """N(0, I), as something learned."""
    return Learned(jnp.zeros(n), isotropic(n, jnp.ones(()), kind))


@eqx.filter_jit
def log_densities(target: Target, positions: Float[Array, "chains n"]) -> Float[Array, " chains"]:
    """log π where chains stand."""
    return jax.vmap(target.log_density)(positions)


class Kernels(NamedTuple):
    """What the kernels of a plan ask for, each.

    Args:
        derivatives: of the log density, learning included.
        sizes: numbers in its own arrays.
    """

    derivatives: tuple[int, ...]
    sizes: tuple[int, ...]


def _kernels(plan: Plan, n: int) -> Kernels:
    kernels = [sampler.kernel(n) for sampler in plan.samplers]
    size = lambda kernel: sum(
        leaf.size for leaf in jax.tree.leaves(eqx.filter(kernel, lambda leaf: hasattr(leaf, "size")))
    )
    order = lambda kernel: max(kernel.order, int(kernel.gradient_evaluations(True) > 0))
    return Kernels(tuple(map(order, kernels)), tuple(map(size, kernels)))


class Keys(NamedTuple):
    """The key of the search for starts and of descents, and that of each chain's noise."""

    start: Key[Array, ""]
    chains: Key[Array, " chains"]


def _alike(a: PyTree, b: PyTree) -> bool:
    """Whether two trees have the same form, and leaves of the same shapes and types."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    form = lambda leaf: (jnp.shape(leaf), getattr(leaf, "dtype", None))
    return all(form(x) == form(y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
