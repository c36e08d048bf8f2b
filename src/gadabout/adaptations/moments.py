"""Adaptive Metropolis in the paper's Cholesky form: the factor follows the chain's own covariance."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.factors import Cholesky, Diagonal


class Memory(eqx.Module):
    """The running mean μ and the number t of updates made."""

    mean: Float[Array, " n"]
    count: Int[Array, ""]


class CholeskyMoments(AbstractAdaptation):
    r"""Tracks mean and covariance of the chain without a matrix decomposition, O(n²) an iteration.

    With $d = x_{t+1} - \mu$ after $\mu \leftarrow \mu + \rho_t(x_{t+1} - \mu)$, and $M = L^{-1}d\,(L^{-1}d)^\top$,

    - as written (supplement B; Andrieu & Thoms 2008, section 5.1.1): $L \leftarrow L + \rho_t L\,[M - I]_{lower}$;
    - as run (reference implementation): $L \leftarrow L + \rho_t [L(M - I)]_{lower}$, where
      $LM = d\,(L^{-1}d)^\top$ because $L L^{-1} d = d$.

    Both move L's diagonal alike for a `Diagonal` factor. Rates fall as $\rho_t = \rho/(1 + t/T)$. Over several chains
    the updates are means, and μ follows the mean of the chains.

    Args:
        as_written: which of the two updates.
        rate: ρ of L.
        mean_rate: ρ of μ, which falls with T only if `as_written`.
        horizon: T, in iterations.
        where: the lens from the kernel to the factor, a `Cholesky` or a `Diagonal`.
    """

    as_written: bool = eqx.field(static=True)
    rate: Float[Array, ""] = eqx.field(converter=setting)
    mean_rate: Float[Array, ""] = eqx.field(converter=setting)
    horizon: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)

    @property
    def diminishing(self):
        return self.as_written

    def init(self, kernel, states):
        return Memory(jnp.mean(jax.vmap(kernel.position)(states), 0), jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        return kernel.position(transition.after), {}

    def update(self, memory, kernel, states, evidence):
        factor = self.where(kernel)
        fall = 1 + memory.count / self.horizon
        mean_rate = self.mean_rate / fall if self.as_written else self.mean_rate
        mean = memory.mean + mean_rate * (jnp.mean(evidence, 0) - memory.mean)
        update = jax.vmap(lambda x: self._update(factor, x - mean))(evidence)
        step = jnp.mean(update, 0) * self.rate / fall
        factor = jax.tree.map(lambda leaf: leaf + step, factor)
        return eqx.tree_at(self.where, kernel, factor), Memory(mean, memory.count + 1), states

    def _update(self, factor: Cholesky | Diagonal, d: Float[Array, " n"]) -> Float[Array, "..."]:
        """L [M − I]_lower or [L (M − I)]_lower, shaped as the factor's one leaf."""
        z = factor.solve(d)
        if isinstance(factor, Diagonal):
            return factor.scale * (z**2 - 1)
        if self.as_written:  # column j of L tril(z zᵀ) is z_j Σ_{k ≥ j} L_·k z_k: a cumulative sum from the right
            return jax.lax.cumsum(factor.matrix * z, axis=1, reverse=True) * z - factor.matrix
        return jnp.tril(jnp.outer(d, z)) - factor.matrix
