"""A kernel on some of the coordinates."""

from collections.abc import Iterable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from gadabout.kernels.base import AbstractKernel, CompositeInfo, Transition
from gadabout.kernels.compose import AbstractComposite
from gadabout.target import Point


class Block(AbstractComposite):
    """A kernel on some of the coordinates, whose target is the conditional law given the others.

    Args:
        kernel: a kernel on positions of len(indices) coordinates.
        indices: which coordinates of the flat position.
    """

    kernels: tuple[AbstractKernel, ...]
    indices: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, kernel: AbstractKernel, indices: Iterable[int]):
        self.kernels, self.indices = (kernel,), tuple(int(i) for i in indices)

    def __check_init__(self):
        if not self.indices or len(set(self.indices)) < len(self.indices) or min(self.indices) < 0:
            raise ValueError(f"indices must be different coordinates, counted from 0, got {self.indices}")

    @property
    def kernel(self) -> AbstractKernel:
        """The only part."""
        return self.kernels[0]

    def init(self, x, target):
        if max(self.indices) >= x.shape[0]:
            raise ValueError(f"indices must lie below the position's {x.shape[0]} coordinates, got {self.indices}")
        return super().init(x, target)

    def enter(self, index, here):
        grad = here.grad[self._at] if self.order else None
        return self.kernel.rebase(Point(here.x[self._at], here.logp, grad))  # pyright: ignore[reportArgumentType]

    def step(self, key, state, target):
        before = self.enter(0, state)
        after, info = self.kernel.step(key, before, target.conditional(state.x, self.indices))
        there = self.leave(Point(state.x.at[self._at].set(after.x), after.logp), target)
        statistics = {f"{name}_0": value for name, value in info.statistics.items()}
        count = info.gradient_evaluations
        return there, CompositeInfo(
            there.logp,
            info.acceptance_rate,
            info.accepted,
            info.finite,
            (Transition(before, after, info),),
            statistics=statistics,
            gradient_evaluations=None if count is None else count + self.order,
        )

    def gradient_evaluations(self, learning):
        return self.kernel.gradient_evaluations(learning) + self.order

    @property
    def _at(self) -> Array:
        return jnp.array(self.indices)
