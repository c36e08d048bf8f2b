"""A period from two distant seasons: islands of unequal mass, and exact draws from a grid."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.model import Model
from gadabout.targets.wild.build import build
from gadabout.targets.wild.densities import normal

LOG_PERIOD, SPREAD = float(np.log(8.0)), 0.15
"""`LOG_PERIOD`, `SPREAD`: mean and standard deviation of the prior of the log period."""
NOISE = 0.7
POINTS, CHUNK = 200_001, 20_000
"""`POINTS`: grid points, over six prior standard deviations to each side. `CHUNK`: log periods computed at once."""


def period() -> Model:
    """Period of a sinusoid from two distant short seasons: about fifteen islands along one coordinate, n = 5.

    y_i ~ N(a sin w_i + b cos w_i + o_{season i}, 0.7), w = 2π t/P, log P ~ N(log 8, 0.15), a, b, o₁, o₂ ~ N(0, 1.5).
    Chains start at draws of the prior.
    """
    rng = np.random.default_rng(207)
    t = np.sort(np.concatenate([rng.uniform(0, 20, 10), rng.uniform(360, 380, 10)])).round(2)
    season = np.stack([t < 100, t >= 100], 1)
    y = (0.9 * np.sin(2 * np.pi * t / 8.3 + 0.5) + season @ [0.4, -0.3] + rng.normal(0, NOISE, 20)).round(3)
    shapes = {"log_period": (), "amplitudes": (2,), "offsets": (2,)}
    model = build(_period, shapes, {"y": y, "t": t, "season": season}, _values, "y")
    model.start = _from_prior
    return model


def _period(p, data):
    w = 2 * jnp.pi * data["t"] * jnp.exp(-p["log_period"])
    a, b = p["amplitudes"]
    prior = normal(p["log_period"], LOG_PERIOD, SPREAD)
    prior += normal(p["amplitudes"], 0.0, 1.5) + normal(p["offsets"], 0.0, 1.5)
    return prior + normal(data["y"], a * jnp.sin(w) + b * jnp.cos(w) + data["season"] @ p["offsets"], NOISE)


def _values(p, data):
    return {"period": jnp.exp(p["log_period"])}


def _from_prior(key: Key[Array, ""]) -> dict[str, Float[Array, "..."]]:
    z = jax.random.normal(key, (5,))
    return {"log_period": LOG_PERIOD + SPREAD * z[0], "amplitudes": 1.5 * z[1:3], "offsets": 1.5 * z[3:]}


def period_draws(rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
    """Exact draws of `period`.

    The log period is drawn from a density that is linear between grid points; the others are normal given it.
    """
    data = {name: np.asarray(values, float) for name, values in period().data.items()}
    log_period = _by_grid(rng, size, data)
    parts = []
    for part in np.array_split(log_period, size // CHUNK + 1):
        mean, root, _ = _given(part, data)
        parts.append(mean + np.einsum("mij,mj->mi", root, rng.standard_normal((len(part), 4))))
    rest = np.concatenate(parts)
    return {"log_period": log_period, "amplitudes": rest[:, :2], "offsets": rest[:, 2:]}


def _by_grid(rng: np.random.Generator, size: int, data: dict[str, np.ndarray]) -> np.ndarray:
    grid, density = period_density(data)
    masses = (density[1:] + density[:-1]) / 2
    cell = rng.choice(POINTS - 1, size, p=masses / masses.sum())
    low, high, u = density[cell], density[cell + 1], rng.random(size)
    within = u * (low + high) / (low + np.sqrt(low**2 + u * (high**2 - low**2)))  # inverse CDF of a linear density
    return grid[cell] + within * (grid[1] - grid[0])


def period_density(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A grid of log periods, and their marginal density there, up to a constant."""
    grid = np.linspace(LOG_PERIOD - 6 * SPREAD, LOG_PERIOD + 6 * SPREAD, POINTS)
    log_density = np.concatenate([_given(part, data)[2] for part in np.array_split(grid, POINTS // CHUNK + 1)])
    log_density -= 0.5 * ((grid - LOG_PERIOD) / SPREAD) ** 2
    return grid, np.exp(log_density - log_density.max())


def _given(log_period: np.ndarray, data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean (m, 4) and covariance root (m, 4, 4) of amplitudes and offsets given log periods (m,), and log likelihood.

    In the log likelihood, amplitudes and offsets are integrated out. It omits a constant.
    """
    w = 2 * np.pi * data["t"] * np.exp(-log_period[:, None])
    inputs = np.concatenate(
        [np.sin(w)[..., None], np.cos(w)[..., None], np.broadcast_to(data["season"], (*w.shape, 2))], -1
    )
    precision = np.swapaxes(inputs, 1, 2) @ inputs / NOISE**2 + np.eye(4) / 1.5**2
    root = np.swapaxes(np.linalg.inv(np.linalg.cholesky(precision)), 1, 2)
    white = np.einsum("mji,mkj,k->mi", root, inputs, data["y"], optimize=True) / NOISE**2
    log_likelihood = np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), -1) + 0.5 * np.sum(white**2, -1)
    return np.einsum("mij,mj->mi", root, white), root, log_likelihood
