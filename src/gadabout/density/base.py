"""Densities as the host evaluates them: batches of positions in, log π and its gradient out, counted."""

from abc import ABC, abstractmethod

import numpy as np


class AbstractDensity(ABC):
    """log π of rows x (m, n), for any m; NumPy arrays of float64 in and out.

    Attributes:
        dim: coordinates n of a position.
        gradients: rows whose gradient was evaluated so far.
        values: rows of which log π alone was evaluated so far.
    """

    operations = 0.0
    """on floating-point numbers that a gradient takes, as far as somebody can count them"""

    def __init__(self, dim: int):
        self.dim, self.gradients, self.values = dim, 0, 0

    def value(self, x: np.ndarray) -> np.ndarray:
        """log π of rows (m, n), shape (m,)."""
        x = self._rows(x)
        self.values += len(x)
        return self._value(x) if len(x) else np.empty(0)

    def value_and_grad(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π of rows (m, n), shape (m,), and ∇log π, shape (m, n)."""
        x = self._rows(x)
        self.gradients += len(x)
        return self._value_and_grad(x) if len(x) else (np.empty(0), np.empty((0, self.dim)))

    def _rows(self, x: np.ndarray) -> np.ndarray:
        x = np.asarray(x, np.float64)
        if x.ndim != 2 or x.shape[1] != self.dim:
            raise ValueError(f"x must be rows of shape (m, {self.dim}), got the shape {x.shape}")
        return x

    @abstractmethod
    def _value(self, x: np.ndarray) -> np.ndarray:
        """`value` of at least one row."""

    @abstractmethod
    def _value_and_grad(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`value_and_grad` of at least one row."""
