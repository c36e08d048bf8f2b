"""The paper's stochastic-gradient step; any optax transformation can replace it."""

import math
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gadabout.adaptations.base import setting


class Optimiser(Protocol):
    """The interface of optax: from gradients of a loss to be minimised to additive updates."""

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
    (reference implementation). If `guarded` (not in the paper), gradients are clipped so that their squares do not
    overflow: otherwise G could become infinite, and θ would stand still for ever.
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
        G = jax.lax.optimization_barrier(G)  # otherwise it is computed twice, from a copy
        step = lambda G, g: jnp.where(usable, -self.learning_rate * g / (1 + jnp.sqrt(G)), 0)
        return jax.tree.map(step, G, gradient), RMSpropMemory(G, memory.empty & ~jnp.asarray(usable))


def step_where(
    usable: Array, optimiser: Optimiser, gradient: PyTree, memory: PyTree, theta: PyTree
) -> tuple[PyTree, PyTree]:
    """The optimiser's step and memory; if the gradient is not `usable`, a zero step and the unchanged memory."""
    if isinstance(optimiser, RMSprop):
        return optimiser.update(gradient, memory, theta, usable)
    step, after = optimiser.update(gradient, memory, theta)
    step = jax.tree.map(lambda leaf: jnp.where(usable, leaf, 0), step)
    return step, jax.tree.map(lambda new, old: jnp.where(usable, new, old), after, memory)


def _squarable(g: Array) -> Array:
    largest = 0.5 * math.sqrt(jnp.finfo(g.dtype).max)
    return jnp.clip(g, -largest, largest)
