"""The mixture that is proposed from: its density and draws, fits to several modes, the law of its moves, and pieces."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp

from gadabout.ensemble import mixture
from gadabout.ensemble.from_mixture import FromMixture, local_step
from gadabout.ensemble.mixture import FREEDOM, Mixture, fitted
from gadabout.ensemble.split_hmc import squares
from tests.exact_draws import Curved, Rows, TwoModes, assert_same, gaussian, generator, in_pieces

FALSE_ALARM = 1e-6
"""of each test of a law, were the law right; seeds were chosen once. With as many chains a moment that is off by 3.5 %
of its draws' standard deviation is found with a chance of 95 % (5.3 + 1.65 standard errors of half a per cent)."""
CHAINS = 40_000
Q = Mixture(
    np.array([0.5, 0.3, 0.2]),
    np.array([[-1.3, -0.8], [1.0, 1.0], [2.0, 0.2]]),
    np.array([[[0.9, 0.0], [0.1, 0.6]], [[1.0, 0.0], [-0.3, 1.1]], [[1.2, 0.0], [0.0, 0.8]]]),
    np.array([0, 1, 1]),
)


# The density and its draws


def of_one_coordinate():
    arrays = np.array([0.2, 0.5, 0.3]), np.array([[-3.0], [0.5], [4.0]]), np.array([0.5, 1.0, 2.0])[:, None, None]
    return Mixture(*arrays, np.arange(3))


def test_the_density_of_one_coordinate_is_that_of_students_t_up_to_a_constant():
    q, x = of_one_coordinate(), np.linspace(-30, 30, 301)
    parts = [stats.t.pdf(x, FREEDOM, m[0], L[0, 0]) for m, L in zip(q.means, q.factors, strict=True)]
    expected = np.log(q.weights @ parts)
    constant = q.log_q(x[:, None]) - expected
    np.testing.assert_allclose(constant, constant[0], rtol=1e-12)
    density = lambda v: np.exp(q.log_q(np.array([[v]]))[0] - constant[0])
    mass, _ = quad(density, -200, 200, limit=500, points=[-3, 0.5, 4])
    assert mass == pytest.approx(1, abs=1e-7)


def test_the_density_of_several_coordinates_is_that_of_students_t_up_to_a_constant():
    x = 3 * generator(0).standard_normal((50, 2))
    shapes = [stats.multivariate_t(m, L @ L.T, FREEDOM) for m, L in zip(Q.means, Q.factors, strict=True)]
    expected = np.log(sum(w * shape.pdf(x) for w, shape in zip(Q.weights, shapes, strict=True)))
    constant = Q.log_q(x) - expected
    np.testing.assert_allclose(constant, constant[0], rtol=1e-10)
    np.testing.assert_allclose(Q.log_q(x), logsumexp(Q.parts(x), 1))
    negative = replace(Q, factors=Q.factors * [[[-1.0, 1.0], [-1.0, 1.0]]])  # the same covariances
    np.testing.assert_allclose(negative.log_q(x), Q.log_q(x), rtol=1e-12)


def test_draws_have_the_moments_of_the_density():
    """Of 200,000: shares, means and covariances within five standard errors."""
    count = 200_000
    x, mean = Q.draw(generator(1), count), Q.weights @ Q.means
    covariances = FREEDOM / (FREEDOM - 2) * Q.factors @ np.swapaxes(Q.factors, 1, 2)
    expected = np.tensordot(Q.weights, covariances + Q.means[:, :, None] * Q.means[:, None], 1) - np.outer(mean, mean)
    centred = x - mean
    assert (np.abs(centred.mean(0)) < 5 * x.std(0) / np.sqrt(count)).all()
    products = centred[:, :, None] * centred[:, None]
    assert (np.abs(products.mean(0) - expected) < 5 * products.std(0) / np.sqrt(count)).all()
    one = of_one_coordinate()
    parts = [(w, m[0], L[0, 0]) for w, m, L in zip(one.weights, one.means, one.factors, strict=True)]
    below = lambda v: sum(w * stats.t.cdf(v, FREEDOM, m, s) for w, m, s in parts)
    assert stats.kstest(one.draw(generator(2), CHAINS)[:, 0], below).pvalue > FALSE_ALARM


