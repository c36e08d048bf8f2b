"""A preconditioner that moves in warm-up and stands still while draws are kept."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from gadabout.adaptations.base import AbstractAdaptation


class Freeze(AbstractAdaptation):
    """At the end of warm-up, puts the mean over chains of what each has learned into θ, where it stays.

    Args:
        where: from the kernel to its frozen value and its flag.
        memory: from a chain's state to what it has learned.
    """

    where: Callable[[Any], tuple[Any, Any]] = eqx.field(static=True)
    memory: Callable[[Any], Any] = eqx.field(static=True)

    def init(self, kernel, states):
        return ()

    def observe(self, memory, kernel, transition):
        return (), {}

    def update(self, memory, kernel, states, evidence):
        return kernel, memory, states

    def finish(self, memory, kernel, states):
        settled = jnp.mean(self.memory(states), 0), jnp.asarray(True)
        return eqx.tree_at(self.where, kernel, settled), memory, states
