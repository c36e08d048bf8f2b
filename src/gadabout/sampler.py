"""Samplers, the results of recipes: the one place where kernels and adaptations meet."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import all_leaves
from jaxtyping import Array, Float, Key, PyTree

from gadabout.adaptations import AbstractAdaptation, Pool
from gadabout.adaptations.pool import ALONE
from gadabout.calls import check_call
from gadabout.checks import check_function, check_whole, shown
from gadabout.factors import AbstractFactor
from gadabout.factors.kinds import marginal
from gadabout.kernels import AbstractKernel, Transition
from gadabout.kernels.base import AbstractInfo
from gadabout.layout import Layout
from gadabout.settings import as_table, settings_of
from gadabout.target import Target


class Learned(eqx.Module):
    """Knowledge of a target before a sampler starts: arrays only, each of them optional.

    Args:
        mean: the centre of the draws, shape (n,).
        factor: L, with L Lᵀ the covariance of the draws.
        theta: θ by its path in the kernel that learned it (see `theta_by_name`).
    """

    mean: Float[Array, " n"] | None = None
    factor: AbstractFactor | None = None
    theta: dict[str, Array] = eqx.field(default_factory=dict)

    def part(self, indices: Sequence[int]) -> "Learned":
        """Marginal mean and covariance of the draws of some coordinates; without θ, which belongs to the whole."""
        mean = None if self.mean is None else self.mean[jnp.asarray(indices)]
        return Learned(mean, None if self.factor is None else marginal(self.factor, indices))


def known_factor(learned: Learned | None) -> AbstractFactor | None:
    """The factor of the target's covariance; None if it is not known."""
    return None if learned is None else learned.factor


class AbstractForLayout(eqx.Module):
    """A part of a sampler that refers to variables; only the layout of positions gives their coordinates."""

    @abstractmethod
    def for_layout(self, layout: Layout) -> Any:
        """The part for positions of a layout; raises ValueError if the layout lacks its variables."""


def for_layout[T](tree: T, layout: Layout | None) -> T:
    """A sampler, plan or kernel maker with each `AbstractForLayout` replaced; the same tree if there are none."""
    special = lambda node: isinstance(node, AbstractForLayout)
    if layout is None or not any(map(special, jax.tree.leaves(tree, is_leaf=special))):
        return tree
    return jax.tree.map(lambda node: node.for_layout(layout) if special(node) else node, tree, is_leaf=special)


class State(eqx.Module):
    """The whole state of a pool of chains that share θ: the kernel with its θ, the adaptation's memory, the chains.

    The chains' states are stacked along a leading axis.
    """

    kernel: AbstractKernel
    memory: PyTree
    chains: PyTree

    @property
    def position(self) -> Float[Array, "chains n"]:
        """The positions of the chains."""
        return jax.vmap(self.kernel.position)(self.chains)


