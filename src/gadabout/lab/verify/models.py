"""Models whose prior and data can be drawn exactly, for checks of calibration."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key


class Generative(NamedTuple):
    """A joint distribution of a flat θ, shape (n,), and data y, an array.

    Args:
        name: name of the model.
        n: number of coordinates of θ.
        prior: function of a key that returns an exact draw of θ.
        data: function of a key and θ that returns an exact draw of y.
        log_likelihood: log p(y | θ), a function of (θ, y), up to a constant.
        log_prior: log p(θ), up to a constant.
    """

    name: str
    n: int
    prior: Callable[[Key[Array, ""]], Float[Array, " n"]]
    data: Callable[[Key[Array, ""], Array], Array]
    log_likelihood: Callable[[Array, Any], Array]
    log_prior: Callable[[Array], Array]

    def log_density(self, theta: Float[Array, " n"], y: Array) -> Float[Array, ""]:
        """log p(θ, y)."""
        return self.log_prior(theta) + self.log_likelihood(theta, y)


def _standard(n):
    return lambda key: jax.random.normal(key, (n,))


def _log_standard(theta):
    return -0.5 * theta @ theta


def _normal_data(key, theta):
    return theta[0] + jnp.exp(0.5 * theta[1]) * jax.random.normal(key, (10,))


def _normal_likelihood(theta, y):
    return jnp.sum(-0.5 * (y - theta[0]) ** 2 * jnp.exp(-theta[1]) - 0.5 * theta[1])


ROWS = np.random.default_rng(20).standard_normal((30, 3))


def _logistic_data(key, theta):
    return (jax.random.uniform(key, (30,)) < jax.nn.sigmoid(ROWS @ theta)).astype(float)


def _logistic_likelihood(theta, y):
    logits = jnp.asarray(ROWS) @ theta
    return jnp.sum(y * logits - jax.nn.softplus(logits))


def _school_effects(theta):
    return 2 * theta[0] + jnp.exp(0.7 * theta[1]) * theta[2:]


def _schools_data(key, theta):
    return _school_effects(theta) + jax.random.normal(key, (8,))


def _schools_likelihood(theta, y):
    return -0.5 * jnp.sum((y - _school_effects(theta)) ** 2)


NORMAL = Generative("normal", 2, _standard(2), _normal_data, _normal_likelihood, _log_standard)
"""mean and log variance of ten observations"""
LOGISTIC = Generative("logistic", 3, _standard(3), _logistic_data, _logistic_likelihood, _log_standard)
"""logistic regression of 30 rows"""
SCHOOLS = Generative("schools", 10, _standard(10), _schools_data, _schools_likelihood, _log_standard)
"""eight groups with a common mean and a common scale, noncentred"""
