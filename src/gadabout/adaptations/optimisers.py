"""The paper's own stochastic-gradient step; any optax transformation stands in its place."""

import math
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gadabout.adaptations.base import setting


class Optimiser(Protocol):
    """optax's two signatures: gradients of a loss to be minimised in, additive updates out."""

    @property
    def init(self) -> Any: ...
    @property
    def update(self) -> Any: ...


class RMSpropMemory(NamedTuple):
    """The running mean G of squared gradients, shaped as θ, and whether it is still empty."""

    mean_square: PyTree
    empty: Array


class RMSprop(eqx.Module):
    r"""RMSprop as the paper runs it: $\rho_t = \eta / (1 + \sqrt{G_t})$, $G_t = 0.9\,G_{t-1} + 0.1\,\nabla^2$.

    Titsias & Dellaportas 2019, end of section 2.1, element by element; the first iteration sets $G_1 = \nabla^2$
    (reference implementation). Ours: a gradient whose square would overflow counts as the largest whose does not, or G
    would be infinite, and θ stand still, for ever; unless it is not `guarded`, as in the paper.
    """

    learning_rate: Float[Array, ""] = eqx.field(converter=setting)
    decay: Float[Array, ""] = eqx.field(converter=setting, default=0.9)
    guarded: bool = eqx.field(static=True, default=True)

    def init(self, theta: PyTree) -> RMSpropMemory:
        return RMSpropMemory(jax.tree.map(jnp.zeros_like, theta), jnp.asarray(True))

    def update(
        self, gradient: PyTree, memory: RMSpropMemory, theta: PyTree = None, usable: Array | bool = True
    ) -> tuple[PyTree, RMSpropMemory]:
        decay = jnp.where(memory.empty, 0, self.decay)
        gradient = jax.tree.map(_squarable, gradient) if self.guarded else gradient
        averaged = lambda G, g: jnp.where(usable, decay * G + (1 - decay) * g**2, G)
        G = jax.tree.map(averaged, memory.mean_square, gradient)
        G = jax.lax.optimization_barrier(G)  # or it is worked out twice, from a copy
        step = lambda G, g: jnp.where(usable, -self.learning_rate * g / (1 + jnp.sqrt(G)), 0)
        return jax.tree.map(step, G, gradient), RMSpropMemory(G, memory.empty & ~jnp.asarray(usable))


def step_where(
    usable: Array, optimiser: Optimiser, gradient: PyTree, memory: PyTree, theta: PyTree
) -> tuple[PyTree, PyTree]:
    """A step of the optimiser and its memory; where the gradient is not `usable` no step, and the memory as it was."""
    if isinstance(optimiser, RMSprop):
        return optimiser.update(gradient, memory, theta, usable)
    step, after = optimiser.update(gradient, memory, theta)
    step = jax.tree.map(lambda leaf: jnp.where(usable, leaf, 0), step)
    return step, jax.tree.map(lambda new, old: jnp.where(usable, new, old), after, memory)


def _squarable(g: Array) -> Array:
    largest = 0.5 * math.sqrt(jnp.finfo(g.dtype).max)
    return jnp.clip(g, -largest, largest)