def test_halves_stand_for_what_they_are_halves_of():
    twice = Q.halves(generator(3))
    assert twice.weights.sum() == pytest.approx(1)
    np.testing.assert_array_equal(twice.modes, [0, 1, 1, 0, 1, 1])
    np.testing.assert_allclose(0.5 * (twice.means[:3] + twice.means[3:]), Q.means)
    apart = np.linalg.solve(Q.factors, (twice.means[:3] - twice.means[3:])[..., None])
    np.testing.assert_allclose(np.linalg.norm(apart, axis=1), 1)


# The fit


def islands(mass, widths, apart):
    """Two Gaussians at ±`apart` in all coordinates, of these widths; the first has this mass."""

    def function(x):
        n = x.shape[1]
        left, right = gaussian(x + apart, widths[0]), gaussian(x - apart, widths[1])
        masses = np.log([mass, 1 - mass]) - n * np.log(widths)
        parts = np.stack([left[0] + masses[0], right[0] + masses[1]])
        value = np.logaddexp.reduce(parts)
        share = np.exp(parts - value)[..., None]
        return value, share[0] * left[1] + share[1] * right[1]

    return function


def fit_to(function, ends, seed=0):
    return fitted(Rows(ends.shape[1], function), ends, generator(seed))


def fits(n, mass, widths, apart):
    """Five fits, from where 32 ascents may have ended, that chains of both modes began."""
    for seed in range(5):
        rng = generator(seed)
        ends = np.where(rng.random((32, 1)) < 0.5, -apart, apart) + rng.standard_normal((32, n))
        yield fit_to(islands(mass, widths, apart), ends, seed)


TWO = pytest.mark.parametrize(
    ("n", "mass", "widths", "apart"), [(2, 0.25, (1, 2), 5.0), (5, 0.02, (1, 1), 10.0), (10, 0.7, (0.2, 1), 8.0)]
)


@TWO
def test_the_masses_of_two_gaussians_are_found_within_three_of_their_errors(n, mass, widths, apart):
    for q, told in fits(n, mass, widths, apart):
        assert q is not None
        for mode, expected in zip(told["modes"], sorted((mass, 1 - mass), reverse=True), strict=True):
            assert abs(mode["mass"] - expected) < 3 * mode["error"] + 1e-3  # three digits are kept


@TWO
def test_two_gaussians_are_fitted(n, mass, widths, apart):
    for q, told in fits(n, mass, widths, apart):
        assert q is not None
        masses = [mode["mass"] for mode in told["modes"]]
        assert masses == sorted(masses, reverse=True)
        assert sum(masses) == pytest.approx(1, abs=2e-3)
        assert all(0 < mode["error"] < 0.02 for mode in told["modes"])
        assert 0.4 < told["mixture_efficiency"] <= 1
        assert told["mixture_pareto_k"] < 0.7
        assert told["modes_seen_once"] == 0
        heaviest, other = (q.means[q.modes == k].mean(0) for k in (0, 1))
        sign = 1 if mass < 0.5 else -1
        np.testing.assert_allclose(sign * heaviest, apart, atol=1)
        np.testing.assert_allclose(sign * other, -apart, atol=1)


def test_a_ring_of_modes_is_found():
    """Eight Gaussians of masses 1 to 8 of 36; ascents that are given end in three of them."""
    angles = 2 * np.pi * np.arange(8) / 8
    centres, masses = 6 * np.column_stack([np.cos(angles), np.sin(angles)]), np.arange(1, 9) / 36

    def ring(x):
        parts = np.log(masses)[:, None] - 2 * np.sum((x[:, :2] - centres[:, None]) ** 2, 2)
        value = np.logaddexp.reduce(parts)
        grad = -4 * np.einsum("ka,kai->ai", np.exp(parts - value), x[:, :2] - centres[:, None])
        return value - 0.5 * np.sum(x[:, 2:] ** 2, 1), np.hstack([grad, -x[:, 2:]])

    rng = generator(4)
    ends = np.hstack([centres[rng.integers(3, size=32)], np.zeros((32, 2))]) + 0.3 * rng.standard_normal((32, 4))
    q, told = fit_to(ring, ends)
    assert q is not None
    assert len(told["modes"]) == 8
    for mode, expected in zip(told["modes"], masses[::-1], strict=True):
        assert abs(mode["mass"] - expected) < 4 * mode["error"] + 1e-3
    assert told["mixture_efficiency"] > 0.4


def student(x):
    n, square = x.shape[1], np.sum(x**2, 1)
    return -0.5 * (4 + n) * np.log1p(square / 4), -(4 + n) * x / (4 + square)[:, None]


