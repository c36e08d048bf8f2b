"""The basic sampler of Andrieu and Moulines: where θ leaves its set, θ and the chains stop for ever."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.pool import PerChain
from gadabout.adaptations.reprojection import Level, extent


class CemeteryMemory(eqx.Module):
    """The wrapped adaptation's memory, whether θ is still in Θ, and where the chains stood last."""

    wrapped: PyTree
    alive: Bool[Array, ""]
    last: PerChain


class Cemetery(AbstractAdaptation):
    r"""Stops θ and the chains for ever once θ has left $\Theta = \{\theta : \text{level}(\theta) \le \text{bound}\}$.

    The basic sampler of Andrieu & Moulines (2006, section 2), whose θ is then the cemetery point $\theta_c$. It shows
    what `Reprojection` is for, and is not meant for a run whose draws are used. The θ outside Θ stays in the kernel for
    inspection; no chain moves by it. A pool of chains has one θ and stops as one. The trace has `alive`.

    Args:
        wrapped: the adaptation, one that learns in every iteration, such as that of `haario(regularisation=0)`.
        bound: of Θ, in the units of the level.
        level: from the kernel and the wrapped adaptation's memory to a scalar; by default `extent`.
    """

    wrapped: AbstractAdaptation
    bound: Float[Array, ""] = eqx.field(converter=setting)
    level: Level = extent

    @property
    def moves_chains(self):
        return True

    def init(self, kernel, states):
        return CemeteryMemory(self.wrapped.init(kernel, states), jnp.asarray(True), PerChain(states))

    def observe(self, memory, kernel, transition):
        evidence, trace = self.wrapped.observe(memory.wrapped, kernel, transition)
        return evidence, trace | {"alive": memory.alive}

    def pool(self, memory, kernel, evidence, chains):
        return self.wrapped.pool(memory.wrapped, kernel, evidence, chains)

    def update(self, memory, kernel, states, pooled):
        moved = self.wrapped.update(memory.wrapped, kernel, states, pooled)
        buried = (kernel, memory.wrapped, memory.last.tree)
        choose = lambda new, old: jnp.where(memory.alive, new, old)
        kernel, wrapped, states = jax.tree.map(choose, moved, buried)
        alive = memory.alive & (self.level(kernel, wrapped) <= self.bound)
        return kernel, CemeteryMemory(wrapped, alive, PerChain(states)), states