class Sampler(eqx.Module):
    """The settings of a recipe, and pure functions for jit, vmap and scan in a caller's own loop.

    `make_kernel(n, learned)` builds the kernel for positions of n coordinates; `learned` is a `Learned`, or None if
    nothing is known of the target. Numeric settings are array leaves, so that another value needs no new compilation.
    """

    name: str = eqx.field(static=True)
    make_kernel: Callable[[int, Learned | None], AbstractKernel]
    adaptation: AbstractAdaptation
    num_warmup: int = eqx.field(static=True, default=1_000)
    takes_discrete: bool = eqx.field(static=True, default=False)
    """whether positions may hold whole numbers: floats in the flat vector, integers again in the results"""
    exact: bool = eqx.field(static=True, default=True)
    """whether the draws follow the target for any step size"""
    takes_noisy_gradients: bool = eqx.field(static=True, default=False)
    """whether log densities estimated from batches suffice"""
    state_is_point: bool = eqx.field(static=True, default=True)
    """whether a chain keeps only a point between its moves, so that it can be a part of a composition"""
    bias: str = eqx.field(static=True, default="")
    """the note in a result about draws that are not exact"""

    def __check_init__(self):
        check_function("make_kernel", self.make_kernel, "(n, learned)")
        if not isinstance(self.adaptation, AbstractAdaptation):
            remedy = "such as gadabout.adaptations.NoAdaptation()"
            raise TypeError(f"adaptation must be an AbstractAdaptation, {remedy}, got {shown(self.adaptation)}")
        check_whole("num_warmup", self.num_warmup, 0)

    def _repr_html_(self) -> str:
        """A table of the settings and their values, for notebooks."""
        return as_table(self.name, {"num_warmup": self.num_warmup, "exact": self.exact} | settings_of(self))

    @property
    def adaptation_ends(self) -> str:
        """How adaptation ends, in words for the result."""
        return "continues for ever, with diminishing gains" if self.adaptation.continues else "stops after warm-up"

    def drawing(self) -> "Sampler":
        """The sampler for the draws that are kept; only the part of the adaptation that continues is left."""
        return eqx.tree_at(lambda s: s.adaptation, self, self.adaptation.while_drawing())

    def kernel(self, n: int, learned: Learned | None = None) -> AbstractKernel:
        """The kernel for n coordinates, with the θ of `learned` wherever name and shape fit."""
        check_call("make_kernel", "(n, learned)", self.make_kernel, n, learned)
        kernel = self.make_kernel(n, learned)
        if not isinstance(kernel, AbstractKernel):
            raise TypeError(f"make_kernel of {self.name} must return an AbstractKernel, got {shown(kernel)}")
        return kernel if learned is None else with_theta(kernel, learned.theta)

    def init(self, target: Target, positions: PyTree, learned: Learned | None = None) -> State:
        """The state of chains that start at `positions` and share θ.

        `positions` has the shape (num_chains, n). If the target has a layout, as that of a `Model` with an example of a
        `position` does, it may also be positions as the model takes them, with a leading axis of chains in every leaf.
        `jax.vmap(target.unravel)(state.position)` returns the chains' positions in that form.

        Raises ValueError for another shape.
        """
        if target.layout is not None and not (all_leaves([positions]) and jnp.ndim(positions) == 2):
            positions = jax.vmap(target.ravel)(positions)
        if jnp.ndim(positions) != 2:
            raise ValueError(
                f"positions must have the shape (num_chains, n), got {jnp.shape(positions)}; "
                "for one chain pass x[None, :]"
            )
        positions = jnp.asarray(positions, dtype=float)
        kernel = for_layout(self, target.layout).kernel(positions.shape[1], learned)
        chains = jax.vmap(lambda x: kernel.init(x, target))(positions)
        return State(kernel, self.adaptation.init(kernel, chains), chains)

    def moved(self, state: State, target: Target, positions: Float[Array, "chains n"]) -> State:
        """The state with the same θ and memory, for chains at other positions or under another target.

        Raises ValueError if the adaptation stores where its chains began, in order to put them back there.
        """
        if self.adaptation.moves_chains:
            raise ValueError(f"{self.name} remembers where its chains began, and they cannot be put elsewhere")
        kernel = state.kernel
        return State(kernel, state.memory, jax.vmap(lambda x: kernel.init(x, target))(positions))

    def step(
        self, key: Key[Array, "..."], state: State, target: Target, adapt: bool | Array = True, pool: Pool = ALONE
    ) -> tuple[State, dict[str, Array]]:
        """One iteration of every chain: a transition and, with `adapt`, one update of the shared θ.

        `key` is one key, or one for each chain. `pool` describes the other chains, if they are computed elsewhere.
        Returns the new state and the statistics of the iteration, each of shape (num_chains,), by their ArviZ names;
        with `adapt` they include those of the adaptation. If `adapt` is an array, one program serves both cases; where
        it is False, the adaptation's statistics are zero.
        """
        kernel, memory = state.kernel, state.memory
        num_chains = jax.tree.leaves(state.chains)[0].shape[0]
        keys = key if key.ndim else jax.random.split(key, num_chains)

        def transition(key, before):
            after, info = checked(kernel, kernel.step(key, before, target))
            if adapt is False:
                return after, None, info.record
            observe = lambda: self.adaptation.observe(memory, kernel, Transition(before, after, info))
            evidence, trace = _where_adapting(adapt, observe)
            return after, evidence, info.record | trace

        chains, evidence, record = pool.stage(pool.each(transition, keys, state.chains))
        gradients = jnp.where(adapt, kernel.gradient_evaluations(True), kernel.gradient_evaluations(False))
        record.setdefault("gradient_evaluations", jnp.full(num_chains, gradients))
        if adapt is not False:

            def update():
                pooled = pool.stage(self.adaptation.pool(memory, kernel, evidence, pool))
                learned, remembered, moved = self.adaptation.update(memory, kernel, chains, pooled)
                as_it_was = _the_same((kernel.cached_by, chains), (learned.cached_by, moved))
                return learned, remembered, moved if as_it_was else pool.each(learned.rebase, moved)

            kernel, memory, chains = _where_adapting(adapt, update, (kernel, memory, chains))
        return State(kernel, memory, chains), record

    def end_window(self, state: State, ending: PyTree) -> State:
        """The state after windows of the adaptation end; `ending` says in which of its parts."""
        kernel, memory, chains = self.adaptation.end(state.memory, state.kernel, state.chains, ending)
        return State(kernel, memory, jax.vmap(kernel.rebase)(chains))

    def settle(self, state: State) -> State:
        """The state from which draws begin: the kernel in its final form, once θ is fixed."""
        kernel = state.kernel.settled(state.chains)
        return State(kernel, state.memory, jax.vmap(kernel.rebase)(state.chains))

    def finish(self, state: State) -> State:
        """The state at the end of warm-up, for a caller's own loop: all windows end, and the kernel settles."""
        return self.settle(self.end_window(state, self.adaptation.ending(1, 1)))