@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("function", [gaussian, student])
def test_there_is_none_for_one_mode(function, n):
    rng = generator(5)
    assert fitted(Rows(n, function), rng.standard_normal((32, n)), rng) == (None, {})


def test_there_is_none_for_a_mode_of_negligible_mass():
    rng = generator(6)
    ends = np.where(rng.random((32, 1)) < 0.5, -8.0, 8.0) + rng.standard_normal((32, 3))
    assert fit_to(islands(1e-6, (1, 1), 8.0), ends) == (None, {})


def test_there_is_none_where_ascents_come_to_no_end():
    wall = lambda x: (np.where(x[:, 0] > 0, -np.inf, x.sum(1)), np.where(x[:, :1] > 0, np.nan, np.ones_like(x)))
    with np.errstate(all="raise"):
        assert fit_to(wall, -np.abs(generator(7).standard_normal((32, 2)))) == (None, {})


@pytest.mark.parametrize(("name", "bound"), [("LEAST", 1.01), ("LARGEST_PARETO_K", 0.0)])
def test_a_mixture_of_no_use_is_not_taken(monkeypatch, name, bound):
    monkeypatch.setattr(mixture, name, bound)
    rng = generator(8)
    ends = np.where(np.arange(32)[:, None] % 2, -5.0, 5.0) + rng.standard_normal((32, 2))
    q, told = fit_to(islands(0.4, (1, 1), 5.0), ends)
    assert q is None
    assert len(told["modes"]) == 2


def test_chains_begin_near_draws_of_the_target():
    """Of 2,000 chains a share by mass stands in each mode, within five standard errors and what weighting adds."""
    target, rng = TwoModes(3.0), generator(9)
    x, step_size = local_step(Rows(2, target.density), Q, rng, 2_000, 0.8)
    assert x.shape == (2_000, 2)
    assert (x[:, 0] > 0).mean() == pytest.approx(0.7, abs=0.06)
    assert 0.3 < step_size <= 1.5
    move = FromMixture(Rows(2, target.density), Q, step_size)
    _, drawn = move.advance(move.init(x, rng), rng, 80)
    assert (drawn["position"][-1, :, 0] > 0).mean() == pytest.approx(0.7, abs=0.06)


# The law


TARGET = TwoModes(0.8)


def alarms(q=Q, period=8, rows=(-1,), target=TARGET):
    """After these rows of chains that begin at exact draws, and the draws."""
    rng = generator(10)
    move, x = FromMixture(Rows(2, target.density), q, 0.7, period), target.draws(CHAINS, rng)
    assert target.alarm(x) > 1e-3
    _, drawn = move.advance(move.init(x, rng), rng, 2 * period)
    return min(target.alarm(drawn["position"][row]) for row in rows), drawn


@pytest.mark.parametrize("period", [2, 8])
@pytest.mark.parametrize("target", [TARGET, TwoModes(1.5), Curved(0.3, bend=0.4)], ids=["near", "apart", "one"])
def test_the_law_stands_still(target, period):
    """After a local move, a proposal, and the ends of blocks; on modes near and apart, and on one that is curved."""
    alarm, drawn = alarms(period=period, rows=(0, 1, -1), target=target)
    assert alarm > FALSE_ALARM
    local = np.arange(2 * period) % period == 0
    assert 0.5 < drawn["accepted"][local].mean() < 0.95
    assert 0.1 < drawn["accepted"][~local].mean() < 0.95


class EvenWeights(Mixture):
    """Bug: the density is that of components of equal weights."""

    def log_q(self, x):
        return logsumexp(self.parts(x) - np.log(self.weights), 1)


class NoVolumes(Mixture):
    """Bug: components' volumes are left out."""

    def log_q(self, x):
        volumes = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2))).sum(1)
        return logsumexp(self.parts(x) + volumes, 1)


class ShortTails(Mixture):
    """Bug: the density is that of normal components."""

    def log_q(self, x):
        z = np.einsum("kij,kmj->kmi", np.linalg.inv(self.factors), x - self.means[:, None])
        volumes = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2))).sum(1)
        return logsumexp(np.log(self.weights) - volumes - 0.5 * squares(z).T, 1)


@pytest.mark.parametrize("bug", [EvenWeights, NoVolumes, ShortTails])
def test_a_wrong_density_of_proposals_is_found(bug):
    assert alarms(bug(Q.weights, Q.means, Q.factors, Q.modes))[0] < FALSE_ALARM


