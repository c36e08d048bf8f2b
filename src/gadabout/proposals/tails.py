"""Coordinates that lean, or whose tails are longer than a normal's: quadratic in a normal beyond the middle."""

from functools import cache
from statistics import NormalDist
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

BY_CHANCE = 1e-3
"""the chance that any of n normal coordinates leans, or spreads, beyond what is taken to be normal; each, that is"""


class Tails(eqx.Module):
    r"""$T(u) = a + bu - c_-\min(u, 0)^2 + c_+\max(u, 0)^2$ for each coordinate; the identity at a = c = 0, b = 1.

    Of a normal u, a tail with c > 0 falls off as $e^{-|z|/2c}$. T and its slope are continuous, so that the density is.
    """

    shift: Float[Array | np.ndarray, " n"]
    width: Float[Array | np.ndarray, " n"]
    left: Float[Array | np.ndarray, " n"]
    right: Float[Array | np.ndarray, " n"]

    def __call__(self, u: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        """T(u), and log |det dT/du|."""
        return self.shift + u * (self.width + self._bend(u, jnp)), self._log_slope(u, jnp)

    def inverse(self, z: Any, xp: Any = jnp) -> tuple[Any, Any]:
        """u = T⁻¹(z) of shape (..., n), and log |det dT/du| there; `xp` computes, `jax.numpy` or `numpy`."""
        t = z - self.shift
        root = xp.sqrt(self.width * self.width + 4 * self._bend(t, xp))  # √(b² + 4c|t|)
        u = 2 * t / (self.width + root)
        return u, self._log_slope(u, xp)

    def _bend(self, u, xp) -> Any:
        """c₋ |u| to the left of 0, c₊ |u| to the right."""
        return self.right * xp.maximum(u, 0) - self.left * xp.minimum(u, 0)

    def _log_slope(self, u, xp) -> Any:
        return xp.sum(xp.log(self.width + 2 * self._bend(u, xp)), -1)


def no_tails(n: int) -> Tails:
    """The identity, in NumPy's arrays."""
    return Tails(np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n))


def fitted_tails(z: np.ndarray) -> Tails:
    """T of a normal, fitted to draws z, shape (draws, n): least squares of their order on that of a normal, c ≥ 0.

    A coordinate whose skewness and kurtosis might be a normal's is left as it is. Arrays are NumPy's.
    """
    N, n = z.shape
    mean, sd = z.mean(0), np.maximum(z.std(0), np.finfo(float).tiny)
    d = (z - mean) / sd
    square = d * d  # d**3 and d**4 take forty times as long
    significant = -NormalDist().inv_cdf(BY_CHANCE / n)  # standard errors
    leans = np.abs(np.mean(square * d, 0)) > significant * np.sqrt(6 / N)
    spreads = np.mean(square * square, 0) - 3 > significant * np.sqrt(24 / N)
    odd = np.flatnonzero(leans | spreads)
    ordered = np.sort(d[:, odd], 0)
    best, least = np.zeros((4, len(odd))), np.full(len(odd), np.inf)
    for columns, solve in _least_squares(N):
        fit = np.zeros((4, len(odd)))
        fit[columns] = solve @ ordered
        missed = np.sum((ordered - _basis(N) @ fit) ** 2, 0)
        better = (fit[1] > 0) & (fit[2:] >= 0).all(0) & (missed < least)
        best, least = np.where(better, fit, best), np.where(better, missed, least)
    found = np.where(np.isfinite(least), best, np.array([[0.0], [1.0], [0.0], [0.0]]))
    a, b, left, right = found * sd[odd]
    whole = no_tails(n)
    whole.shift[odd], whole.width[odd], whole.left[odd], whole.right[odd] = a + mean[odd], b, left, right
    return whole


@cache
def _basis(N: int) -> np.ndarray:
    """1, u, −min(u, 0)² and max(u, 0)² where u are the N quantiles of a normal at (i + ½)/N."""
    u = np.array([NormalDist().inv_cdf((i + 0.5) / N) for i in range(N)])
    return np.stack([np.ones(N), u, -(np.minimum(u, 0) ** 2), np.maximum(u, 0) ** 2], 1)


@cache
def _least_squares(N: int) -> list[tuple[list[int], np.ndarray]]:
    """Which columns of the basis are used, and what least squares on them are a product with."""
    return [(used, np.linalg.pinv(_basis(N)[:, used])) for used in ([0, 1, 2, 3], [0, 1, 2], [0, 1, 3], [0, 1])]
