r"""Draws with their gradients, and the curvature of log π at some of them, by differences of gradients.

Two gradients, one step forward and one back along each coordinate, determine the whole Hessian H and, for every pair
(j, a), the third derivative $\partial_a H_{jj}$.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.noncentring import Noncentring

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

STEP = 0.2
"""step of a difference, in standard deviations given all other coordinates"""


@dataclass(frozen=True)
class Sample:
    """Draws y, with gradients of their log density, both of shape (N, n)."""

    y: np.ndarray
    grad: np.ndarray

    def under(self, layer: Noncentring) -> "Sample":
        """The draws and gradients in the coordinates of a layer."""
        y = layer.y(self.y)
        return Sample(y, layer.pull(y, self.grad))

    def below(self, layers: Sequence[Noncentring]) -> "Sample":
        """The draws and gradients in the coordinates of all layers."""
        sample = self
        for layer in layers:
            sample = sample.under(layer)
        return sample


@dataclass(frozen=True)
class Density:
    """The density of y, the coordinates of `layers`."""

    density: "AbstractDensity"
    layers: tuple[Noncentring, ...]

    def gradients(self, y: np.ndarray) -> np.ndarray:
        """Gradients of the log density at y, of shape (m, n)."""
        here = Coordinates(np.zeros(y.shape[1]), np.ones(y.shape[1]), self.layers)
        return here.value_and_grad(self.density, y)[1]


@dataclass(frozen=True)
class Curvature:
    """H = −∇² log π at points (m, n), of shape (m, n, n), and slopes ∂_a log H_jj / −2, (m, child j, ancestor a).

    Both are computed by differences of gradients, `step` (n,) to either side.
    """

    points: np.ndarray
    hessian: np.ndarray
    slopes: np.ndarray
    step: np.ndarray


def curvature_at(density: Density, points: np.ndarray, scale: np.ndarray) -> Curvature:
    """The curvature by gradients `STEP` conditional standard deviations (n,) to either side along each coordinate."""
    m, n = points.shape
    step = STEP * scale
    ends = points[:, None, None] + np.stack([-np.diag(step), np.diag(step)])  # (m, 2, n, n)
    grad = density.gradients(ends.reshape(-1, n)).reshape(m, 2, n, n)  # back and forward, along j, component a
    here = density.gradients(points)[:, None]
    columns = (grad[:, 0] - grad[:, 1]) / (2 * step[:, None])
    third = -(grad[:, 0] + grad[:, 1] - 2 * here) / step[:, None] ** 2  # ∂_a H_jj
    H = 0.5 * (columns + np.swapaxes(columns, 1, 2))
    own = np.diagonal(H, axis1=1, axis2=2)
    slopes = -0.5 * third / np.where(own > 0, own, np.nan)[:, :, None]
    return Curvature(points, H, slopes, step)
