"""Coordinates that lean to one side: the sinh–arcsinh transformation of a normal (Jones & Pewsey 2009)."""

from functools import cache
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

TABLE = np.linspace(-1.5, 1.5, 301)
"""angles whose moments are tabulated"""
SIGNIFICANT = 3.0
"""standard errors of the sample skewness of normal draws, below which a coordinate is taken to be even"""


class Skew(eqx.Module):
    r"""$T(u) = a + b\sinh(\operatorname{arsinh} u + \epsilon)$ for each coordinate; the identity at ε = a = 0, b = 1.

    As $\sinh(\operatorname{arsinh} u + \epsilon) = u\cosh\epsilon + \sqrt{1 + u^2}\sinh\epsilon$, it costs a root.
    Tails stay as long as they were.
    """

    shift: Float[Array | np.ndarray, " n"]
    width: Float[Array | np.ndarray, " n"]
    angle: Float[Array | np.ndarray, " n"]

    def __call__(self, u: Float[Array, " n"]) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        """T(u), and log |det dT/du|."""
        return self.shift + self.width * turned(u, self.angle, jnp), self._log_slope(u, jnp)

    def inverse(self, z: Any, xp: Any = jnp) -> tuple[Any, Any]:
        """u = T⁻¹(z) of shape (..., n), and log |det dT/du| there; `xp` computes, `jax.numpy` or `numpy`."""
        u = turned((z - self.shift) / self.width, -self.angle, xp)
        return u, self._log_slope(u, xp)

    def _log_slope(self, u, xp) -> Any:
        slope = xp.cosh(self.angle) + u / xp.sqrt(1 + u * u) * xp.sinh(self.angle)
        return xp.sum(xp.log(self.width * slope), -1)


def turned(u: Any, angle: Any, xp: Any) -> Any:
    """sinh(arsinh u + ε)."""
    return u * xp.cosh(angle) + xp.sqrt(1 + u * u) * xp.sinh(angle)


def no_skew(n: int) -> Skew:
    """The identity, in NumPy's arrays."""
    return Skew(np.zeros(n), np.ones(n), np.zeros(n))


def fitted_skew(z: np.ndarray) -> Skew:
    """The transformation of N(0, I) with the mean, variance and skewness of draws z, shape (draws, n).

    A coordinate whose skewness is not significant is left as it is. Arrays are NumPy's.
    """
    mean, sd = z.mean(0), z.std(0)
    skewness = np.mean((z - mean) * (z - mean) ** 2, 0) / np.maximum(sd, np.finfo(float).tiny) ** 3
    leans = np.abs(skewness) > SIGNIFICANT * np.sqrt(6 / len(z))
    table = _moments()
    angle = np.interp(skewness, table[2], TABLE)
    width = sd / np.interp(angle, TABLE, table[1])
    shift = mean - width * np.interp(angle, TABLE, table[0])
    chosen = (np.where(leans, *each) for each in ((shift, 0.0), (width, 1.0), (angle, 0.0)))
    return Skew(*chosen)


@cache
def _moments() -> np.ndarray:
    """Mean, standard deviation and skewness of sinh(arsinh u + ε) for the ε of the table, u ~ N(0, 1)."""
    u, weights = np.polynomial.hermite_e.hermegauss(64)
    weights = weights / weights.sum()
    values = np.sinh(np.arcsinh(u) + TABLE[:, None])
    mean = values @ weights
    centred = values - mean[:, None]
    sd = np.sqrt(centred**2 @ weights)
    return np.stack([mean, sd, centred**3 @ weights / sd**3])
