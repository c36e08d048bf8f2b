"""Densities on the host with exact draws, an alarm where draws have another law, and runs in pieces."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from gadabout.density.base import AbstractDensity


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
