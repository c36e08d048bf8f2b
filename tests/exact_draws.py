"""Densities on the host with exact draws, an alarm where draws have another law, and runs in pieces."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from gadabout.density.base import AbstractDensity
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.noncentring import Noncentring


class Rows(AbstractDensity):
    """A density from a function of rows."""

    def __init__(self, dim, function):
        super().__init__(dim)
        self.function = function

    def _value(self, x):
        return self.function(x)[0]

    def _value_and_grad(self, x):
        return self.function(x)


def gaussian(x, deviations: float | np.ndarray = 1.0):
    return -0.5 * np.sum((x / deviations) ** 2, 1), -x / np.square(deviations)


@dataclass
class Curved:
    """x₀ = u, x₁ = 0.7 (u² − 1) + e^{au} w with u, w ~ N(0, 1): a banana, and with a > 0 a funnel as well."""

    a: float
    bend: float = 0.7

    def density(self, x):
        u, width = x[:, 0], np.exp(self.a * x[:, 0])
        w = (x[:, 1] - self.bend * (u**2 - 1)) / width
        slope = -u - self.a + w * (self.a * w + 2 * self.bend * u / width)
        return -0.5 * (u**2 + w**2) - self.a * u, np.stack([slope, -w / width], 1)

    def draws(self, chains, rng):
        u, w = rng.standard_normal((2, chains))
        return np.stack([u, self.bend * (u**2 - 1) + np.exp(self.a * u) * w], 1)

    def alarm(self, x):
        """The smallest p-value of means, second moments and Kolmogorov–Smirnov distances, times their number.

        Draws are independent of one another: one of each chain. $e^{-(u^2 + w^2)/2}$ is uniform on (0, 1).
        """
        u = x[:, 0]
        w = (x[:, 1] - self.bend * (u**2 - 1)) * np.exp(-self.a * u)
        height = np.exp(-0.5 * (u**2 + w**2))
        moments = [u, w, (u**2 - 1) / 2**0.5, (w**2 - 1) / 2**0.5, u * w, u * (w**2 - 1) / 2**0.5]
        moments += [(height - 0.5) * 12**0.5]
        p = [2 * stats.norm.sf(abs(m.mean()) * len(m) ** 0.5) for m in moments]
        p += [stats.kstest(*each).pvalue for each in ((u, "norm"), (w, "norm"), (height, "uniform"))]
        return min(p) * len(p)


@dataclass
class Stepped(Curved):
    """The same in which log π jumps: u has the density of N(0, 1) times exp(heights[0]) between borders[0], w likewise.

    Borders ascend; there is one height more than borders.
    """

    borders: tuple = ((), ())
    heights: tuple = ((0.0,), (0.0,))

    def density(self, x):
        value, grad = super().density(x)
        columns = zip(self.borders, self.heights, self._standard(x).T, strict=True)
        return value + sum(np.array(h)[np.searchsorted(b, column)] for b, h, column in columns), grad

    def draws(self, chains, rng):
        uniforms = rng.random((2, chains))
        u, w = (self._quantiles(k, uniforms[k]) for k in range(2))
        return np.stack([u, self.bend * (u**2 - 1) + np.exp(self.a * u) * w], 1)

    def alarm(self, x):
        """As `Curved`, of u and w mapped to N(0, 1) by their distribution functions."""
        u, w = (self._probabilities(k, column) for k, column in enumerate(self._standard(x).T))
        u, w = stats.norm.ppf(np.clip([u, w], 1e-12, 1 - 1e-12))
        return Curved(0.0, 0.0).alarm(np.stack([u, w], 1))

    def _standard(self, x):
        return np.stack([x[:, 0], (x[:, 1] - self.bend * (x[:, 0] ** 2 - 1)) * np.exp(-self.a * x[:, 0])], 1)

    def _table(self, k):
        """Of the borders: the normal's distribution function, and that of u (k = 0) or w."""
        normal = stats.norm.cdf([-np.inf, *self.borders[k], np.inf])
        mass = np.diff(normal) * np.exp(np.array(self.heights[k]) - max(self.heights[k]))
        return normal, np.concatenate([[0], np.cumsum(mass)]) / mass.sum()

    def _probabilities(self, k, column):
        return np.interp(stats.norm.cdf(column), *self._table(k))

    def _quantiles(self, k, uniform):
        normal, own = self._table(k)
        return stats.norm.ppf(np.interp(uniform, own, normal))


