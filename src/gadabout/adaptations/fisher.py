"""Fisher-adaptive preconditioning: a root of the inverse Fisher information, by rank-one updates."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.factors import Scaled, SquareRoot
from gadabout.kernels import MetropolisInfo


class FisherMemory(eqx.Module):
    """σ², the proposal's variance with the preconditioner's own scale divided out, and the number of updates made."""

    variance: Float[Array, ""]
    count: Int[Array, ""]


class FisherSignal(eqx.Module):
    """One chain's signal d = √α (∇ log π(y) − ∇ log π(x)), zero where it is not finite, and its α."""

    signal: Float[Array, " n"]
    acceptance_rate: Float[Array, ""]


class InverseFisher(AbstractAdaptation):
    r"""Learns $A = (\lambda I + \sum_t d_t d_t^\top)^{-1} = RR^\top$ by rank-one updates of R, $O(n^2)$ each.

    With $\varphi = R^\top d$ and $r = 1/(1 + \sqrt{1/(1 + \|\varphi\|^2)})$,
    $$R \leftarrow R - \frac{r}{1 + \|\varphi\|^2}(R\varphi)\varphi^\top,\qquad
    \sigma^2 \leftarrow \sigma^2(1 + \rho(\alpha - \alpha_*)),\qquad s = \sigma^2 / (\operatorname{tr}A/n),$$
    α the acceptance probability, $d = \sqrt\alpha\,(\nabla\log\pi(y) - \nabla\log\pi(x))$, and s A the proposal's
    covariance (Titsias 2023, section 4 and algorithm 1). The source has another formula for the first update because it
    starts at R = I. Here R starts at $R = I/\sqrt\lambda$, whose scale s divides out, so that all updates are alike.

    The updates of several chains are applied one after another, and α in σ² is their mean. A signal that is not finite
    leaves R unchanged. The trace `step_size` holds σ.

    Args:
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to the factor, `Scaled` (its multiplier is √s) over a `SquareRoot` R.
        rate: ρ.
        delay: initial iterations of plain MALA, in which only σ² changes.
    """

    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)
    rate: Float[Array, ""] = eqx.field(converter=setting, default=0.015)
    delay: Float[Array, ""] = eqx.field(converter=setting, default=500)

    def init(self, kernel, states):
        factor = self.where(kernel)
        return FisherMemory(factor.multiplier**2 * _mean_eigenvalue(factor.base.matrix), jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        info = transition.info
        if not isinstance(info, MetropolisInfo) or info.proposed.grad is None:
            raise TypeError(f"InverseFisher needs gradients of proposals, as Metropolis(Langevin) has, got {kernel}")
        d = jnp.sqrt(info.acceptance_rate) * (info.proposed.grad - transition.before.grad)
        usable = info.finite & jnp.isfinite(d).all()
        return FisherSignal(jnp.where(usable, d, 0), info.acceptance_rate), {"step_size": jnp.sqrt(memory.variance)}

    def pool(self, memory, kernel, evidence, chains):
        return chains.gather(evidence)

    def update(self, memory, kernel, states, pooled):
        signals = jnp.where(memory.count >= self.delay, pooled.signal, 0)
        R, _ = jax.lax.scan(lambda R, d: (fold(R, d), None), self.where(kernel).base.matrix, signals)
        acceptance = jnp.mean(pooled.acceptance_rate)
        variance = memory.variance * (1 + self.rate * (acceptance - self.target_acceptance))
        factor = Scaled(jnp.sqrt(variance / _mean_eigenvalue(R)), SquareRoot(R))
        return eqx.tree_at(self.where, kernel, factor), FisherMemory(variance, memory.count + 1), states

    def verdict(self, memory, kernel):
        return {"target_acceptance": self.target_acceptance}


def fold(R: Float[Array, "n n"], d: Float[Array, " n"]) -> Float[Array, "n n"]:
    """A square root of (A⁻¹ + d dᵀ)⁻¹ from the square root R of A; R itself where d = 0, or where ‖Rᵀd‖² overflows."""
    phi = d @ R
    square = phi @ phi
    phi, square = jax.tree.map(lambda v: jnp.where(jnp.isfinite(square), v, 0), (phi, square))
    r = 1 / (1 + jnp.sqrt(1 / (1 + square)))
    return R - jnp.outer(R @ phi, r / (1 + square) * phi)


def _mean_eigenvalue(R):
    """tr(R Rᵀ) / n."""
    return jnp.sum(R**2) / R.shape[-1]
