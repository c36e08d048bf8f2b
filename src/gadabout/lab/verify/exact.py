"""Targets whose exact draws, means and variances are known."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key


class Exact(NamedTuple):
    """A log density of x, shape (n,), with exact draws.

    Args:
        name: name of the target.
        log_density: log π, up to a constant.
        draws: function of a key and a count that returns exact draws, shape (count, n).
        mean: the means, shape (n,).
        sd: the standard deviations, shape (n,).
    """

    name: str
    log_density: Callable[[Array], Array]
    draws: Callable[[Key[Array, ""], int], Float[Array, "count n"]]
    mean: Float[np.ndarray, " n"]
    sd: Float[np.ndarray, " n"]

    def standardised(self, x: Float[Array, "*draws n"]) -> Float[Array, "*draws n"]:
        """Draws, shifted and scaled to mean 0 and variance 1."""
        return (x - self.mean) / self.sd


_WIDTHS = np.array([0.3, 0.5, 1.0, 2.0, 4.0])
_CENTRE = np.array([1.0, -1.0, 0.0, 3.0, 8.0])
_FACTOR = np.linalg.cholesky(0.6 + 0.4 * np.eye(5)) * _WIDTHS[:, None]
_PRECISION = np.linalg.inv(_FACTOR @ _FACTOR.T)


def _gaussian(x):
    return -0.5 * (x - _CENTRE) @ jnp.asarray(_PRECISION, x.dtype) @ (x - _CENTRE)


def _gaussian_draws(key, count):
    return jnp.asarray(_CENTRE) + jax.random.normal(key, (count, 5)) @ jnp.asarray(_FACTOR.T)


STEEPNESS = 0.3


def _funnel(x):
    return -0.5 * x[0] ** 2 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-2 * STEEPNESS * x[0]) - 2 * STEEPNESS * x[0]


def _funnel_draws(key, count):
    z = jax.random.normal(key, (count, 3))
    return z.at[:, 1:].multiply(jnp.exp(STEEPNESS * z[:, :1]))


def funnel_conditional(key, x, data=None):
    """An exact draw of the funnel's other coordinates given its first."""
    return x.at[1:].set(jnp.exp(STEEPNESS * x[0]) * jax.random.normal(key, (2,), x.dtype))


_MIX = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.4, 1.0]])
_UNMIX = np.linalg.inv(_MIX)
_SKEW_MEAN, _SKEW_VARIANCE = np.array([np.euler_gamma, np.euler_gamma, 0.0]), math.pi**2 * np.array([1, 1, 2]) / 6


def _skew(x):
    """Two Gumbel coordinates and a logistic one, mixed."""
    u = jnp.asarray(_UNMIX, x.dtype) @ x
    return jnp.sum(-u[:2] - jnp.exp(-u[:2])) - u[2] - 2 * jax.nn.softplus(-u[2])


def _skew_draws(key, count):
    gumbel, logistic = jax.random.split(key)
    u = jnp.concatenate([jax.random.gumbel(gumbel, (count, 2)), jax.random.logistic(logistic, (count, 1))], -1)
    return jnp.asarray(u @ _MIX.T)


FREEDOM = 10.0


def _student(x):
    """Student's t with 10 degrees of freedom, in four coordinates."""
    return -0.5 * (FREEDOM + 4) * jnp.log1p(jnp.sum(x**2) / FREEDOM)


def _student_draws(key, count):
    normal, chi = jax.random.split(key)
    scale = jnp.sqrt(0.5 * FREEDOM / jax.random.gamma(chi, 0.5 * FREEDOM, (count, 1)))
    return scale * jax.random.normal(normal, (count, 4))


GAUSSIAN = Exact("gaussian", _gaussian, _gaussian_draws, _CENTRE, _WIDTHS)
FUNNEL = Exact("funnel", _funnel, _funnel_draws, np.zeros(3), np.array([1, *(2 * [math.exp(STEEPNESS**2)])]))
SKEW = Exact("skew", _skew, _skew_draws, _MIX @ _SKEW_MEAN, np.sqrt(_MIX**2 @ _SKEW_VARIANCE))
STUDENT = Exact("student", _student, _student_draws, np.zeros(4), np.full(4, math.sqrt(FREEDOM / (FREEDOM - 2))))
EXACT = (GAUSSIAN, FUNNEL, SKEW, STUDENT)
