"""Gaussian linear regression with known noise: its posterior and its marginal likelihood are known."""

import jax.numpy as jnp
import numpy as np

import gadabout as gad

NOISE, PRIOR = 0.7, 2.0
_rng = np.random.default_rng(0)
X = _rng.normal(size=(40, 4))
X[:, 1] += 0.8 * X[:, 0]
Y = X @ [1.0, -2.0, 0.5, 0.0] + NOISE * _rng.normal(size=40)


def log_joint(w, data):
    """log p(y, w) with all its constants."""
    x, y = data
    log_normal = lambda r, s: -0.5 * jnp.sum((r / s) ** 2) - 0.5 * r.size * jnp.log(2 * jnp.pi * s**2)
    return log_normal(y - x @ w, NOISE) + log_normal(w, PRIOR)


TARGET = gad.Target(log_joint, (jnp.asarray(X), jnp.asarray(Y)))
START = gad.proposals.Gaussian(jnp.zeros(4), gad.factors.Diagonal(jnp.full(4, PRIOR)))

PRECISION = X.T @ X / NOISE**2 + np.eye(4) / PRIOR**2
COVARIANCE = np.linalg.inv(PRECISION)
MEAN = COVARIANCE @ X.T @ Y / NOISE**2
_evidence = NOISE**2 * np.eye(40) + PRIOR**2 * X @ X.T
LOG_MARGINAL = -0.5 * Y @ np.linalg.solve(_evidence, Y) - 0.5 * np.linalg.slogdet(2 * np.pi * _evidence)[1]


def moments(w):
    """Means and second moments about the known mean, shape (14,)."""
    i, j = np.tril_indices(4)
    d = w - MEAN
    return jnp.concatenate([w, d[i] * d[j]])


MOMENTS = np.concatenate([MEAN, COVARIANCE[np.tril_indices(4)]])
