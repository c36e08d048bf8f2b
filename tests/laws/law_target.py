"""The laws' target: three coordinates, correlated, curved and skew, whose exact draws are known."""

import jax
import jax.numpy as jnp


def log_density(x):
    """x₀ ~ N(0, 1), x₁ | x₀ ~ N(x₀²/2 − x₀, 0.6²), x₂ ~ Gumbel."""
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - 0.5 * x[0] ** 2 + x[0]) / 0.6) ** 2 - x[2] - jnp.exp(-x[2])


def draws(key, count):
    """Exact draws, shape (count, 3)."""
    k0, k1, k2 = jax.random.split(key, 3)
    x0 = jax.random.normal(k0, (count,))
    x1 = 0.5 * x0**2 - x0 + 0.6 * jax.random.normal(k1, (count,))
    return jnp.stack([x0, x1, jax.random.gumbel(k2, (count,))], -1)


def moments(x):
    """Means and second moments, shape (..., 9)."""
    i, j = jnp.tril_indices(3)
    return jnp.concatenate([x, x[..., i] * x[..., j]], -1)
