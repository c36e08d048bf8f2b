r"""The distribution of independence proposals: a Gaussian at several scales, with tails of its own for each coordinate.

In coordinates z in which the fitted Gaussian is N(0, I), $z = T(s_k u)$ with $u \sim N(0, I)$ and k drawn by weights w.
The weights set the length of tails in all directions, T the length on either side of each coordinate. Up to a constant,
$\log q(z) = \log\sum_k w_k s_k^{-n} e^{-r^2/(2 s_k^2)} - \log|T'(v)|$ with $v = T^{-1}(z)$, $r = |v|$.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfc, erfinv, ndtri

from gadabout.ensemble.split_hmc import squares

BY_CHANCE = 1e-3
"""probability that any of n normal coordinates is classified as skewed to one side, and the same for heavy-tailed"""
SCALES = np.array([0.85, 1.0, 1.18, 1.4, 1.7, 2.5])
"""scales s, of shape (K,)"""
LEAST_SHARE = 0.1
"""share of all weight that is spread evenly, so that no scale dies out"""
ROUNDS = 40
"""rounds of EM, after which the mean log-likelihood is within 4e-4 of its largest value"""
ENOUGH = 400
"""quantiles of the squared lengths that weights are fitted to if there are more draws"""


@dataclass(frozen=True)
class Tails:
    r"""$T(v) = a + bv - c_-\min(v, 0)^2 + c_+\max(v, 0)^2$ for each coordinate; the identity at a = c = 0, b = 1.

    For a normal v, a tail with c > 0 falls off as $e^{-|z|/2c}$. T and its slope are continuous, and so is the density.

    Args:
        shift: a, of shape (n,).
        width: b > 0.
        left: c₋ ≥ 0.
        right: c₊ ≥ 0.
    """

    shift: np.ndarray
    width: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def __call__(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """T(v), of shape (..., n), and log |det dT/dv|, of shape (...)."""
        some, z = v[..., self._changed], v.copy()
        bend = self._bend(some)
        z[..., self._changed] = self.shift[self._changed] + some * (self.width[self._changed] + bend)
        return z, self._log_slope(bend)

    def inverse(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """v = T⁻¹(z), of shape (..., n), and log |det dT/dv| there."""
        width, v = self.width[self._changed], z.copy()
        t = z[..., self._changed] - self.shift[self._changed]
        some = 2 * t / (width + np.sqrt(width * width + 4 * self._bend(t)))  # √(b² + 4c|t|)
        v[..., self._changed] = some
        return v, self._log_slope(self._bend(some))

    @cached_property
    def bent(self) -> int:
        """The number of coordinates with a tail that is longer than a normal's."""
        return int(np.sum((self.left > 0) | (self.right > 0)))

    @cached_property
    def _changed(self) -> np.ndarray:
        """The coordinates that T changes."""
        return np.flatnonzero((self.shift != 0) | (self.width != 1) | (self.left > 0) | (self.right > 0))

    def _bend(self, v: np.ndarray) -> np.ndarray:
        """c₋ |v| left of 0, c₊ |v| right of 0, in the coordinates that T changes."""
        return self.right[self._changed] * np.maximum(v, 0) - self.left[self._changed] * np.minimum(v, 0)

    def _log_slope(self, bend: np.ndarray) -> np.ndarray:
        return np.sum(np.log(self.width[self._changed] + 2 * bend), -1)


