"""Shapes without data whose ridges are parabolas, each with its exact draws."""

import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import normal

Draws = dict[str, np.ndarray]


def twisted_gaussian() -> Model:
    """Moderately twisted Gaussian, n = 8: one coordinate follows a parabola of another, in raw units.

    x₁ ~ N(0, 10), x₂ ~ N(0.03 (100 − x₁²), 1), x₃, …, x₈ ~ N(0, 1) (Haario, Saksman & Tamminen 1999, π₃).
    """
    return build(_twisted, {"x": (8,)}, {})


def _twisted(p, data):
    x = p["x"]
    return normal(x[0], 0.0, 10.0) + normal(x[1], 0.03 * (100 - x[0] ** 2)) + normal(x[2:], 0.0)


def twisted_gaussian_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `twisted_gaussian`."""
    x = rng.standard_normal((size, 8))
    x[:, 0] *= 10
    x[:, 1] += 0.03 * (100 - x[:, 0] ** 2)
    return {"x": x}


def rosenbrock() -> Model:
    """Rosenbrock's function as a density, n = 2: a parabola with a ridge of width 0.1.

    a ~ N(1, 1), b ~ N(a², 0.1).
    """
    return build(_rosenbrock, {"a": (), "b": ()}, {})


def _rosenbrock(p, data):
    return normal(p["a"], 1.0) + normal(p["b"], p["a"] ** 2, 0.1)


def rosenbrock_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `rosenbrock`."""
    a = 1 + rng.standard_normal(size)
    return {"a": a, "b": a**2 + 0.1 * rng.standard_normal(size)}


def hybrid_rosenbrock() -> Model:
    """Hybrid Rosenbrock density, n = 7: three branches, in each of which parabolas follow each other.

    a ~ N(1, 1), b_{j1} ~ N(a², 0.3), b_{j2} ~ N(b_{j1}², 0.3) (Pagani, Wiegand & Nadarajah 2022).
    """
    return build(_hybrid, {"a": (), "b": (3, 2)}, {})


def _hybrid(p, data):
    b = p["b"]
    return normal(p["a"], 1.0) + normal(b[:, 0], p["a"] ** 2, 0.3) + normal(b[:, 1], b[:, 0] ** 2, 0.3)


def hybrid_rosenbrock_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `hybrid_rosenbrock`."""
    a, noise = 1 + rng.standard_normal(size), 0.3 * rng.standard_normal((2, size, 3))
    first = a[:, None] ** 2 + noise[0]
    return {"a": a, "b": np.stack([first, first**2 + noise[1]], 2)}


def six_parabolas() -> Model:
    """Six parabolas side by side, n = 12.

    u_j ~ N(0, 1), v_j ~ N(u_j², 0.3).
    """
    return build(_six, {"u": (6,), "v": (6,)}, {})


def _six(p, data):
    return normal(p["u"], 0.0) + normal(p["v"], p["u"] ** 2, 0.3)


def six_parabolas_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `six_parabolas`."""
    u = rng.standard_normal((size, 6))
    return {"u": u, "v": u**2 + 0.3 * rng.standard_normal((size, 6))}


def products() -> Model:
    """Three coordinates that follow products of others, n = 6: saddles, without any square.

    u ~ N(1, 1), v_1 ~ N(u₁ u₂, 0.2), v_2 ~ N(u₂ u₃, 0.2), v_3 ~ N(u₁ u₃, 0.2).
    """
    return build(_products, {"u": (3,), "v": (3,)}, {})


def _products(p, data):
    u = p["u"]
    return normal(u, 1.0) + normal(p["v"], jnp.stack([u[0] * u[1], u[1] * u[2], u[0] * u[2]]), 0.2)


def products_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `products`."""
    u = 1 + rng.standard_normal((size, 3))
    pairs = np.stack([u[:, 0] * u[:, 1], u[:, 1] * u[:, 2], u[:, 0] * u[:, 2]], 1)
    return {"u": u, "v": pairs + 0.2 * rng.standard_normal((size, 3))}


def rotated_parabola() -> Model:
    """A parabola in a seeded rotation, n = 5: no coordinate follows another one.

    x = Q (u₁, u₁² + 0.2 u₂, u₃, u₄, u₅) with u ~ N(0, I).
    """
    return build(_rotated, {"x": (5,)}, {"rotation": rotation()})


def rotation() -> np.ndarray:
    """Q, shape (5, 5)."""
    return np.linalg.qr(np.random.default_rng(211).standard_normal((5, 5)))[0]


def _rotated(p, data):
    y = data["rotation"].T @ p["x"]
    return normal(y[0], 0.0) + normal(y[1], y[0] ** 2, 0.2) + normal(y[2:], 0.0)


def rotated_parabola_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `rotated_parabola`."""
    y = rng.standard_normal((size, 5))
    y[:, 1] = y[:, 0] ** 2 + 0.2 * y[:, 1]
    return {"x": y @ rotation().T}


def bent_funnel() -> Model:
    """A funnel along a parabola, n = 6: both location and scale of x depend on v.

    v ~ N(0, 1), five x ~ N(v², exp(v)).
    """
    return build(_bent, {"v": (), "x": (5,)}, {})


def _bent(p, data):
    return normal(p["v"], 0.0) + normal(p["x"], p["v"] ** 2, jnp.exp(p["v"]))


def bent_funnel_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `bent_funnel`."""
    v = rng.standard_normal(size)
    return {"v": v, "x": v[:, None] ** 2 + np.exp(v)[:, None] * rng.standard_normal((size, 5))}