@dataclass
class TwoModes:
    """0.3 N(m₀, S₀) + 0.7 N(m₁, S₁) in two coordinates: m = ±(2, 1) times `apart`, of different widths, correlated."""

    apart: float = 1.0
    weights = np.array([0.3, 0.7])
    factors = np.array([[[0.8, 0.0], [0.3, 0.5]], [[1.2, 0.0], [-0.5, 1.0]]])

    @property
    def means(self):
        return self.apart * np.array([[-2.0, -1.0], [2.0, 1.0]])

    def density(self, x):
        z = np.einsum("kij,kaj->kai", np.linalg.inv(self.factors), x - self.means[:, None])
        volumes = np.log(np.diagonal(self.factors, axis1=1, axis2=2)).sum(1)
        parts = (np.log(self.weights) - volumes)[:, None] - 0.5 * np.sum(z**2, 2)
        value = np.logaddexp.reduce(parts)
        grads = -np.einsum("kij,kai->kaj", np.linalg.inv(self.factors), z)
        return value, np.sum(np.exp(parts - value)[..., None] * grads, 0)

    def draws(self, chains, rng):
        k = (rng.random(chains) < self.weights[1]).astype(int)
        return self.means[k] + np.einsum("aij,aj->ai", self.factors[k], rng.standard_normal((chains, 2)))

    def alarm(self, x):
        """The same as `Curved.alarm`, of moments of x, and of normals into which distribution functions turn it."""
        z = (x[:, :1] - self.means[:, 0]) / self.factors[:, 0, 0]
        log_share = np.log(self.weights / self.factors[:, 0, 0]) - 0.5 * z**2
        share = np.exp(log_share - np.logaddexp.reduce(log_share, 1)[:, None])
        given = (x[:, 1:] - self.means[:, 1] - self.factors[:, 1, 0] * z) / self.factors[:, 1, 1]
        uniforms = stats.norm.cdf(z) @ self.weights, np.sum(share * stats.norm.cdf(given), 1)
        v, w = (stats.norm.ppf(np.clip(u, 1e-15, 1 - 1e-15)) for u in uniforms)
        moments = [v, w, v**2 - 1, w**2 - 1, v * w, v * (w**2 - 1)]
        mean, covariances = self.weights @ self.means, self.factors @ np.swapaxes(self.factors, 1, 2)
        squares = np.tensordot(self.weights, covariances + self.means[:, :, None] * self.means[:, None], 1)
        moments += [*(x - mean).T, *(x[:, i] * x[:, j] - squares[i, j] for i, j in ((0, 0), (0, 1), (1, 1)))]
        p = [2 * stats.norm.sf(abs(m.mean()) / m.std() * len(m) ** 0.5) for m in moments]
        p += [stats.kstest(u, "uniform").pvalue for u in uniforms]
        return min(p) * len(p)


LAYERS = (
    Noncentring(np.array([0]), np.array([1]), np.array([0.2]), np.array([0.1]), np.array([[0.3]]), np.array([[0.4]])),
    Noncentring(np.array([1]), np.array([0]), np.array([-0.1]), np.array([0.2]), np.array([[0.1]]), np.array([[0.03]])),
)
"""of two coordinates, each of which scales the other in turn"""


def layered(dense, layers=LAYERS):
    """Coordinates with layers, for two coordinates of about unit width."""
    factor = np.array([[0.9, 0.0], [0.2, 1.1]])
    return Coordinates(np.array([0.1, -0.1]), factor if dense else np.diagonal(factor).copy(), layers)


def generator(seed):
    return np.random.Generator(np.random.Philox(seed))


def in_pieces(move, state, seed, lengths):
    """The state and all draws of runs of these lengths, one after the other."""
    rng, drawn = generator(seed), []
    for length in lengths:
        before = {name: values.copy() for name, values in state.items()}
        after, part = move.advance(state, rng, length)
        assert_same(before, state)
        state = after
        drawn.append(part)
    return state, {name: np.concatenate([part[name] for part in drawn]) for name in drawn[0]}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)
