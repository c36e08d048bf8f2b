"""Effective sample sizes and R-hat against chains whose answers are known."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from scipy.signal import lfilter
from scipy.special import ndtri
from scipy.stats import rankdata

from gadabout.diagnostics import ess_table, initial_monotone_ess, judged, mean_ess, rhat, spread, summary
from gadabout.diagnostics import initial_monotone as module
from gadabout.diagnostics.split_ranks import normal_scores

RHO, LENGTH, COORDINATES = 0.9, 100_000, 8
TIME_X = (1 + RHO) / (1 - RHO)  # 19
TIME_SQUARE = (1 + RHO**2) / (1 - RHO**2)  # 9.53


def autoregressive(shape, rho=RHO, seed=0):
    """Stationary AR(1) chains of unit variance, (chain, draw, n)."""
    rng = np.random.default_rng(seed)
    chain, _, n = shape
    noise = np.sqrt(1 - rho**2) * rng.standard_normal(shape)
    start = rho * rng.standard_normal((chain, 1, n))
    return lfilter([1.0], [1.0, -rho], noise, axis=1, zi=start)[0]


@pytest.fixture(scope="module")
def draws():
    return autoregressive((1, LENGTH, COORDINATES))


def check_ess(draws, rho):
    """Mean over coordinates of the ESS of x and of x²: N (1 − ρ)/(1 + ρ) and N (1 − ρ²)/(1 + ρ²)."""
    assert np.mean(initial_monotone_ess(draws)) == pytest.approx(LENGTH * (1 - rho) / (1 + rho), rel=0.1)
    assert np.mean(initial_monotone_ess(draws**2)) == pytest.approx(LENGTH * (1 - rho**2) / (1 + rho**2), rel=0.1)


# One coordinate's estimate of N/19 scatters by 5 %, the mean of eight by 1.8 % (that at ρ = 0.5 by less than half). A
# tolerance of 10 % is 5.6 standard errors: its false-alarm rate is about 2e-8, and errors of 15 % are caught with
# probability 0.997.
@pytest.mark.parametrize("rho", [0.5, RHO])
def test_ess_of_an_autoregressive_chain(rho):
    check_ess(autoregressive((1, LENGTH, COORDINATES), rho), rho)


@pytest.mark.parametrize("shape", [(1, 2, 4), (2, 2, 5), (3, 4, 500)])
def test_normal_scores_are_quantiles_of_ranks(shape):
    rows = np.random.default_rng(1).standard_normal(shape).round(1)  # with equals
    ranks = lambda values: np.stack([rankdata(row).reshape(row.shape) for row in values])
    S = np.prod(shape[1:])
    distances = abs(rows - np.median(rows, (1, 2), keepdims=True))
    for found, values in zip(normal_scores(rows), (rows, distances), strict=True):
        np.testing.assert_allclose(found, ndtri((ranks(values) - 3 / 8) / (S + 1 / 4)), rtol=1e-12, atol=1e-15)


def test_table_of_an_autoregressive_chain(draws):
    table = ess_table(draws)
    assert set(table) == {"paper", "bulk", "tail", "square"}
    assert all(values.shape == (COORDINATES,) for values in table.values())
    assert np.mean(table["paper"]) == pytest.approx(LENGTH / TIME_X, rel=0.1)
    assert np.mean(table["bulk"]) == pytest.approx(LENGTH / TIME_X, rel=0.1)
    assert np.mean(table["square"]) == pytest.approx(LENGTH / TIME_SQUARE, rel=0.1)
    assert (table["tail"] > LENGTH / TIME_X).all()


@pytest.mark.parametrize(
    "planted",
    [lambda time: time + 1.0, lambda time: (time + 1.0) / 2, lambda time: time + 2.0],
    ids=["-1 forgotten", "doubling forgotten", "+1 for -1"],
)
def test_the_tolerance_notices_planted_bugs(monkeypatch, planted):
    """At ρ = 0.5, where x has the integrated time 3: forgetting the −1 makes it 4."""
    correct = module.integrated_time
    monkeypatch.setattr(module, "integrated_time", lambda rho: planted(correct(rho)))
    with pytest.raises(AssertionError):
        check_ess(autoregressive((1, LENGTH, COORDINATES), 0.5), 0.5)


def test_integrated_time_by_hand():
    """Γ = 1.5, 0.3, 0.4 (lowered to 0.3), −0.1 (cut), 0.5 (behind the cut): −1 + 2 · 2.1."""
    rho = np.array([[1.0, 0.5, 0.2, 0.1, 0.3, 0.1, 0.0, -0.1, 0.4, 0.1]])
    np.testing.assert_allclose(module.integrated_time(rho), [3.2])


def test_autocorrelation_equals_the_direct_sum():
    x = np.random.default_rng(1).standard_normal(30)
    centred = x - x.mean()
    direct = np.array([np.sum(centred[: 30 - lag] * centred[lag:]) for lag in range(30)])
    np.testing.assert_allclose(module._autocorrelation(x[None])[0], direct / direct[0], atol=1e-14)


def test_independent_draws_count_fully_and_never_more():
    draws = np.random.default_rng(2).standard_normal((2, 20_000, 5))
    ess = initial_monotone_ess(draws)
    assert (ess <= 20_000).all()
    assert (ess > 0.9 * 20_000).all()
    antithetic = autoregressive((1, 5_000, 3), rho=-0.9)
    np.testing.assert_array_equal(initial_monotone_ess(antithetic), 5_000)


def test_antithetic_moves_show_in_the_squares():
    table = ess_table(autoregressive((4, 5_000, 3), rho=-0.9))
    assert (table["bulk"] > 20_000).all()
    assert (table["square"] < 4_000).all()


def test_chains_are_averaged():
    draws = autoregressive((3, 2_000, 4))
    each = [initial_monotone_ess(draws[c : c + 1]) for c in range(3)]
    np.testing.assert_allclose(initial_monotone_ess(draws), np.mean(each, axis=0))


def test_blocks_change_nothing(monkeypatch):
    draws = autoregressive((2, 500, 7))
    whole = initial_monotone_ess(draws)
    monkeypatch.setattr(module, "BLOCK", 1_000)
    np.testing.assert_allclose(initial_monotone_ess(draws), whole)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scale_does_not_matter(scale):
    draws = autoregressive((1, 500, 2))
    np.testing.assert_allclose(initial_monotone_ess(scale * draws), initial_monotone_ess(draws))


@pytest.mark.parametrize("chains", [1, 4])
def test_a_coordinate_that_never_moves(chains):
    draws = autoregressive((chains, 500, 3))
    draws[:, :, 1] = 0.1
    table = ess_table(draws)
    for values in table.values():
        assert values[1] == 1.0
        assert np.isfinite(values).all()
        assert (values[[0, 2]] > 1).all()
    r = rhat(draws)
    assert np.isnan(r[1])
    assert np.isnan(r).all() if chains == 1 else np.isfinite(r[[0, 2]]).all()


def test_chains_that_stand_still_apart():
    draws = np.repeat(np.arange(4.0)[:, None, None], 100, axis=1)
    assert rhat(draws)[0] > 1e6
    table = ess_table(draws)
    assert table["paper"][0] == 1.0
    assert table["bulk"][0] < 10


@pytest.mark.parametrize("length", [1, 2, 3])
def test_too_few_draws_give_nan(length):
    draws = np.random.default_rng(3).standard_normal((2, length, 3))
    assert all(np.isnan(values).all() for values in ess_table(draws).values())
    assert np.isnan(rhat(draws)).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_draws_that_are_not_finite_give_nan_there(bad):
    draws = autoregressive((2, 100, 3))
    draws[1, 50, 0] = bad
    for values in [*ess_table(draws).values(), rhat(draws)]:
        assert np.isnan(values[0])
        assert np.isfinite(values[1:]).all()


def test_short_chains_give_numbers():
    draws = np.random.default_rng(4).standard_normal((2, 4, 3))
    assert all(np.isfinite(values).all() for values in ess_table(draws).values())


def test_rhat_tells_chains_apart():
    draws = autoregressive((4, 5_000, 2), rho=0.5)
    assert (rhat(draws) < 1.01).all()
    draws[0, :, 1] += 1.0
    assert rhat(draws)[0] < 1.01
    assert rhat(draws)[1] > 1.1


@pytest.mark.parametrize("shape", [(1, 4), (2, 5), (1, 7), (4, 8), (4, 51), (3, 1_000), (16, 30)])
@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.99])
def test_many_coordinates_at_once_give_what_arviz_gives_one_by_one(shape, rho):
    """Continuous ones, whole numbers, rare events, draws that repeat, chains that stand apart."""
    x = autoregressive((*shape, 14), rho)
    x[:, :, 4:8], x[:, :, 8:10], x[:, :, 12] = np.round(x[:, :, 4:8]), x[:, :, 8:10] > 1.5, np.arange(len(x))[:, None]
    x[:, 1::2, 10:12] = x[:, : 2 * (shape[1] // 2) : 2, 10:12]
    x = x[:, :, np.ptp(x, axis=(0, 1)) > 0]
    rows, found = np.moveaxis(x, 2, 0), judged(x)
    np.testing.assert_allclose(found.bulk, array_stats.ess(rows, method="bulk"), rtol=1e-9)
    np.testing.assert_allclose(found.tail, array_stats.ess(rows, method="tail", prob=(0.05, 0.95)), rtol=1e-9)
    np.testing.assert_allclose(mean_ess(x), array_stats.ess(rows, method="mean"), rtol=1e-9)
    if shape[0] > 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            theirs = array_stats.rhat(rows, method="rank")
        far = 1e12  # chains that stand still, each at a place of its own: infinite, but for rounding
        np.testing.assert_allclose(np.minimum(found.rhat, far), np.minimum(theirs, far), rtol=1e-9)


def test_blocks_of_coordinates_and_units_change_nothing(monkeypatch):
    draws = autoregressive((2, 500, 7))
    whole = ess_table(draws)
    monkeypatch.setattr(summary, "BLOCK", 3_000)
    for scale in (1e-200, 1.0, 1e200):
        blocks = ess_table(scale * draws)
        assert all(np.allclose(blocks[kind], whole[kind]) for kind in ("bulk", "tail"))
    np.testing.assert_allclose(ess_table(1e-20 * draws)["square"], whole["square"])


@pytest.mark.parametrize("shape", [(4, 50, 3), (16, 50, 100), (1, 30_000, 2), (2, 3, 4)])
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_rhat_that_another_core_works_out_is_the_same(monkeypatch, shape, cores):
    """Little of it and much, in one block and several; of coordinates that stand still or are not finite, too."""
    draws = autoregressive(shape, rho=0.5)
    draws[:, :, 1], draws[0, 1, 0] = 3.0, np.nan
    found = judged(draws).rhat
    monkeypatch.setattr(summary, "THREADS", cores)
    np.testing.assert_array_equal(summary.rhat_as_judged(draws), found)


def test_a_single_chain_is_judged_by_its_halves():
    draws = autoregressive((1, 5_000, 2), rho=0.5)
    draws[0, 2_500:, 1] += 1.0
    first, second = judged(draws).rhat
    assert first < 1.01
    assert second > 1.1
    assert np.isnan(rhat(draws)).all()


@pytest.mark.parametrize("function", [initial_monotone_ess, ess_table, rhat])
@pytest.mark.parametrize("shape", [(10,), (10, 3), (2, 0, 3), (2, 10, 3, 1)])
def test_wrong_shapes_are_named(function, shape):
    with pytest.raises(ValueError, match=r"draws must have the shape \(chain, draw, n\)"):
        function(np.zeros(shape))


def test_spread():
    assert spread(np.array([3.0, 1.0, 2.0])) == {"min": 1.0, "median": 2.0, "max": 3.0}
    assert all(type(value) is float for value in spread(np.array([1, 2])).values())
    assert np.isnan(list(spread(np.array([1.0, np.nan])).values())).all()
    with pytest.raises(ValueError, match="values"):
        spread(np.array([]))
