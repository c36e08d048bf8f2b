"""NUTS of many chains on the host: its law, planted bugs, runs in pieces, and what it learns."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from gadabout.density.base import AbstractDensity
from gadabout.ensemble.coordinates import Affine
from gadabout.ensemble.nuts import Nuts

FALSE_ALARM = 1e-6


class Rows(AbstractDensity):
    """A density from a function of rows."""

    def __init__(self, dim, function):
        super().__init__(dim)
        self.function = function

    def _value(self, x):
        return self.function(x)[0]

    def _value_and_grad(self, x):
        return self.function(x)


def gaussian(x, deviations=1.0):
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
        """The smallest p-value of means, second moments and Kolmogorov–Smirnov distances, times their number."""
        u = x[:, 0]
        w = (x[:, 1] - self.bend * (u**2 - 1)) * np.exp(-self.a * u)
        moments = [u, w, (u**2 - 1) / 2**0.5, (w**2 - 1) / 2**0.5, u * w, u * (w**2 - 1) / 2**0.5]
        p = [2 * stats.norm.sf(abs(m.mean()) * len(m) ** 0.5) for m in moments]
        p += [stats.kstest(values, "norm").pvalue for values in (u, w)]
        return min(p) * len(p)


def generator(seed):
    return np.random.Generator(np.random.Philox(seed))


def run(kind, target, chains, transitions=3, seed=0, **settings):
    rng = generator(seed)
    here = Affine(np.array([0.1, 0.2]), np.array([[1.0, 0.0], [0.3, 1.2]]))
    move = kind(Rows(2, target.density), here, ahead=2, **settings)
    x = target.draws(chains, rng)
    assert target.alarm(x) > 1e-3
    _, drawn = move.advance(move.init(x, rng), rng, transitions)
    return drawn, target.alarm(drawn["position"][-1])


PLAIN = dict(target=Curved(0.3), step_size=0.6, max_depth=4)
HALVED = dict(target=Curved(0.5), step_size=0.9, max_depth=3, halvings=14)


@pytest.mark.parametrize("settings", [PLAIN, HALVED], ids=["plain", "halved"])
def test_the_law_stands_still(settings):
    """Three transitions of 8,000 chains from exact draws; a false alarm in a million of such tests."""
    drawn, alarm = run(Nuts, chains=8_000, **settings)
    print(alarm, {k: v.mean() for k, v in drawn.items()})
    assert alarm > FALSE_ALARM
    assert 0.6 < drawn["acceptance_rate"].mean() < 0.95


class UniformWeights(Nuts):
    """Bug: all states of a trajectory have the same weight."""

    def _log_weight(self, change):
        return np.zeros_like(change)


class HalfWeights(Nuts):
    """Bug: weights are a little too even."""

    def _log_weight(self, change):
        return 0.8 * change


class NoOdds(Nuts):
    """Bug: strides are not weighed by the odds of the way back."""

    def _log_odds(self, forth, back):
        return np.zeros_like(forth)


@pytest.mark.parametrize(("bug", "settings"), [(UniformWeights, PLAIN), (HalfWeights, PLAIN), (NoOdds, HALVED)])
def test_planted_bugs_are_found(bug, settings):
    for transitions in (3, 8):
        _, alarm = run(bug, chains=8_000, transitions=transitions, **settings)
        print(bug, transitions, alarm)
    assert alarm < FALSE_ALARM
