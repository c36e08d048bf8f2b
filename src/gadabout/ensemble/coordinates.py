r"""Learned coordinates z of positions x, in which a target is nearer to a standard Gaussian: $x = M(m + L z)$.

M is a composition of layers (`noncentring`); without layers x is affine in z. The density of z is
$\pi(x(z))\,|\partial x/\partial z|$.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular

from gadabout.ensemble.noncentring import Noncentring, Placed, packed, placed, unfolded, unpacked

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity


@dataclass(frozen=True)
class Coordinates:
    """The map x = M(m + L z), with L diagonal or lower-triangular.

    Args:
        mean: m, of shape (n,).
        factor: L, of shape (n,) where it is diagonal, else (n, n).
        layers: the layers of M, in the order x = M₁(M₂(… (m + L z))).
    """

    mean: np.ndarray
    factor: np.ndarray
    layers: tuple[Noncentring, ...] = ()

    @property
    def dense(self) -> bool:
        """Whether L is a matrix."""
        return self.factor.ndim == 2

    @property
    def dim(self) -> int:
        """The number of coordinates, n."""
        return len(self.mean)

    def at(self, z: np.ndarray) -> Placed:
        """The positions of coordinates z (m, n), with `pull` for gradients with respect to y = m + L z."""
        return placed(self.layers, self.affine(z))

    def x(self, z: np.ndarray) -> np.ndarray:
        """The positions, of shape (m, n), of coordinates of that shape."""
        return self.at(z).x

    def z(self, x: np.ndarray) -> np.ndarray:
        """The coordinates, of shape (m, n), of positions of that shape."""
        y = unfolded(self.layers, x) - self.mean
        if not self.dense:
            return y / self.factor
        return solve_triangular(self.factor, y.T, lower=True, check_finite=False).T

    def affine(self, z: np.ndarray) -> np.ndarray:
        """y = m + L z, of shape (m, n)."""
        return self.mean + (z @ self.factor.T if self.dense else z * self.factor)

    def through_factor(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to z, Lᵀ g, from those with respect to y, both of shape (m, n)."""
        return grad @ self.factor if self.dense else grad * self.factor

    def log_det(self, z: np.ndarray) -> np.ndarray:
        """log |∂x/∂z| without the constant log |L|, of shape (m,)."""
        return self.at(z).log_det

    def log_volume(self) -> float:
        """The logarithm of the determinant, log |L|."""
        return float(np.sum(np.log(np.abs(np.diagonal(self.factor) if self.dense else self.factor))))

    def deviations(self) -> np.ndarray:
        """The standard deviations of y where z is a standard Gaussian, of shape (n,)."""
        return np.sqrt(np.sum(self.factor**2, 1)) if self.dense else np.abs(self.factor)

    def diagonal(self) -> "Coordinates":
        """The coordinates with the same standard deviations and no correlations in L."""
        return replace(self, factor=self.deviations())

    def then(self, mean: np.ndarray, factor: np.ndarray) -> "Coordinates":
        """The coordinates z' of z = m' + L' z', with m' of shape (n,) and L' of shape (n,) or (n, n)."""
        if self.dense and factor.ndim == 2:
            product = self.factor @ factor
        elif factor.ndim == 2:
            product = self.factor[:, None] * factor
        else:
            product = self.factor * factor
        return replace(self, mean=self.affine(mean[None])[0], factor=product)

    def value_and_grad(self, density: "AbstractDensity", z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π(x) + `log_det`, of shape (m,), and its gradients with respect to z, of shape (m, n)."""
        here = self.at(z)
        value, grad = density.value_and_grad(here.x)
        return value + here.log_det, self.through_factor(here.pull(grad))

    def arrays(self) -> dict[str, np.ndarray]:
        """The coordinates as arrays, for a state; `of` is the inverse."""
        return {"mean": self.mean, "factor": self.factor} | ({"layers": packed(self.layers)} if self.layers else {})

    @staticmethod
    def of(arrays: dict[str, np.ndarray]) -> "Coordinates":
        """The coordinates that a state holds."""
        return Coordinates(arrays["mean"], arrays["factor"], unpacked(arrays.get("layers")))
