"""Kernels made of kernels: one after another, or one at random.

Kernels with the same stationary law may be applied "in any order we like (including at random), as long as we don't
choose which to apply based on the current state" (lectures, "Composing kernels"). So no order here is a function of the
state, and none can be given: it is fixed, or comes from the key alone. A choice by the state breaks invariance even
where every part has it: the two-state chain of the slides by Andrieu & Moulines does just that, and its law is wrong.

A part is any kernel whose state is a `Point` that `rebase` completes: every `Metropolis`, `Gibbs`, and composites. The
composite's own state is one point with the gradient if any part needs one and without cache. What that costs: a part's
cache is computed anew for every one of its moves, and after a part that leaves no gradient behind, where another needs
one, the target is evaluated once more.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gadabout.kernels.base import AbstractKernel, Info, Transition
from gadabout.target import Point, Target

COMMON = ("lp", "acceptance_rate", "accepted", "nonfinite", "gradient_evaluations")


class AbstractComposite(AbstractKernel):
    """A kernel made of others, its `kernels`; it accepts where any part did, at the mean of their rates."""

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
        """The composite's state where a part stands."""
        if not self.order:
            return Point(there.x, there.logp)
        return target.at(there.x, 1) if there.grad is None else Point(there.x, there.logp, there.grad)

    def gradient_evaluations(self, learning):
        return sum(kernel.gradient_evaluations(learning) + self._again(kernel) for kernel in self.kernels)

    def _again(self, kernel: AbstractKernel) -> int:
        return int(self.order > 0 and kernel.order == 0)


class Seen(eqx.Module):
    """What every part tells of its transition, whatever else it tells."""

    acceptance_rate: Float[Array, ""]
    accepted: Bool[Array, ""]
    finite: Bool[Array, ""]

    @classmethod
    def of(cls, info: Info) -> "Seen":
        """What the info of one part holds of it."""
        return cls(info.acceptance_rate, info.accepted, info.finite)


def summary(seen: Seen, after: Point, parts: tuple[Transition, ...] = ()) -> Info:
    """The info of a composite from what its parts saw, stacked: mean rate, any acceptance, all finite.

    Statistics of the parts of a fixed order are kept under their names with the part's number after them. There is no
    ratio of the whole: `log_ratio` is the logarithm of the mean rate.
    """
    rate, accepted, finite = jnp.mean(seen.acceptance_rate), jnp.any(seen.accepted), jnp.all(seen.finite)
    record = {"lp": after.logp, "acceptance_rate": rate, "accepted": accepted, "nonfinite": ~finite}
    for i, part in enumerate(parts):
        own = {name: value for name, value in part.info.record.items() if name not in COMMON}
        record |= {f"{name}_{i}": value for name, value in {"acceptance_rate": seen.acceptance_rate[i], **own}.items()}
    return Info(jnp.log(rate), rate, accepted, finite, after, None, None, record, parts)


class TracedOnce(eqx.Module):
    """A log density that JAX traces once for all who call it with the same shapes."""

    logdensity: Callable

    @property
    def layout(self):
        """The layout of the log density's argument, or None."""
        return getattr(self.logdensity, "layout", None)

    def __call__(self, x, *data):
        return _call(self.logdensity, x, data)


@eqx.filter_jit
def _call(logdensity, x, data):
    return logdensity(x, *data)


def traced_once(target: Target) -> Target:
    """The target, such that many parts do not trace the user's function as often."""
    return target if isinstance(target.logdensity, TracedOnce) else Target(TracedOnce(target.logdensity), target.data)


class Cycle(AbstractComposite):
    """All kernels, one after another: in the order given, or in a random order drawn anew for every sweep.

    The random order is a permutation drawn from the key; it depends on nothing else. Chains that advance together each
    have their own, so that every place in the sweep computes all L kernels and keeps one: L² transitions are paid for.
    """

    kernels: tuple[AbstractKernel, ...]
    random_order: bool = eqx.field(static=True, default=False)

    def step(self, key, state, target):
        target = traced_once(target)
        keys = jax.random.split(key, len(self.kernels) + 1)
        if self.random_order:
            order = jax.random.permutation(keys[0], len(self.kernels))
            bits, impl = jax.random.key_data(keys[1:]), jax.random.key_impl(key)
            turn = lambda here, turn: _switch(self, turn[0], turn[1], impl, here, target)
            after, seen = jax.lax.scan(turn, state, (order, bits))
            return after, summary(seen, after)
        parts = []
        for index, kernel in enumerate(self.kernels):
            before = self.enter(index, state)
            after, info = kernel.step(keys[index + 1], before, target)
            parts.append(Transition(before, after, info))
            state = self.leave(after, target)
        seen = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(Seen.of(part.info) for part in parts))
        return state, _with_gradients(self, summary(seen, state, tuple(parts)))


class Mix(AbstractComposite):
    """One of the kernels, chosen anew for every transition with given probabilities, which no state can change.

    Chains that advance together each choose for themselves, so that all kernels are computed and one is kept.

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
        target = traced_once(target)
        choice, part = jax.random.split(key)
        index = jax.random.categorical(choice, jnp.log(self.weights))
        after, seen = _switch(self, index, jax.random.key_data(part), jax.random.key_impl(part), state, target)
        return after, summary(seen, after)


def _switch(
    composite: AbstractComposite, index: Array, bits: Array, impl: Any, here: Point, target: Target
) -> tuple[Point, Seen]:
    """The transition of the part that a number names; a batched switch copies its operands, hence a key's bits."""

    def branch(i):
        def step(bits, here):
            key = jax.random.wrap_key_data(bits, impl=impl)
            after, info = composite.kernels[i].step(key, composite.enter(i, here), target)
            return composite.leave(after, target), Seen.of(info)

        return step

    return jax.lax.switch(index, [branch(i) for i in range(len(composite.kernels))], bits, here)


def _with_gradients(cycle: Cycle, info: Info) -> Info:
    """The info with the gradient evaluations of this sweep, where a part counts its own."""
    counted = [part.info.record.get("gradient_evaluations") for part in info.parts]
    if all(count is None for count in counted):
        return info
    each = zip(cycle.kernels, counted, strict=True)
    total = sum((k.gradient_evaluations(False) if c is None else c) + cycle._again(k) for k, c in each)
    return eqx.tree_at(lambda i: i.record, info, info.record | {"gradient_evaluations": jnp.asarray(total)})
