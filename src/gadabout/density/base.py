"""Base class of the densities that the host evaluates: log π and its gradient at batches of positions, with counts."""

from abc import ABC, abstractmethod

import numpy as np

FAR = 1000.0
"""nats below the highest log π; only diverging trajectories go further, to where exp overflows, and no draw does"""
COUNTED = ("gradients", "values", "outside", "invalid", "undefined")
"""names of a density's attributes that count rows"""


class AbstractDensity(ABC):
    """log π at rows x (m, n), for any m; inputs and outputs are NumPy arrays of float64.

    Attributes:
        dim: number n of coordinates of a position.
        gradients: number of rows at which the gradient was evaluated.
        values: number of rows at which log π alone was evaluated.
        outside: number of rows at which log π is −∞.
        invalid: number of rows at which log π is NaN or +∞.
        undefined: number of rows with NaN in the gradient and a finite log π at most `FAR` below the highest so far.
        undefined_in: number of those rows in which the derivative is NaN, for each coordinate, (n,).
    """

    operations = 0.0
    """floating-point operations of one gradient, as far as they can be counted"""

    def __init__(self, dim: int):
        self.dim, self.gradients, self.values = dim, 0, 0
        self.outside = self.invalid = self.undefined = 0
        self.highest = -np.inf
        self.undefined_in = np.zeros(dim, int)

    @property
    def counts(self) -> np.ndarray:
        """All counts in one array, for checkpoints: shape (5 + n,)."""
        return np.array([*(getattr(self, name) for name in COUNTED), *self.undefined_in])

    @counts.setter
    def counts(self, counts: np.ndarray) -> None:
        for name, count in zip(COUNTED, counts, strict=False):
            setattr(self, name, int(count))
        by_coordinate = np.asarray(counts[len(COUNTED) :], int)
        self.undefined_in = by_coordinate if len(by_coordinate) else np.zeros(self.dim, int)

    def value(self, x: np.ndarray) -> np.ndarray:
        """log π of rows (m, n), shape (m,)."""
        x = self._rows(x)
        self.values += len(x)
        value = self._value(x) if len(x) else np.empty(0)
        self._count(value)
        return value

    def value_and_grad(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π of rows (m, n), shape (m,), and ∇log π, shape (m, n)."""
        x = self._rows(x)
        self.gradients += len(x)
        value, grad = self._value_and_grad(x) if len(x) else (np.empty(0), np.empty((0, self.dim)))
        finite = self._count(value)
        self.highest = max(self.highest, float(value[finite].max(initial=-np.inf)))
        if finite.any() and np.isnan(grad).any():
            undefined = np.isnan(grad) & (finite & (value > self.highest - FAR))[:, None]
            self.undefined += int(undefined.any(1).sum())
            self.undefined_in += undefined.sum(0)
        return value, grad

    def _count(self, value: np.ndarray) -> np.ndarray:
        """Mask of the finite values, (m,); values that are not finite are counted."""
        finite = np.isfinite(value)
        if not finite.all():
            outside = int(np.sum(value == -np.inf))
            self.outside += outside
            self.invalid += int(np.sum(~finite)) - outside
        return finite

    def _rows(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, np.float64)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must be rows of shape (m, {self.dim}), got the shape {x.shape}")
        return x

    @abstractmethod
    def _value(self, x: np.ndarray) -> np.ndarray:
        """`value` for at least one row."""

    @abstractmethod
    def _value_and_grad(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`value_and_grad` for at least one row."""
