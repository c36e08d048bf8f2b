"""Symmetric posteriors: the data do not identify the labels of a mixture, or the signs of factors."""

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import half_normal, normal


def mixture_labels() -> Model:
    """Three normal components whose labels can be exchanged: six modes of equal mass, n = 7.

    y_i ~ Σ_k w_k N(μ_k, σ), w = softmax(v), v ~ N(0, 1), μ ~ N(0, 3), σ ~ half-N(1), on 90 rows.
    """
    rng = np.random.default_rng(203)
    which = rng.choice(3, 90, p=[0.5, 0.3, 0.2])
    y = rng.normal(np.array([-2.0, 0.5, 3.0])[which], 0.6).round(3)
    return build(_mixture_labels, {"mu": (3,), "v": (3,), "log_sigma": ()}, {"y": y}, _weights, "y")


def _mixture_labels(p, data):
    prior = normal(p["mu"], 0.0, 3.0) + normal(p["v"]) + half_normal(p["log_sigma"], 1.0)
    away = (data["y"][:, None] - p["mu"]) * jnp.exp(-p["log_sigma"])
    each = jax.nn.log_softmax(p["v"]) - 0.5 * away**2
    return prior + jnp.sum(jax.nn.logsumexp(each, -1)) - data["y"].size * p["log_sigma"]


def _weights(p, data):
    return {"w": jax.nn.softmax(p["v"]), "sigma": jnp.exp(p["log_sigma"])}


def exchange_labels(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Draws (..., 7) of `mixture_labels` with the labels of each draw permuted at random."""
    order = np.argsort(rng.random((*x.shape[:-1], 3)), -1)
    mu, v = (np.take_along_axis(part, order, -1) for part in (x[..., :3], x[..., 3:6]))
    return np.concatenate([mu, v, x[..., 6:]], -1)


def sign_flips() -> Model:
    """Two factors of three indicators each, whose signs are not identified: four modes of equal mass, n = 7.

    y_ifj ~ N(λ_fj z_if, σ), z ~ N(0, 1) integrated out, λ ~ N(0, 2), σ ~ half-N(1), on 50 rows.
    """
    rng = np.random.default_rng(206)
    loadings = np.array([[1.2, -0.8, 1.0], [0.9, 1.4, -1.1]])
    y = (loadings * rng.normal(size=(50, 2, 1)) + rng.normal(0, 0.7, (50, 2, 3))).round(3)
    products = np.einsum("ifj,ifk->fjk", y, y)
    data = {"products": products, "rows": 50.0}
    return build(_sign_flips, {"loadings": (2, 3), "log_sigma": ()}, data, _sigma)


def _sign_flips(p, data):
    """Log density. The indicators of a factor have covariance σ² I + λ λᵀ, with determinant σ⁴ (σ² + λᵀ λ)."""
    variance, size = jnp.exp(2 * p["log_sigma"]), jnp.sum(p["loadings"] ** 2, -1)
    along = jnp.einsum("fj,fjk,fk->f", p["loadings"], data["products"], p["loadings"]) / (variance + size)
    squares = (jnp.trace(data["products"], axis1=-2, axis2=-1) - along) / variance
    log_determinants = 4 * p["log_sigma"] + jnp.log(variance + size)
    prior = normal(p["loadings"], 0.0, 2.0) + half_normal(p["log_sigma"], 1.0)
    return prior - 0.5 * jnp.sum(squares + data["rows"] * log_determinants)


def _sigma(p, data):
    return {"sigma": jnp.exp(p["log_sigma"])}


def flip_signs(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    """Draws (..., 7) of `sign_flips` with the sign of each factor of each draw flipped at random."""
    signs = np.repeat(rng.choice([-1.0, 1.0], (*x.shape[:-1], 2)), 3, -1)
    return np.concatenate([signs * x[..., :6], x[..., 6:]], -1)