@dataclass(frozen=True)
class ScaleMixture:
    """The distribution q of z. A draw is made from the index k of a scale and a standard normal u.

    Args:
        tails: T.
        weights: weights w of `SCALES`, positive with sum 1, of shape (K,).
    """

    tails: Tails
    weights: np.ndarray

    def scale_index(self, uniform: np.ndarray) -> np.ndarray:
        """Indices k, drawn with probabilities `weights`, from uniforms on [0, 1)."""
        return np.searchsorted(np.cumsum(self.weights)[:-1], uniform)

    def draw(self, k: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """z, of shape (..., n), and log q(z), of shape (...), from k, of shape (...), and normals (..., n)."""
        v = SCALES[k][..., None] * normal
        z, log_slope = self.tails(v)
        return z, self._log_density(v, log_slope)

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """log q(z), up to a constant, of shape (...), for z of shape (..., n)."""
        return self._log_density(*self.tails.inverse(z))

    def noise_at(self, uniform: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The k and the normals that give z; k is drawn, by a uniform (...), with the scales' shares of q(z)."""
        v, _ = self.tails.inverse(z)
        terms, _ = _terms(squares(v), v.shape[-1])
        shares = np.cumsum((self.weights * terms.T).T, 0)
        k = np.sum(uniform * shares[-1] > shares[:-1], 0)
        return k, v / SCALES[k][..., None]

    @staticmethod
    def half_turn(normal: np.ndarray) -> np.ndarray:
        r"""The normals whose $\Phi$ is $\Phi(u) \pm \tfrac12$: ${\rm erf}(|u'|/\sqrt2) = {\rm erfc}(|u|/\sqrt2)$.

        This maps the normal distribution to itself. It is its own inverse, except beyond 8 standard deviations, where
        rounding leaves none.
        """
        root = math.sqrt(2)
        return np.copysign(root * erfinv(erfc(np.abs(normal) / root)), -normal)

    def _log_density(self, v: np.ndarray, log_slope: np.ndarray) -> np.ndarray:
        return log_radial_density(squares(v), v.shape[-1], self.weights) - log_slope


def log_radial_density(square: np.ndarray, n: int, weights: np.ndarray) -> np.ndarray:
    """log q without tails, up to a constant, at draws with squared lengths r², of shape (...)."""
    terms, largest = _terms(square, n)
    return np.log(np.tensordot(weights, terms, 1)) + largest


def _terms(square: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The terms of the density by scale, over the largest term, of shape (K, ...), and the logarithm of the largest."""
    terms = np.multiply.outer(-0.5 / SCALES**2, square)
    terms -= n * np.log(SCALES).reshape(-1, *np.ones(square.ndim, int))
    largest = terms.max(0)
    terms -= largest
    return np.exp(terms, out=terms), largest


def no_tails(n: int) -> Tails:
    """The identity on n coordinates."""
    return Tails(np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n))


def fitted_tails(z: np.ndarray) -> Tails:
    """T fitted to draws z, of shape (draws, n): least squares of the sorted draws on quantiles of a normal, c ≥ 0.

    A coordinate whose skewness and kurtosis are compatible with a normal's is unchanged.
    """
    N, n = z.shape
    mean, sd = z.mean(0), np.maximum(z.std(0), np.finfo(float).tiny)
    d = (z - mean) / sd
    square = d * d  # d**3 and d**4 take forty times as long
    significant = -ndtri(BY_CHANCE / n)  # standard errors
    skewed = np.abs(np.mean(square * d, 0)) > significant * np.sqrt(6 / N)
    heavy = np.mean(square * square, 0) - 3 > significant * np.sqrt(24 / N)
    odd = np.flatnonzero(skewed | heavy)
    a, b, left, right = _least_squares(np.sort(d[:, odd], 0)) * sd[odd]
    tails = no_tails(n)
    tails.shift[odd], tails.width[odd], tails.left[odd], tails.right[odd] = a + mean[odd], b, left, right
    return tails


def _least_squares(ordered: np.ndarray) -> np.ndarray:
    """a, b, c₋ and c₊, of shape (4, m), for columns in ascending order, of shape (draws, m); b > 0, c ≥ 0."""
    N, m = ordered.shape
    u = ndtri((np.arange(N) + 0.5) / N)
    basis = np.stack([np.ones(N), u, -(np.minimum(u, 0) ** 2), np.maximum(u, 0) ** 2], 1)
    best, least = np.tile([[0.0], [1.0], [0.0], [0.0]], m), np.full(m, np.inf)
    for used in ([0, 1, 2, 3], [0, 1, 2], [0, 1, 3], [0, 1]) if m else ():
        fit = np.zeros((4, m))
        fit[used] = np.linalg.lstsq(basis[:, used], ordered)[0]
        missed = np.sum((ordered - basis @ fit) ** 2, 0)
        better = (fit[1] > 0) & (fit[2:] >= 0).all(0) & (missed < least)
        best, least = np.where(better, fit, best), np.where(better, missed, least)
    return best


def fitted_weights(square: np.ndarray, n: int) -> np.ndarray:
    """Weights by maximum likelihood, fitted by EM to draws with squared lengths r², of shape (draws,)."""
    spacing = -(-len(square) // ENOUGH)
    terms, _ = _terms(np.sort(square)[spacing // 2 :: spacing], n)
    weights = np.full(len(SCALES), 1 / len(SCALES))
    for _ in range(ROUNDS):
        weights = weights * (terms @ (1 / (weights @ terms))) / terms.shape[1]  # the mean share of each scale
        weights = (1 - LEAST_SHARE) * weights + LEAST_SHARE / len(SCALES)
    return weights
