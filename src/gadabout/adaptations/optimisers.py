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

    def update(self, gradient: PyTree, memory: RMSpropMemory, theta: PyTree = None) -> tuple[PyTree, RMSpropMemory]:
        decay = jnp.where(memory.empty, 0, self.decay)
        gradient = jax.tree.map(_squarable, gradient) if self.guarded else gradient
        mean_square = jax.tree.map(lambda G, g: decay * G + (1 - decay) * g**2, memory.mean_square, gradient)
        updates = jax.tree.map(lambda G, g: -self.learning_rate * g / (1 + jnp.sqrt(G)), mean_square, gradient)
        return updates, RMSpropMemory(mean_square, jnp.asarray(False))


def _squarable(g: Array) -> Array:
    largest = 0.5 * math.sqrt(jnp.finfo(g.dtype).max)
    return jnp.clip(g, -largest, largest)
