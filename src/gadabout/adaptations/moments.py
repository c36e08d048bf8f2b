"""Adaptive Metropolis in the paper's Cholesky form: the factor follows the chain's own covariance."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.factors import pooled_sum


class RunningMean(eqx.Module):
    """The running mean μ and the number t of updates made."""

    mean: Float[Array, " n"]
    count: Int[Array, ""]


class CholeskyMoments(AbstractAdaptation):
    r"""Tracks mean and covariance of the chain without a matrix decomposition, O(n²) an iteration.

    With $d = x_{t+1} - \mu$ after $\mu \leftarrow \mu + \rho_t(x_{t+1} - \mu)$, and $M = L^{-1}d\,(L^{-1}d)^\top$,

    - as written (supplement B; Andrieu & Thoms 2008, section 5.1.1): $L \leftarrow L + \rho_t L\,[M - I]_{lower}$;
    - as run (reference implementation): $L \leftarrow L + \rho_t [L(M - I)]_{lower}$, where
      $LM = d\,(L^{-1}d)^\top$ because $L L^{-1} d = d$.

    For a `Diagonal` factor the two agree. Rates fall as $\rho_t = \rho/(1 + t/T)$. Over several chains
    the updates are means over chains, and μ follows the mean of the chains.

    Args:
        as_written: whether the first of the two updates is used, not the second.
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
        return RunningMean(jnp.mean(jax.vmap(kernel.position)(states), 0), jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        return kernel.position(transition.after), {}

    def pool(self, memory, kernel, evidence, chains):
        return chains.gather(evidence)

    def update(self, memory, kernel, states, pooled):
        factor = self.where(kernel)
        fall = 1 + memory.count / self.horizon
        mean_rate = self.mean_rate / fall if self.as_written else self.mean_rate
        mean = memory.mean + mean_rate * (jnp.mean(pooled, 0) - memory.mean)
        d = pooled - mean
        z = jax.vmap(factor.solve)(d)
        product = pooled_sum(jax.vmap(factor.mul_outer)(z, z) if self.as_written else jax.vmap(factor.outer)(d, z))
        step = lambda leaf, total: leaf + (total / len(d) - leaf) * self.rate / fall
        factor = jax.tree.map(step, factor, product)
        return eqx.tree_at(self.where, kernel, factor), RunningMean(mean, memory.count + 1), states
