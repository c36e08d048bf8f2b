"""Composed kernels: several one after another, or one chosen at random.

Kernels with the same stationary law may be applied "in any order we like (including at random), as long as we don't
choose which to apply based on the current state" (lectures, "Composing kernels"). The order here is therefore fixed or
drawn from the key alone, and cannot be a function of the state. A choice by the state breaks invariance even if every
part has it: the two-state chain in the slides by Andrieu & Moulines makes such a choice, and its law is wrong.

A part is any kernel whose state is a `Point` that `rebase` completes: every `Metropolis`, `Gibbs`, and composites. The
composite's own state is one point without cache, and with the gradient if any part needs it. This has two costs. A
part's cache is recomputed for each of its moves. If a part computes no gradient and another needs it, the target is
evaluated once more.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from gadabout.kernels.base import AbstractInfo, AbstractKernel, CompositeInfo, Transition
from gadabout.target import Point, Target


class AbstractComposite(AbstractKernel):
    """A kernel composed of `kernels`; it accepts if any part does, and its acceptance rate is the mean of theirs."""

    kernels: eqx.AbstractVar[tuple[AbstractKernel, ...]]

    @property
    def order(self):
        return min(1, max(kernel.order for kernel in self.kernels))

    def init(self, x, target):
        return target.at(x, self.order)

    def position(self, state):
        return state.x

    def enter(self, index: int, here: Point) -> Point:
        """The state of part `index` at a point."""
        kernel = self.kernels[index]
        return kernel.rebase(Point(here.x, here.logp, here.grad if kernel.order else None))  # pyright: ignore

    def leave(self, there: Point, target: Target) -> Point:
        """The composite's state after a move of a part to a point."""
        if not self.order:
            return Point(there.x, there.logp)
        return target.at(there.x, 1) if there.grad is None else Point(there.x, there.logp, there.grad)

    def gradient_evaluations(self, learning):
        return sum(kernel.gradient_evaluations(learning) + self._again(kernel) for kernel in self.kernels)

    @property
    def uneven(self):
        return any(kernel.uneven for kernel in self.kernels)

    @property
    def settles(self):
        return any(kernel.settles for kernel in self.kernels)

    def settled(self, states):
        own = lambda i: jax.vmap(lambda state: self.enter(i, state))(states)
        kernels = tuple(kernel.settled(own(i)) for i, kernel in enumerate(self.kernels))
        return eqx.tree_at(lambda composite: composite.kernels, self, kernels)

    def _again(self, kernel: AbstractKernel) -> int:
        return int(self.order > 0 and kernel.order == 0)


class PartOutcome(eqx.Module):
    """The results of a transition that all parts have in common."""

    acceptance_rate: Float[Array, ""]
    accepted: Bool[Array, ""]
    finite: Bool[Array, ""]
    gradient_evaluations: Int[Array, ""]

    @classmethod
    def of(cls, info: AbstractInfo, kernel: AbstractKernel, again: int) -> "PartOutcome":
        """The outcome from the info of one part; `again` counts the gradients that the composite adds."""
        counted = info.gradient_evaluations
        counted = kernel.gradient_evaluations(False) if counted is None else counted
        rate = jnp.asarray(info.acceptance_rate, dtype=float)
        return cls(rate, jnp.asarray(info.accepted), jnp.asarray(info.finite), jnp.asarray(counted, int) + again)


def summary(
    outcomes: PartOutcome, after: Point, parts: tuple[Transition, ...] = (), counted: bool = True
) -> CompositeInfo:
    """The info of a composite from the outcomes of its parts, stacked: mean rate, any acceptance, all finite.

    If the order of the parts is fixed, their statistics keep their names, followed by the part's number. `counted`
    says whether gradient evaluations differ from transition to transition.
    """
    statistics = {}
    for i, part in enumerate(parts):
        own = {"acceptance_rate": outcomes.acceptance_rate[i], **part.info.statistics}
        statistics |= {f"{name}_{i}": value for name, value in own.items()}
    return CompositeInfo(
        after.logp,
        jnp.mean(outcomes.acceptance_rate),
        jnp.any(outcomes.accepted),
        jnp.all(outcomes.finite),
        parts,
        statistics=statistics,
        gradient_evaluations=jnp.sum(outcomes.gradient_evaluations) if counted else None,
    )


class Cycle(AbstractComposite):
    """All kernels, one after another: in the order given, or in a random order drawn anew for every sweep.

    The random order is a permutation that depends on the key alone. Chains that advance together each have their own
    permutation, so every place in the sweep computes all L kernels and keeps one: a sweep costs L² transitions.
    """

    kernels: tuple[AbstractKernel, ...]
    random_order: bool = eqx.field(static=True, default=False)

    def step(self, key, state, target):
        keys = jax.random.split(key, len(self.kernels) + 1)
        if self.random_order:
            order = jax.random.permutation(keys[0], len(self.kernels))
            bits, impl = jax.random.key_data(keys[1:]), jax.random.key_impl(key)
            turn = lambda here, turn: _switch(self, turn[0], turn[1], impl, here, target)
            after, outcomes = jax.lax.scan(turn, state, (order, bits))
            return after, summary(outcomes, after)
        parts = []
        for index, kernel in enumerate(self.kernels):
            before = self.enter(index, state)
            after, info = kernel.step(keys[index + 1], before, target)
            parts.append(Transition(before, after, info))
            state = self.leave(after, target)
        each = (PartOutcome.of(part.info, k, self._again(k)) for part, k in zip(parts, self.kernels, strict=True))
        outcomes = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
        counted = any(part.info.gradient_evaluations is not None for part in parts)
        return state, summary(outcomes, state, tuple(parts), counted)


class Mix(AbstractComposite):
    """One of the kernels, chosen anew for every transition with given probabilities, independent of the state.

    Chains that advance together choose independently, so that all kernels are computed and one is kept.

    Args:
        kernels: the parts.
        weights: their probabilities up to a factor, positive, shape (L,).
    """

    kernels: tuple[AbstractKernel, ...]
    weights: Float[Array, " L"] = eqx.field(converter=lambda weights: jnp.asarray(weights, dtype=float))

    def __check_init__(self):
        if self.weights.shape != (len(self.kernels),):
            raise ValueError(f"weights must have the shape ({len(self.kernels)},), got {self.weights.shape}")

    def step(self, key, state, target):
        choice, part = jax.random.split(key)
        index = jax.random.categorical(choice, jnp.log(self.weights))
        after, outcome = _switch(self, index, jax.random.key_data(part), jax.random.key_impl(part), state, target)
        return after, summary(outcome, after)


def _switch(
    composite: AbstractComposite, index: Array, bits: Array, impl: Any, here: Point, target: Target
) -> tuple[Point, PartOutcome]:
    """The transition of part `index`; it takes the bits of a key, because a batched switch copies its operands."""

    def branch(i):
        def step(bits, here):
            key = jax.random.wrap_key_data(bits, impl=impl)
            kernel = composite.kernels[i]
            after, info = kernel.step(key, composite.enter(i, here), target)
            there = composite.leave(after, target)
            return _strong(there), PartOutcome.of(info, kernel, composite._again(kernel))

        return step

    return jax.lax.switch(index, [branch(i) for i in range(len(composite.kernels))], bits, here)


def _strong(point: Point) -> Point:
    """The point with all leaves in the type of x, because the branches of a switch must return the same types."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, point.x.dtype), point)
