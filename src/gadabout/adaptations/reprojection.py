"""Reprojection on growing compact sets: the safeguard of Andrieu and Moulines, around any adaptation."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PyTree

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.pool import PerChain
from gadabout.checks import check_positive
from gadabout.factors import AbstractFactor
from gadabout.kernels import AbstractKernel

Level = Callable[[AbstractKernel, PyTree], Float[Array, ""]]


class Home(NamedTuple):
    """The start of a run: the kernel with its first θ, and the first states of the chains."""

    kernel: AbstractKernel
    states: PyTree


Reset = Callable[[Home, AbstractKernel, PyTree], tuple[AbstractKernel, PyTree]]


class ReprojectionMemory(eqx.Module):
    """The wrapped adaptation's memory, κ (index of the compact set), ν (iterations since the last reset), and home.

    `home` is the kernel with its first θ, `starts` the chains' first states.
    """

    wrapped: PyTree
    kappa: Int[Array, ""]
    nu: Int[Array, ""]
    home: AbstractKernel
    starts: PerChain


def extent(kernel: AbstractKernel, memory: PyTree) -> Float[Array, ""]:
    r"""The extent of θ: $\max(|\theta_i|, 1/L_{jj}, |\mu_i|)$ over the kernel's parameters, its factors and the means.

    Its level sets are compact in the space of lower triangular matrices with a positive diagonal, and cover it. It
    costs O(n²), without eigenvalues. Means are the fields `mean` of the wrapped adaptation's memory.
    """
    is_factor = lambda node: isinstance(node, AbstractFactor)
    has_mean = lambda node: isinstance(node, eqx.Module) and hasattr(node, "mean")
    numbers = jax.tree.leaves(eqx.filter(kernel, eqx.is_inexact_array))
    numbers += [node.mean for node in jax.tree.leaves(memory, is_leaf=has_mean) if has_mean(node)]
    for factor in filter(is_factor, jax.tree.leaves(kernel, is_leaf=is_factor)):
        numbers += [1 / factor.scales()]
    return jnp.max(jnp.stack([jnp.max(jnp.abs(number)) for number in numbers]))


def go_home(home: Home, kernel: AbstractKernel, states: PyTree) -> tuple[AbstractKernel, PyTree]:
    """Π that returns θ and every chain to their starts, without an evaluation of the target."""
    return home.kernel, home.states


def stay_within(radius: float) -> Reset:
    """Π that returns θ to its start and leaves chains within a distance `radius` of 0 where they are.

    Chains further out return to their starts. Raises TypeError or ValueError unless `radius` is a finite number above
    0.
    """
    return Partial(_stay_within, radius=setting(check_positive("radius", radius)))


def _stay_within(home, kernel, states, *, radius):
    near = jnp.linalg.norm(jax.vmap(kernel.position)(states), axis=1) <= radius
    choose = lambda here, start: jnp.where(near.reshape(-1, *[1] * (here.ndim - 1)), here, start)
    return home.kernel, jax.tree.map(choose, states, home.states)


class Reprojection(AbstractAdaptation):
    r"""Keeps the θ of any adaptation in compact sets $K_0 \subset K_1 \subset \dots$, and resets when θ leaves them.

    $K_\kappa = \{\theta : \text{level}(\theta) \le \text{bound}\cdot\text{growth}^\kappa\}$, with the bound raised to
    the first θ's level if that is larger, so that $\Pi(\cdot) \in K_0$. The chain $Z_k = (X_k, \theta_k, \kappa_k,
    \nu_k)$ moves by the wrapped sampler with gain $\gamma_{\kappa+\nu+1}$; then

    - $\theta \in K_\kappa$: κ stays, ν ← ν + 1;
    - otherwise $(X, \theta) \leftarrow \Pi(X, \theta)$, κ ← κ + 1, ν ← 0, and the wrapped adaptation restarts, with
      its gain sequence at $\gamma_\kappa$ (Andrieu & Moulines 2006, section 2).

    The index of a gain sequence is the field `count` of a Module in the wrapped adaptation's memory; an adaptation
    without one, such as `AcceptanceRate`, restarts with its own rates. A θ that is not finite is outside every set. A
    pool of chains has one θ and is reset as a whole. The trace has `kappa`, `nu`, and `resets`, which is true in the
    first iteration after a reset.

    Deviation: Π acts at the end of the iteration, not at the beginning of the next. The draw stored for this iteration
    is thus the position after Π, while its `lp` is that of the position before Π.

    Args:
        wrapped: the adaptation.
        bound: the largest level in K_0.
        growth: factor from the bound of one set to that of the next, above 1.
        level: scalar function of the kernel and the wrapped adaptation's memory, with compact level sets; by default
            `extent`.
        reset: Π, from (home, kernel, states) to a kernel and states, stacked over chains; its θ should lie in K_0.
    """

    wrapped: AbstractAdaptation
    bound: Float[Array, ""] = eqx.field(converter=setting)
    growth: Float[Array, ""] = eqx.field(converter=setting)
    level: Level = extent
    reset: Reset = go_home

    @property
    def diminishing(self):
        return self.wrapped.diminishing

    @property
    def continues(self):
        return self.wrapped.continues

    @property
    def finishes(self):
        return self.wrapped.finishes

    @property
    def moves_chains(self):
        return True

    def init(self, kernel, states):
        zero = jnp.asarray(0)
        return ReprojectionMemory(self.wrapped.init(kernel, states), zero, zero, kernel, PerChain(states))

    def observe(self, memory, kernel, transition):
        evidence, trace = self.wrapped.observe(memory.wrapped, kernel, transition)
        fresh = (memory.nu == 0) & (memory.kappa > 0)
        return (evidence, transition.after), trace | {"kappa": memory.kappa, "nu": memory.nu, "resets": fresh}

    def pool(self, memory, kernel, evidence, chains):
        seen, after = evidence
        return self.wrapped.pool(memory.wrapped, kernel, seen, chains), chains.gather((memory.starts.tree, after))

    def update(self, memory, kernel, states, pooled):
        evidence, (all_starts, all_states) = pooled
        kappa, home = memory.kappa, Home(memory.home, memory.starts.tree)
        kernel, wrapped, states = self.wrapped.update(memory.wrapped, kernel, states, evidence)
        first = self.level(home.kernel, self.wrapped.init(home.kernel, all_starts))
        inside = self.level(kernel, wrapped) <= jnp.maximum(self.bound, first) * self.growth**kappa

        new_kernel, new_states = self.reset(home, kernel, states)
        _, all_new_states = self.reset(Home(memory.home, all_starts), kernel, all_states)
        begun = _advanced(self._begun(new_kernel, new_states, all_new_states), kappa + 1)
        stay = (kernel, wrapped, states, kappa, memory.nu + 1)
        back = (new_kernel, begun, new_states, kappa + 1, jnp.zeros_like(memory.nu))
        choose = lambda a, b: jnp.where(inside, a, b)
        kernel, wrapped, states, kappa, nu = jax.tree.map(choose, stay, back)
        return kernel, ReprojectionMemory(wrapped, kappa, nu, memory.home, memory.starts), states

    def _begun(self, kernel: AbstractKernel, states: PyTree, all_states: PyTree) -> PyTree:
        """A fresh wrapped memory from all chains, whose `PerChain` parts are those of this device's chains."""
        per_chain = lambda node: isinstance(node, PerChain)
        from_all, own = (self.wrapped.init(kernel, each) for each in (all_states, states))
        return jax.tree.map(lambda a, b: b if per_chain(b) else a, from_all, own, is_leaf=per_chain)

    def verdict(self, memory, kernel):
        return self.wrapped.verdict(memory.wrapped, kernel)

    def window_ends(self, length):
        return self.wrapped.window_ends(length)

    def ending(self, done, length):
        return self.wrapped.ending(done, length)

    def end(self, memory, kernel, states, ending):
        kernel, wrapped, states = self.wrapped.end(memory.wrapped, kernel, states, ending)
        return kernel, eqx.tree_at(lambda m: m.wrapped, memory, wrapped), states


def _advanced(memory: PyTree, by: Int[Array, ""]) -> PyTree:
    """The memory with the index of every gain sequence advanced."""
    counts = lambda node: isinstance(node, eqx.Module) and hasattr(node, "count")
    move = lambda node: eqx.tree_at(lambda m: m.count, node, node.count + by)
    return jax.tree.map(lambda node: move(node) if counts(node) else node, memory, is_leaf=counts)
