r"""Log densities, summed and up to a constant, from which the everyday posteriors are built.

A parameter that is positive is sampled as its logarithm, a probability as its logit; functions that take `log_…` or
`logit_…` include the Jacobian of that change of variables: $\log p(s) + \log s$ for s = exp(log_s), and
$\log p(q) + \log q + \log(1 - q)$ for q = σ(logit_q).
"""

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from gadabout.targets.log_sigmoid import log_sigmoid

Scalar = Float[Array, ""]


def normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> Scalar:
    """Normal."""
    return jnp.sum(-0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd))


def cauchy(x: Any, scale: Any) -> Scalar:
    """Cauchy with median 0."""
    return -jnp.sum(jnp.log1p((x / scale) ** 2))


def student_t(x: Any, degrees: Any, mean: Any, sd: Any) -> Scalar:
    """Student t, with the terms that depend on the degrees of freedom."""
    constant = gammaln((degrees + 1) / 2) - gammaln(degrees / 2) - 0.5 * jnp.log(degrees) - jnp.log(sd)
    return jnp.sum(constant - 0.5 * (degrees + 1) * jnp.log1p(((x - mean) / sd) ** 2 / degrees))


def half_normal(log_s: Any, scale: Any) -> Scalar:
    """The logarithm of a half-normal variable."""
    return jnp.sum(log_s - 0.5 * (jnp.exp(log_s) / scale) ** 2)


def half_cauchy(log_s: Any, scale: Any = 1.0) -> Scalar:
    """The logarithm of a half-Cauchy variable."""
    return jnp.sum(log_s - jnp.logaddexp(0.0, 2 * (log_s - jnp.log(scale))))


def gamma(log_s: Any, shape: float, rate: float) -> Scalar:
    """The logarithm of a gamma variable."""
    return jnp.sum(shape * log_s - rate * jnp.exp(log_s))


def inverse_gamma(log_s: Any, shape: float, scale: float) -> Scalar:
    """The logarithm of an inverse gamma variable."""
    return jnp.sum(-shape * log_s - scale * jnp.exp(-log_s))


def beta(logit_q: Any, a: float, b: float) -> Scalar:
    """The logit of a beta variable; a = b = 1 is uniform."""
    return jnp.sum(a * log_sigmoid(logit_q) + b * log_sigmoid(-logit_q))


def bernoulli_logit(y: Any, eta: Any) -> Scalar:
    """Outcomes y, 0 or 1, with P(y = 1) = σ(eta)."""
    return jnp.sum(log_sigmoid((2 * y - 1) * eta))


def poisson_log(y: Any, eta: Any) -> Scalar:
    """Counts y with mean exp(eta)."""
    return jnp.sum(y * eta - jnp.exp(eta))
