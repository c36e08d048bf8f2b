"""Gaussian targets of the paper, with mean zero and known covariance."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from gadabout.targets.problem import Problem

DESCRIPTIONS = {
    "neal": "Neal's Gaussian: 100 independent coordinates, standard deviations 0.01, 0.02, ..., 1",
    "correlated-2d": "Gaussian in 2 dimensions, unit variances, correlation 0.99",
    "gp-51d": "Gaussian process on a grid of 51 points: strongly correlated, eigenvalues 0.01 to 12.07",
}


def independent_log_density(x: Float[Array, " n"], stds: Float[Array, " n"]) -> Float[Array, ""]:
    r"""Gaussian of independent coordinates, $-\frac12\sum_i (x_i/s_i)^2$, for standard deviations s of shape (n,)."""
    return -0.5 * jnp.sum((x / stds) ** 2)


def correlated_log_density(x: Float[Array, " n"], precision: Float[Array, "n n"]) -> Float[Array, ""]:
    r"""Gaussian of inverse covariance P, $-\frac12 x^\top P x$, for P of shape (n, n)."""
    return -0.5 * x @ (precision @ x)


def load(name: str) -> Problem:
    """The Gaussian target called `name`, a key of DESCRIPTIONS."""
    if name == "neal":
        stds = np.linspace(0.01, 1.0, 100)
        return Problem(name, DESCRIPTIONS[name], 100, independent_log_density, jnp.asarray(stds), np.diag(stds**2))
    covariance = np.array([[1.0, 0.99], [0.99, 1.0]]) if name == "correlated-2d" else _gaussian_process(51)
    precision = np.linalg.inv(covariance)
    precision = jnp.asarray((precision + precision.T) / 2)
    return Problem(name, DESCRIPTIONS[name], len(covariance), correlated_log_density, precision, covariance)


def _gaussian_process(points: int) -> np.ndarray:
    r"""Covariance $\exp(-(s_i - s_j)^2/(2\cdot 0.16)) + 0.01\,\delta_{ij}$ on an even grid of `points` over [0, 4]."""
    grid = np.linspace(0.0, 4.0, points)
    return np.exp(-((grid[:, None] - grid) ** 2) / (2 * 0.16)) + 0.01 * np.eye(points)
