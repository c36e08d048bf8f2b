"""Learned coordinates z of positions x, in which a target is nearer to a standard Gaussian: x = m + L z."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity


@dataclass(frozen=True)
class Affine:
    """Affine coordinates: x = m + L z, with L a diagonal or lower-triangular.

    Args:
        mean: m, of shape (n,).
        factor: L, of shape (n,) where it is diagonal, else (n, n).
    """

    mean: np.ndarray
    factor: np.ndarray

    @property
    def dense(self) -> bool:
        """Whether L is a matrix."""
        return self.factor.ndim == 2

    @property
    def dim(self) -> int:
        """The number of coordinates, n."""
        return len(self.mean)

    def x(self, z: np.ndarray) -> np.ndarray:
        """The positions, of shape (m, n), of coordinates of that shape."""
        return self.mean + (z @ self.factor.T if self.dense else z * self.factor)

    def z(self, x: np.ndarray) -> np.ndarray:
        """The coordinates, of shape (m, n), of positions of that shape."""
        return np.linalg.solve(self.factor, (x - self.mean).T).T if self.dense else (x - self.mean) / self.factor

    def pull(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to z, Lᵀ g, from those with respect to x, both of shape (m, n)."""
        return grad @ self.factor if self.dense else grad * self.factor

    def log_det(self) -> float:
        """log |L|."""
        return float(np.sum(np.log(np.abs(np.diagonal(self.factor) if self.dense else self.factor))))

    def deviations(self) -> np.ndarray:
        """The standard deviations of x where z is a standard Gaussian, of shape (n,)."""
        return np.sqrt(np.sum(self.factor**2, 1)) if self.dense else np.abs(self.factor)

    def then(self, mean: np.ndarray, factor: np.ndarray) -> "Affine":
        """The coordinates z' of z = m' + L' z', with m' of shape (n,) and L' of shape (n,) or (n, n)."""
        if self.dense and factor.ndim == 2:
            product = self.factor @ factor
        elif factor.ndim == 2:
            product = self.factor[:, None] * factor
        else:
            product = self.factor * factor
        return Affine(self.x(mean[None])[0], product)

    def value_and_grad(self, density: "AbstractDensity", z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π(x), of shape (m,), and its gradients with respect to z, of shape (m, n)."""
        value, grad = density.value_and_grad(self.x(z))
        return value, self.pull(grad)