class SameParts(Mixture):
    """Parts that stay what they were first."""

    def parts(self, x):
        return vars(self).setdefault("found", super().parts(x))


class NoResponsibilities(FromMixture):
    """Bug: responsibilities are left out of the local move's ratio."""

    def local(self, state, rng):
        q = self.mixture
        same = SameParts(q.weights, q.means, q.factors, q.modes)
        return FromMixture.local(replace(self, mixture=same), state, rng)


class NearestComponent(FromMixture):
    """Bug: the component is the likeliest one, while the ratio stays that of a drawn one."""

    def local(self, state, rng):
        class NoNoise:
            def __getattr__(self, name):
                return getattr(rng, name)

            def gumbel(self, size):
                return np.zeros(size)

        return super().local(state, NoNoise())


@pytest.mark.parametrize("kind", [FromMixture, NoResponsibilities, NearestComponent])
def test_local_moves_alone_leave_the_law_as_it_is_and_planted_bugs_are_found(kind):
    """Four of them, without the proposals that would mend what they do."""
    rng, move = generator(10), kind(Rows(2, TARGET.density), Q, 0.7)
    state = move.init(TARGET.draws(CHAINS, rng), rng)
    for _ in range(4):
        state, told = move.local(state, rng)
    assert 0.5 < told["accepted"].mean() < 0.995
    assert (TARGET.alarm(state["x"]) > FALSE_ALARM) == (kind is FromMixture)


# Records and pieces


def test_what_is_recorded_agrees():
    rng, density = generator(11), Rows(2, TARGET.density)
    move = FromMixture(density, Q, 0.7)
    state = move.init(TARGET.draws(50, rng), rng)
    density.gradients = density.values = 0
    state, drawn = move.advance(state, rng, 20)
    x = drawn["position"]
    assert x.shape == (24, 50, 2)
    np.testing.assert_allclose(drawn["lp"].ravel(), density.value(x.reshape(-1, 2)), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal((x[1:] != x[:-1]).any(2), drawn["accepted"][1:])
    np.testing.assert_array_equal(move.positions(state), x[-1])
    value, grad = density.value_and_grad(x[-1])
    np.testing.assert_allclose(state["lp"], value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state["grad"], grad, rtol=1e-12, atol=1e-12)
    local = np.arange(24) % 8 == 0
    assert (drawn["n_steps"][local] == 3).all()
    assert (drawn["n_steps"][~local] == 0).all()
    assert (drawn["energy"][8::8] >= -drawn["lp"][7:-1:8]).all()  # of where a local move begins


def test_gradients_are_counted():
    rng, density = generator(12), Rows(2, TARGET.density)
    move = FromMixture(density, Q, 0.7)
    state = move.init(TARGET.draws(50, rng), rng)
    before = density.gradients, density.values
    _, drawn = move.advance(state, rng, 16)
    assert density.gradients - before[0] == drawn["gradient_evaluations"].sum()
    assert density.values - before[1] == 2 * 7 * 50


def test_pieces_give_the_same_bits():
    """10 blocks and 7 more are 17."""
    rng, move = generator(13), FromMixture(Rows(2, TARGET.density), Q, 0.7)
    begun = move.init(TARGET.draws(7, rng), rng)
    whole, all_draws = in_pieces(move, begun, 14, [17 * 8])
    for blocks in ([10, 7], [1] * 17, [5, 0, 12]):
        state, drawn = in_pieces(move, begun, 14, [8 * count for count in blocks])
        assert_same(state, whole)
        assert_same(drawn, all_draws)
    assert all_draws["position"].shape == (17 * 8, 7, 2)


def test_a_chain_is_never_moved_to_where_the_density_is_zero_or_undefined():
    for outside in (-np.inf, np.nan, np.inf):

        def half_plane(x, outside=outside):
            value, grad = gaussian(x)
            return np.where(x[:, 0] > 0, value, outside), np.where(x[:, :1] > 0, grad, np.nan)

        rng = generator(15)
        move = FromMixture(Rows(2, half_plane), Q, 0.7)
        _, drawn = move.advance(move.init(np.abs(rng.standard_normal((50, 2))), rng), rng, 40)
        assert (drawn["position"][..., 0] > 0).all()
        assert np.isfinite(drawn["lp"]).all()
        assert np.isfinite(drawn["acceptance_rate"]).all()
        local = np.arange(40) % 8 == 0
        assert drawn["nonfinite"][local].any()
        assert drawn["nonfinite"][~local].any()
