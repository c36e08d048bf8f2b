"""A saturating dose response that data determine only along a ridge, and exact draws from a grid."""

import jax.numpy as jnp
import numpy as np

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import normal

NOISE = 0.05
POINTS, WIDTH = 2_001, 6.0
"""`POINTS`: grid points along each coordinate, within `WIDTH` prior standard deviations of the prior's mean."""


def saturation() -> Model:
    """Michaelis-Menten kinetics at concentrations far from saturation, n = 2.

    y_i ~ N(V s_i / (K + s_i), 0.05), log V ~ N(0, 1.5), log K ~ N(0, 1.5).
    """
    rng = np.random.default_rng(212)
    s = np.linspace(0.1, 1.5, 12).round(2)
    y = (2.0 * s / (3.0 + s) + rng.normal(0, NOISE, 12)).round(3)
    return build(_saturation, {"log_v": (), "log_k": ()}, {"y": y, "s": s}, _values, "y")


def _saturation(p, data):
    rate = jnp.exp(p["log_v"]) * data["s"] / (jnp.exp(p["log_k"]) + data["s"])
    return normal(p["log_v"], 0.0, 1.5) + normal(p["log_k"], 0.0, 1.5) + normal(data["y"], rate, NOISE)


def _values(p, data):
    return {"v": jnp.exp(p["log_v"]), "k": jnp.exp(p["log_k"])}


def saturation_draws(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Draws of `saturation` from a grid, uniform within its cells."""
    data = {name: np.asarray(values, float) for name, values in saturation().data.items()}
    grid = np.linspace(-1.5 * WIDTH, 1.5 * WIDTH, POINTS)
    square = np.zeros((POINTS, POINTS))  # log V, log K
    for s, y in zip(data["s"], data["y"], strict=True):
        square += ((y - np.exp(grid)[:, None] * s / (np.exp(grid) + s)) / NOISE) ** 2
    square += (grid[:, None] ** 2 + grid**2) / 1.5**2
    mass = np.exp(-0.5 * (square - square.min())).ravel()
    log_v, log_k = np.divmod(rng.choice(mass.size, size, p=mass / mass.sum()), POINTS)
    within = (grid[1] - grid[0]) * (rng.random((2, size)) - 0.5)
    return {"log_v": grid[log_v] + within[0], "log_k": grid[log_k] + within[1]}
