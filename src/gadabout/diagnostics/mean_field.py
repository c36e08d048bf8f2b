r"""Adaptive Metropolis on a known target as stochastic approximation: its mean field, and a Lyapunov function of it.

θ = (μ, Γ) moves by $\theta_{k+1} = \theta_k + \gamma_{k+1} h(\theta_k) + \gamma_{k+1}\xi_{k+1}$, where h is the mean of
the update under the target's law, with mean $\mu_\pi$ and covariance $\Gamma_\pi$ (Andrieu & Moulines 2006, section 4).
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Mean = Float[Array, " n"]
Covariance = Float[Array, "n n"]


def lyapunov(mean: Mean, covariance: Covariance, target_mean: Mean, target_covariance: Covariance) -> Float[Array, ""]:
    r"""$w = \log|\Gamma| + (\mu - \mu_\pi)^\top\Gamma^{-1}(\mu - \mu_\pi) + \mathrm{tr}(\Gamma^{-1}\Gamma_\pi)$.

    Smallest at $(\mu_\pi, \Gamma_\pi)$, where it is $\log|\Gamma_\pi| + n$: twice the Kullback-Leibler divergence of
    N(μ, Γ) from the target's Gaussian, up to a constant. Γ must be positive definite.
    """
    d = mean - target_mean
    spread = jnp.linalg.solve(covariance, target_covariance + jnp.outer(d, d))
    return jnp.linalg.slogdet(covariance)[1] + jnp.trace(spread)


def mean_field(
    mean: Mean, covariance: Covariance, target_mean: Mean, target_covariance: Covariance
) -> tuple[Mean, Covariance]:
    r"""$h(\theta) = (\mu_\pi - \mu,\; (\mu_\pi - \mu)(\mu_\pi - \mu)^\top + \Gamma_\pi - \Gamma)$."""
    d = target_mean - mean
    return d, jnp.outer(d, d) + target_covariance - covariance


def descent(mean: Mean, covariance: Covariance, target_mean: Mean, target_covariance: Covariance) -> Float[Array, ""]:
    r"""$\langle\nabla w, h\rangle$, by automatic differentiation of w along h: never above 0, and 0 at the target.

    It equals $-2\,d^\top\Gamma^{-1}d - \mathrm{tr}\bigl[(\Gamma^{-1}(dd^\top + \Gamma_\pi - \Gamma))^2\bigr]$ with
    $d = \mu - \mu_\pi$.
    """
    w = lambda mean, covariance: lyapunov(mean, covariance, target_mean, target_covariance)
    field = mean_field(mean, covariance, target_mean, target_covariance)
    return jax.jvp(w, (mean, covariance), field)[1]
