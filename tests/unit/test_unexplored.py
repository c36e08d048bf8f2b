"""Mass that lies farther out than all draws, and chains that stand where the density is far higher than elsewhere."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gadabout.density import RowsDensity
from gadabout.findings.unexplored import stays, unexplored
from gadabout.lab.verify.hard import judged
from gadabout.lab.verify.hard_targets import Hard, mixture, moments

NAMES = [f"x[{i}]" for i in range(10)]


def found(log_density, x, shift=0.0):
    """The finding of draws x (draws, n) of a log density of rows (m, n), recorded with a shift."""
    rows = lambda y: (log_density(y), np.zeros_like(y))
    records = unexplored(RowsDensity(rows, x.shape[1]), x, log_density(x) + shift, NAMES[: x.shape[1]])
    return records[0] if records else None


def spike_and_slab(n, sd):
    def log_density(x):
        spike, slab = stats.norm.logpdf(x, scale=sd).sum(1), stats.norm.logpdf(x).sum(1)
        return np.logaddexp(spike, slab)

    return log_density


@pytest.mark.parametrize(("n", "sd"), [(1, 1e-3), (2, 0.01), (3, 0.03), (10, 0.1)])
def test_a_slab_around_the_spike_that_draws_are_of_is_found(n, sd):
    x = sd * np.random.default_rng(n).standard_normal((16_000, n))
    record = found(spike_and_slab(n, sd), x)
    assert record.kind == "unexplored"
    assert record.figure > record.limit
    assert set(record.variables) <= set(NAMES[:n])


def test_a_coordinate_that_is_wider_than_draws_is_named():
    x = np.random.default_rng(0).standard_normal((4_000, 3)) * [1, 0.01, 1]
    log_density = lambda y: spike_and_slab(1, 0.01)(y[:, 1:2]) - 0.5 * y[:, 0] ** 2 - 0.5 * y[:, 2] ** 2
    assert found(log_density, x).variables == ["x[1]"]


LAWS = {
    "normal": stats.norm, "Laplace": stats.laplace, "Student-t": stats.t(3), "Cauchy": stats.cauchy,
    "Gumbel": stats.gumbel_r, "uniform": stats.uniform, "log-normal": stats.lognorm(2),
}  # fmt: skip


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n", [1, 2, 10])
def test_nothing_is_found_where_draws_are_of_the_law(name, n):
    """By Markov's inequality false in fewer than one in a hundred, of the heaviest tails."""
    x = LAWS[name].rvs(size=(16_000, n), random_state=n)
    with np.errstate(all="ignore"):
        assert found(lambda y: LAWS[name].logpdf(y).sum(1), x) is None


def test_nothing_is_found_in_coordinates_that_are_not_the_densitys():
    x = 0.01 * np.random.default_rng(0).standard_normal((4_000, 2))
    assert found(spike_and_slab(2, 0.01), x) is not None
    assert found(spike_and_slab(2, 0.01), x, shift=1.0) is None


def test_a_spike_of_half_the_mass_is_not_passed_over_by_sample():
    row = judged(mixture([0.5, 0.5], [[0, 0], [0, 0]], [0.01, 1]), 4)
    assert row["outcome"] != "wrong without a word"


def rejections(longest, chains=4, draws=1_000, rate=0.2):
    accepted = np.random.default_rng(1).random((chains, draws)) > rate
    accepted[2, 300 : 300 + longest] = False
    return {"accepted": accepted}


def test_a_long_stay_is_found_where_others_are_short():
    (record,) = stays(rejections(80), {"move": "independence"})
    assert (record.kind, list(record.chains)) == ("stays", [2])
    assert record.figure >= 80
    assert record.limit == 40


def test_stays_that_chance_explains_are_not_nor_those_of_recipes():
    """At most one in 10⁶ runs by chance."""
    assert stays(rejections(0), {"move": "independence"}) == []
    assert stays(rejections(60, rate=0.8), {"move": "independence"}) == []
    assert stays(rejections(80), {}) == []


def test_a_spike_that_is_aside_is_found_by_a_stay():
    row = judged(mixture([0.5, 0.5], [[0.7, -0.7, 0.5], [0, 0, 0]], [0.05, 1]), 1)
    assert row["outcome"] != "wrong without a word"


def test_a_plain_law_has_neither():
    plain = Hard(lambda x: -0.5 * jnp.sum(x**2), np.zeros(2), moments(np.zeros(2), np.ones(2)))
    assert judged(plain, 1)["kinds"] == []
