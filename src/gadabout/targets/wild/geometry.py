"""Shapes without data, each with its exact draws: funnel, banana, rotated Gaussian, two modes."""

import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import normal

Draws = dict[str, np.ndarray]


def funnel() -> Model:
    """Neal's funnel, n = 10: scales of x from e^−4 to e^4, set by v.

    v ~ N(0, 3), nine x ~ N(0, exp(v/2)) (Neal 2003, section 8).
    """
    return build(_funnel, {"v": (), "x": (9,)}, {})


def _funnel(p, data):
    return normal(p["v"], 0.0, 3.0) + normal(p["x"], 0.0, jnp.exp(p["v"] / 2))


def funnel_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `funnel`."""
    v = rng.normal(0, 3, size)
    return {"v": v, "x": rng.standard_normal((size, 9)) * np.exp(v / 2)[:, None]}


def banana() -> Model:
    """Strongly twisted banana, n = 2: a ridge of width 1 along a parabola 50 wide and 90 high.

    x₁ ~ N(0, 10), x₂ ~ N(0.1 (100 − x₁²), 1) (Haario, Saksman & Tamminen 1999, π₄).
    """
    return build(_banana, {"x": (2,)}, {})


def _banana(p, data):
    x = p["x"]
    return normal(x[0], 0.0, 10.0) + normal(x[1], 0.1 * (100 - x[0] ** 2))


def banana_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `banana`."""
    x = rng.normal(0, 10, size)
    return {"x": np.stack([x, 0.1 * (100 - x**2) + rng.standard_normal(size)], 1)}


def rotated_gaussian() -> Model:
    """Gaussian in 100 dimensions, rotated at random, condition number 1e6: variances 1e-6 to 1, evenly spaced in log.

    x = Q s z, z ~ N(0, I), Q orthogonal (uniform, Stewart 1980), mean zero.
    """
    return build(_rotated_gaussian, {"x": (100,)}, {"whiten": np.linalg.inv(_root())})


def _root() -> np.ndarray:
    """Q s of a seeded rotation Q, shape (100, 100)."""
    q, r = np.linalg.qr(np.random.default_rng(31).standard_normal((100, 100)))
    return q * np.sign(np.diag(r)) * np.logspace(-3, 0, 100)


def _rotated_gaussian(p, data):
    return normal(data["whiten"] @ p["x"])


def rotated_gaussian_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `rotated_gaussian`."""
    return {"x": rng.standard_normal((size, 100)) @ _root().T}


def two_modes() -> Model:
    """Two Gaussians of equal mass and scales 1 and 2 in 10 dimensions, 19 apart: local moves do not cross.

    x ~ ½ N(−3, I) + ½ N(3, 4 I).
    """
    return build(_two_modes, {"x": (10,)}, {})


def _two_modes(p, data):
    return jnp.logaddexp(normal(p["x"], -3.0, 1.0), normal(p["x"], 3.0, 2.0))


def two_modes_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `two_modes`."""
    upper = rng.random(size) < 0.5
    return {
        "x": np.where(upper, 3.0, -3.0)[:, None] + np.where(upper, 2.0, 1.0)[:, None] * rng.standard_normal((size, 10))
    }
