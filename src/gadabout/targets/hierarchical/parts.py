"""Functions shared by several models of the set."""

import jax.numpy as jnp


def normal_rows(y, mean, log_sd):
    """Log density of normal variables that share one scale, up to a constant."""
    return -0.5 * jnp.sum(((y - mean) * jnp.exp(-log_sd)) ** 2) - y.size * log_sd


def scales(p, data):
    """The exponential of each variable called `log_…`, by its name without this prefix."""
    return {name.removeprefix("log_"): jnp.exp(values) for name, values in p.items() if name.startswith("log_")}
