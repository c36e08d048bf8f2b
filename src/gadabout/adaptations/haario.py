"""Adaptive Metropolis of Haario, Saksman and Tamminen, by stochastic approximation, and its global scale."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.adaptations.base import AbstractAdaptation, setting
from gadabout.adaptations.gains import Gain
from gadabout.factors import LowerOuter


class MeanAndCovariance(eqx.Module):
    """θ = (μ, Γ), and the number of updates made, the index of the gain sequence."""

    mean: Float[Array, " n"]
    covariance: Float[Array, "n n"]
    count: Int[Array, ""]


class GainIndex(eqx.Module):
    """The number of updates made, the index of the gain sequence."""

    count: Int[Array, ""]


class Haario(AbstractAdaptation):
    r"""Sets L to the Cholesky factor of the chain's own covariance, $L L^\top = \Gamma + \epsilon I$.

    $$\mu_{k+1} = \mu_k + \gamma_{k+1}(X_{k+1} - \mu_k), \qquad
    \Gamma_{k+1} = \Gamma_k + \gamma_{k+1}[(X_{k+1} - \mu_k)(X_{k+1} - \mu_k)^\top - \Gamma_k]$$

    (Haario, Saksman & Tamminen 2001, in the form of Andrieu & Moulines 2006). The Cholesky factor is
    recomputed in every iteration, in O(n³); `CholeskyMoments` and `Robust` cost O(n²). Over several chains both
    brackets are means over chains.

    Deviations: there is no initial period with a fixed covariance; Γ_0 is the initial L Lᵀ instead. μ_0 is the mean of
    the chains' starts. If rounding leaves Γ + εI without a Cholesky factor, L is unchanged.

    Args:
        gain: γ as a function of k, at most 1.
        where: the lens from the kernel to the factor, a `Cholesky`.
        regularisation: ε, in the squared units of x.
    """

    gain: Gain
    where: Callable[[Any], Any] = eqx.field(static=True)
    regularisation: Float[Array, ""] = eqx.field(converter=setting, default=1e-8)

    @property
    def diminishing(self):
        return True

    def init(self, kernel, states):
        L = self.where(kernel).matrix
        return MeanAndCovariance(jnp.mean(jax.vmap(kernel.position)(states), 0), L @ L.T, jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        return kernel.position(transition.after), {}

    def pool(self, memory, kernel, evidence, chains):
        d = evidence - memory.mean
        shift, squares = chains.total((d, LowerOuter(d, d)))
        count = chains.size(evidence)
        return shift / count, symmetric(squares / count)

    def update(self, memory, kernel, states, pooled):
        gamma = self.gain(memory.count + 1)
        shift, squares = pooled
        mean = memory.mean + gamma * shift
        covariance = memory.covariance + gamma * (squares - memory.covariance)
        factor = self.where(kernel).fitted(covariance + self.regularisation * jnp.eye(len(mean)))
        kernel = eqx.tree_at(self.where, kernel, factor)
        return kernel, MeanAndCovariance(mean, covariance, memory.count + 1), states


class GlobalScale(AbstractAdaptation):
    r"""$\log\lambda_{k+1} = \log\lambda_k + \gamma_{k+1}[\alpha(X_k, Y_{k+1}) - \alpha_*]$, with $\lambda = h^2$.

    This is algorithm 4 of Andrieu & Thoms (2008). α is the acceptance probability, averaged over chains. The trace
    `step_size` holds h.

    Args:
        gain: γ as a function of k.
        target_acceptance: α*, strictly between 0 and 1.
        where: the lens from the kernel to h, a positive scalar.
    """

    gain: Gain
    target_acceptance: Float[Array, ""] = eqx.field(converter=setting)
    where: Callable[[Any], Any] = eqx.field(static=True)

    @property
    def diminishing(self):
        return True

    def init(self, kernel, states):
        return GainIndex(jnp.asarray(0))

    def observe(self, memory, kernel, transition):
        return transition.info.acceptance_rate, {"step_size": self.where(kernel)}

    def update(self, memory, kernel, states, pooled):
        error = pooled - self.target_acceptance
        scale = self.where(kernel) * jnp.exp(0.5 * self.gain(memory.count + 1) * error)
        return eqx.tree_at(self.where, kernel, scale), GainIndex(memory.count + 1), states

    def verdict(self, memory, kernel):
        return {"target_acceptance": self.target_acceptance}


def symmetric(lower: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The symmetric matrix with this lower triangle."""
    return lower + jnp.tril(lower, -1).T
