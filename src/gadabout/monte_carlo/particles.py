"""What sequential Monte Carlo does with weighted particles: resample them, and whiten their coordinates."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key


def whitening(x: Float[Array, "N n"], weights: Float[Array, " N"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The weighted mean and lower Cholesky factor of the weighted covariance; its diagonal where it has no factor."""
    m = weights @ x
    centred = x - m
    covariance = (weights * centred.T) @ centred
    variances = jnp.diagonal(covariance)
    variances = jnp.where(variances > 0, variances, 1.0)
    C = jnp.linalg.cholesky(covariance + 1e-6 * jnp.diag(variances))
    return m, jnp.where(jnp.isfinite(C).all(), C, jnp.diag(jnp.sqrt(variances)))


def whiten(x: Float[Array, "N n"], m: Float[Array, " n"], C: Float[Array, "n n"]) -> Float[Array, "N n"]:
    """z of x = m + C z, for all particles."""
    return jax.scipy.linalg.solve_triangular(C, (x - m).T, lower=True).T


def systematic_resampling(key: Key[Array, ""], weights: Float[Array, " N"]) -> Int[Array, " N"]:
    """Indices of N offspring: i appears ⌊N w_i⌋ or ⌈N w_i⌉ times, N w_i on average; weights need not sum to one.

    The comb (u + 0 … N − 1)/N with one uniform u, laid over the cumulated weights (Douc, Cappé & Moulines 2005).
    """
    N = weights.shape[0]
    cumulated = jnp.cumsum(weights)
    comb = (jax.random.uniform(key, dtype=weights.dtype) + jnp.arange(N)) / N
    return jnp.clip(jnp.searchsorted(cumulated, comb * cumulated[-1], side="right"), 0, N - 1)