def checked(kernel: AbstractKernel, transition: Any) -> tuple[PyTree, AbstractInfo]:
    """A transition; raises TypeError during tracing if a kernel's `step` does not return a state and an info."""
    if not (isinstance(transition, tuple) and len(transition) == 2 and isinstance(transition[1], AbstractInfo)):
        raise TypeError(
            f"{type(kernel).__name__}.step must return a state and an info, such as gadabout.kernels.Info(lp, "
            "acceptance_rate, accepted, finite); got another value"
        )
    if missing := {"lp", "acceptance_rate", "accepted", "nonfinite"} - transition[1].record.keys():
        raise TypeError(
            f"{type(kernel).__name__}.step must return an info whose record has {', '.join(sorted(missing))}, got "
            f"{', '.join(transition[1].record)}; add them to what gadabout.kernels.Info records"
        )
    return transition


def _where_adapting[T](adapt: bool | Array, learn: Callable[[], T], else_: T | None = None) -> T:
    """The value of `learn` if `adapt` is true; otherwise `else_`, or zeros if it is None."""
    if adapt is True:
        return learn()
    if else_ is None:
        else_ = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(learn))
    return jax.lax.cond(adapt, learn, lambda: else_)


def _the_same(old: PyTree, new: PyTree) -> bool:
    """Whether two trees hold the identical arrays, so that no value was changed; this is known during tracing."""
    (old, before), (new, after) = jax.tree.flatten(old), jax.tree.flatten(new)
    return before == after and all(a is b for a, b in zip(old, new, strict=True))


def theta_by_name(kernel: AbstractKernel) -> dict[str, Array]:
    """θ by path: every floating-point array of the kernel."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(kernel, eqx.is_inexact_array))
    return {jax.tree_util.keystr(path).lstrip("."): leaf for path, leaf in leaves}


def with_theta(kernel: AbstractKernel, theta: dict[str, Array]) -> AbstractKernel:
    """The kernel with those numbers replaced that `theta` has with the same name and shape."""

    def renewed(path, leaf):
        value = theta.get(jax.tree_util.keystr(path).lstrip("."))
        fits = eqx.is_inexact_array(leaf) and value is not None and jnp.shape(value) == leaf.shape
        return jnp.asarray(value, leaf.dtype) if fits else leaf

    return jax.tree_util.tree_map_with_path(renewed, kernel)
