"""The Gaussian fitted to draws and gradients, and the Fisher divergence that it leaves."""

import numpy as np

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.curvature import Sample
from gadabout.ensemble.gaussian import factor_of, geometric_mean
from gadabout.ensemble.noncentring import Noncentring

LARGEST_GRADIENT = 1e100
"""largest gradient, whose square is still finite"""


def fisher_divergence(sample: Sample, dense: bool) -> float:
    r"""$\mathbb E\|L^\top\nabla\log\pi + z\|^2/n$ of the best Gaussian, fitted to one half, evaluated on the other.

    The mean is of $\log(1 + s)$ for the squares s, so that a few distant draws do not dominate. Both ways of using the
    halves are averaged.
    """
    return float(np.mean([_divergence(sample, slice(i, None, 2), slice(1 - i, None, 2), dense) for i in (0, 1)]))


def _divergence(sample: Sample, fitted: slice, judged: slice, dense: bool) -> float:
    coordinates = gaussian_of(Sample(sample.y[fitted], sample.grad[fitted]), dense)
    return divergence_in(coordinates, Sample(sample.y[judged], sample.grad[judged]))


def divergence_in(coordinates: Coordinates, sample: Sample) -> float:
    """The Fisher divergence, as above, of the Gaussian of coordinates on draws of x that it was not fitted to."""
    z, grad = coordinates.z(sample.y), coordinates.through_factor(sample.below(coordinates.layers).grad)
    return float(np.mean(np.log1p(np.sum((z + grad) ** 2, 1) / z.shape[1])))


def gaussian_of(sample: Sample, dense: bool, layers: tuple[Noncentring, ...] = ()) -> Coordinates:
    """The Gaussian fitted to draws and gradients that are in the coordinates of `layers`."""
    y, grad = sample.y, np.clip(sample.grad, -LARGEST_GRADIENT, LARGEST_GRADIENT)
    N, tiny = len(y), np.finfo(float).tiny ** 0.5
    d, e = y - y.mean(0), grad - grad.mean(0)
    if dense:
        unit = tiny * np.eye(y.shape[1])
        covariance = geometric_mean(N, d.T @ d / N + unit, e.T @ e / N + unit, prior_draws=5.0)
        factor = factor_of(covariance, np.diag(y.std(0) + tiny))
    else:
        factor = np.sqrt(geometric_mean(N, d.var(0) + tiny, e.var(0) + tiny))
    here = Coordinates(np.zeros(y.shape[1]), factor)
    return Coordinates(y.mean(0) + here.affine(here.through_factor(grad.mean(0)[None]))[0], factor, layers)


def given_others(sample: Sample, dense: bool) -> np.ndarray:
    """The standard deviation of each coordinate given all others, (n,), from the Gaussian of draws."""
    n = sample.y.shape[1]
    centred = Coordinates(np.zeros(n), gaussian_of(sample, dense).factor)
    return 1 / np.linalg.norm(centred.z(np.eye(n)), axis=1)
