"""The basic sampler of Andrieu and Moulines: once θ leaves its set, θ and the chains stop for ever."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.pool import PerChain
from gadabout.adaptations.reprojection import Level, extent


class CemeteryMemory(eqx.Module):
    """The wrapped adaptation's memory, whether θ is still in Θ, and the last states of the chains."""

    wrapped: PyTree
    alive: Bool[Array, ""]
    last: PerChain


class Cemetery(AbstractAdaptation):
    r"""Stops θ and the chains for ever once θ has left $\Theta = \{\theta : \text{level}(\theta) \le \text{bound}\}$.

    This is the basic sampler of Andrieu & Moulines (2006, section 2), whose θ is then the cemetery point $\theta_c$. It
    demonstrates why `Reprojection` is needed; its draws are not meant for use. The θ outside Θ stays in the kernel for
    inspection, but no chain moves with it. A pool of chains has one θ and stops as a whole. The trace has `alive`.

    Args:
        wrapped: the adaptation; it must learn in every iteration, as that of `haario(regularisation=0)` does.
        bound: the largest level in Θ.
        level: scalar function of the kernel and the wrapped adaptation's memory; by default `extent`.
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
