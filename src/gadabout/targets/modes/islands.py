"""Mixtures of distant Gaussians, each with its exact draws: two islands, and a ring of eight."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.model import Model
from gadabout.targets.wild.build import build

Draws = dict[str, np.ndarray]


class Islands(NamedTuple):
    """K Gaussians in n dimensions: masses (K,), centres (K, n), and roots L (K, n, n) of their covariances L Lᵀ."""

    masses: np.ndarray
    centres: np.ndarray
    roots: np.ndarray

    def model(self) -> Model:
        """The model of their mixture, with one variable x (n,)."""
        log_heights = np.log(self.masses) - np.linalg.slogdet(self.roots)[1]
        data = {"log_heights": log_heights, "centres": self.centres, "whiten": np.linalg.inv(self.roots)}
        return build(_mixture, {"x": (self.centres.shape[1],)}, data)

    def draws(self, rng: np.random.Generator, size: int) -> Draws:
        """Exact draws."""
        which = rng.choice(len(self.masses), size, p=self.masses)
        noise = rng.standard_normal((size, self.centres.shape[1]))
        x = np.empty_like(noise)
        for k, (centre, root) in enumerate(zip(self.centres, self.roots, strict=True)):
            x[which == k] = centre + noise[which == k] @ root.T
        return {"x": x}


def _mixture(p, data):
    white = jnp.einsum("kij,kj->ki", data["whiten"], p["x"] - data["centres"])
    return jax.nn.logsumexp(data["log_heights"] - 0.5 * jnp.sum(white**2, -1))


def two_islands_2() -> Model:
    """Two correlated Gaussians in 2 dimensions, masses 1 : 3 and widths 1 : 2, 30 of the smaller widths apart.

    x ~ ¼ N(−1.5 u, C₁) + ¾ N(1.5 u, C₂), u a slanted unit vector, standard deviations 0.1 in C₁ and 0.2 in C₂,
    correlations seeded.
    """
    return two_islands(2).model()


def two_islands_5() -> Model:
    """Two correlated Gaussians in 5 dimensions, masses 1 : 3 and widths 1 : 2, 30 of the smaller widths apart.

    As `two_islands_2`.
    """
    return two_islands(5).model()


def two_islands_20() -> Model:
    """Two correlated Gaussians in 20 dimensions, masses 1 : 3 and widths 1 : 2, 30 of the smaller widths apart.

    As `two_islands_2`. Chains start at N(0, 4 u uᵀ + 0.04 I): from any point of (−2, 2)^20 the wider one is uphill.
    """
    model = two_islands(20).model()
    model.start = partial(_along, jnp.asarray(_slanted(20)))
    return model


def _along(u: Float[Array, " n"], key: Key[Array, ""]) -> dict[str, Float[Array, " n"]]:
    along, around = jax.random.split(key)
    return {"x": 2 * jax.random.normal(along) * u + 0.2 * jax.random.normal(around, u.shape, u.dtype)}


def _slanted(n: int) -> np.ndarray:
    u = np.linspace(1, 2, n) * (-1.0) ** np.arange(n)
    return u / np.linalg.norm(u)


def two_islands(n: int) -> Islands:
    """The two islands in n dimensions."""
    rng = np.random.default_rng(200 + n)
    roots = []
    for width in (0.1, 0.2):
        covariance = np.cov(rng.standard_normal((n, 3 * n)))
        scale = np.sqrt(np.diag(covariance))
        roots.append(width * np.linalg.cholesky(covariance / np.outer(scale, scale)))
    u = _slanted(n)
    return Islands(np.array([0.25, 0.75]), np.stack([-1.5 * u, 1.5 * u]), np.stack(roots))


def ring_of_eight() -> Model:
    """Eight Gaussians of masses 1 to 8 on a tilted ring in 3 dimensions, with a wide fourth coordinate: n = 4.

    x ~ Σ_k m_k N(c_k, diag(0.1, 0.1, 0.1, 0.5)²), c_k = (1.5 cos t, 1.5 sin t, 0.7 cos t, 0.4 cos 2t) with t = 2πk/8,
    neighbours about 12 widths apart.
    """
    return ring().model()


def ring() -> Islands:
    """The eight islands of `ring_of_eight`."""
    t = 2 * np.pi * np.arange(8) / 8
    masses = np.array([4.0, 7, 1, 8, 3, 6, 2, 5])
    centres = np.stack([1.5 * np.cos(t), 1.5 * np.sin(t), 0.7 * np.cos(t), 0.4 * np.cos(2 * t)], 1)
    return Islands(masses / masses.sum(), centres, np.tile(np.diag([0.1, 0.1, 0.1, 0.5]), (8, 1, 1)))


def two_islands_2_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `two_islands_2`."""
    return two_islands(2).draws(rng, size)


def two_islands_5_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `two_islands_5`."""
    return two_islands(5).draws(rng, size)


def two_islands_20_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `two_islands_20`."""
    return two_islands(20).draws(rng, size)


def ring_of_eight_draws(rng: np.random.Generator, size: int) -> Draws:
    """Exact draws of `ring_of_eight`."""
    return ring().draws(rng, size)
