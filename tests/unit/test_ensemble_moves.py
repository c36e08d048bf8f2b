"""Split HMC, independence proposals and warm-up on the host: their laws, planted bugs, and runs in pieces."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.independence import Independence, accept_in_turn
from gadabout.ensemble.move import State
from gadabout.ensemble.split_hmc import SplitHMC, squares
from gadabout.ensemble.tails import SCALES, ScaleMixture, Tails, fitted_tails, fitted_weights, no_tails
from gadabout.ensemble.warmup import Warmup, agreement, quick_windows
from tests.exact_draws import Curved, Rows, assert_same, gaussian, generator, in_pieces

FALSE_ALARM = 1e-6
"""of each test of a law, were the law right; seeds were chosen once"""
CHAINS = 40_000
TARGET = Curved(0.3, bend=0.4)
COORDINATES = Coordinates(np.array([0.1, 0.2]), np.array([[0.9, 0.0], [0.2, 1.1]]))
TAILS = Tails(np.array([0.1, -0.2]), np.array([0.9, 1.0]), np.array([0.0, 0.1]), np.array([0.05, 0.3]))
WEIGHTS = np.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])


def split_hmc(kind=SplitHMC, step_size=0.8, target=TARGET, coordinates=COORDINATES):
    return kind(Rows(2, target.density), coordinates, step_size)


def alarms(move, iterations, rows, seed=0):
    """After these rows of chains that begin at exact draws, and the draws."""
    rng = generator(seed)
    x = TARGET.draws(CHAINS, rng)
    assert TARGET.alarm(x) > 1e-3
    _, drawn = move.advance(move.init(x, rng), rng, iterations)
    return [TARGET.alarm(drawn["position"][row]) for row in rows], drawn


# Split HMC


@pytest.mark.parametrize(("step_size", "steps"), [(0.8, 2), (1.6, 1), (0.2, 8)])
def test_the_law_of_split_hmc_stands_still(step_size, steps):
    move = split_hmc(step_size=step_size)
    (alarm,), drawn = alarms(move, 4, [-1])
    assert alarm > FALSE_ALARM
    assert move.steps == steps
    assert drawn["accepted"].mean() > 0.5
    np.testing.assert_array_equal(drawn["gradient_evaluations"], steps)


def test_the_law_stands_still_with_shorter_steps():
    move = replace(split_hmc(step_size=1.6), shorter=0.4)
    (alarm,), drawn = alarms(move, 4, [-1])
    assert alarm > FALSE_ALARM
    times = np.log(drawn["step_size"] / 1.6) / np.log(0.25)
    np.testing.assert_allclose(times, np.round(times), atol=1e-9)
    assert abs(np.mean(times > 0.5) - 0.4) < 0.01
    assert abs(np.mean(times > 1.5) - 0.16) < 0.01
    assert drawn["acceptance_rate"][times > 0.5].mean() > drawn["acceptance_rate"][times < 0.5].mean()


def test_the_law_stands_still_with_finer_steps():
    move = replace(split_hmc(step_size=1.6), finer=0.5)
    alarm, drawn = alarms(move, 12, [3, -1])
    assert min(alarm) > FALSE_ALARM
    fine = drawn["n_steps"][:, 0] == 4
    assert set(drawn["n_steps"].ravel()) == {1, 4}
    np.testing.assert_allclose(drawn["step_size"][fine], 0.4)
    assert drawn["acceptance_rate"][fine].mean() > drawn["acceptance_rate"][~fine].mean()


class ShorterWhereSteep(SplitHMC):
    """Bug: steps are shorter where the gradient is large, which the way back does not know."""

    def trajectory(self, state, momentum, uniform, scale=1.0):
        scale = np.where(squares(state["residual"]) > 1, 0.25, scale)
        return super().trajectory(state, momentum, uniform, scale)


class WrongSign(SplitHMC):
    """Bug: the kinetic energy enters the log ratio with the wrong sign."""

    def trajectory(self, state, momentum, *rest):
        there, p = super().trajectory(state, momentum, *rest)
        share = np.maximum(2 - squares(p) / squares(momentum), 0)
        return there, momentum * np.sqrt(share)[:, None]


class NoKineticEnergy(SplitHMC):
    """Bug: the kinetic energy is left out of the log ratio."""

    def trajectory(self, state, momentum, *rest):
        return super().trajectory(state, momentum, *rest)[0], momentum


class LastKickWhole(SplitHMC):
    """Bug: the last kick is as long as those between steps."""

    def trajectory(self, state, momentum, *rest):
        there, p = super().trajectory(state, momentum, *rest)
        return there, p + 0.5 * self.step_size * there["residual"]


@pytest.mark.parametrize("bug", [WrongSign, NoKineticEnergy, LastKickWhole, ShorterWhereSteep])
def test_planted_bugs_of_split_hmc_are_found(bug):
    (alarm,), _ = alarms(split_hmc(bug), 4, [-1])
    assert alarm < FALSE_ALARM


def test_split_hmc_accepts_all_on_its_gaussian():
    rng, here = generator(1), Coordinates(np.array([3.0, -1.0]), np.array([[2.0, 0.0], [5.0, 0.1]]))
    precision = np.linalg.inv(here.factor @ here.factor.T)
    density = Rows(2, lambda x: (-0.5 * squares(here.z(x)), -(x - here.mean) @ precision))
    move = SplitHMC(density, here, 1.5)
    _, drawn = move.advance(move.init(here.x(rng.standard_normal((20, 2))), rng), rng, 50)
    np.testing.assert_allclose(drawn["acceptance_rate"], 1, atol=1e-9)
    np.testing.assert_allclose(drawn["lp"].ravel(), density.value(drawn["position"].reshape(-1, 2)), atol=1e-9)


def test_the_angle_of_a_trajectory_is_limited_by_the_steps():
    for step_size, steps in ((1.7, 1), (0.8, 2), (0.05, 32), (0.01, 32)):
        move = replace(split_hmc(), step_size=step_size)
        assert move.steps == steps
        state = {"z": np.array([[1.0, 0.0]]), "residual": np.zeros((1, 2)), "lp": np.zeros(1)}
        still = replace(move, density=Rows(2, gaussian), coordinates=Coordinates(np.zeros(2), np.ones(2)))
        there, _ = still.trajectory(state, np.array([[0.0, 1.0]]), np.array([0.999999]))
        assert math.acos(there["z"][0, 0]) == pytest.approx(min(0.5 * math.pi, steps * step_size), rel=1e-5)


def test_split_hmc_does_not_go_where_the_density_is_not_finite():
    for outside in (-np.inf, np.nan, np.inf):

        def half_plane(x, outside=outside):
            value, grad = gaussian(x)
            return np.where(x[:, 0] > 0, value, outside), np.where(x[:, :1] > 0, grad, np.nan)

        rng = generator(2)
        move = SplitHMC(Rows(2, half_plane), Coordinates(np.zeros(2), np.ones(2)), 0.5)
        _, drawn = move.advance(move.init(np.abs(rng.standard_normal((100, 2))), rng), rng, 20)
        assert (drawn["position"][..., 0] > 0).all()
        assert np.isfinite(drawn["lp"]).all()
        assert drawn["nonfinite"].mean() > 0.1
        np.testing.assert_array_equal(drawn["nonfinite"], drawn["diverging"])


# Independence proposals


@dataclass(frozen=True)
class Planted(Independence):
    """Independence proposals of another distribution."""

    kind: ClassVar[type[ScaleMixture]] = ScaleMixture

    @property
    def distribution(self):
        return self.kind(self.tails, self.weights)


def independence(mixture=ScaleMixture, period=8):
    kind = type("Planted", (Planted,), {"kind": mixture})
    return kind(split_hmc(), TAILS, WEIGHTS, period)


@pytest.mark.parametrize("period", [8, 32])
def test_the_law_of_independence_proposals_stands_still(period):
    """After a half-turn, a draw, a second half-turn, and the end of a block; one false alarm in 250,000."""
    move = independence(period=period)
    found, drawn = alarms(move, period, [1, 2, 3, -1])
    assert min(found) > FALSE_ALARM
    assert 0.3 < drawn["accepted"][1].mean() < 0.95
    assert 0.3 < drawn["accepted"][2].mean() < 0.95


class QuarterTurn(ScaleMixture):
    """Bug: Φ + ¼ (mod 1), which maps the normal distribution to itself, but is not its own inverse."""

    @staticmethod
    def half_turn(normal):
        return stats.norm.ppf((stats.norm.cdf(normal) + 0.25) % 1)


class NarrowTurn(ScaleMixture):
    """Bug: a half-turn that does not quite keep the normal distribution."""

    @staticmethod
    def half_turn(normal):
        return 0.9 * ScaleMixture.half_turn(normal)


class NoTailDensity(ScaleMixture):
    """Bug: the slope of the tails is left out of the density."""

    def _log_density(self, v, log_slope):
        return super()._log_density(v, 0 * log_slope)


class OneScale(ScaleMixture):
    """Bug: the density is that of one scale."""

    def _log_density(self, v, log_slope):
        return -0.5 * squares(v) - log_slope


@pytest.mark.parametrize("bug", [QuarterTurn, NarrowTurn, NoTailDensity, OneScale])
def test_planted_bugs_of_independence_proposals_are_found(bug):
    found, _ = alarms(independence(bug), 16, [-1])
    assert min(found) < FALSE_ALARM


@pytest.mark.parametrize("period", [2, 8, 32])
def test_the_local_move_comes_once_a_period(period):
    rng, move = generator(3), independence(period=period)
    before = move.local.density.gradients, move.local.density.values
    state = move.init(TARGET.draws(10, rng), rng)
    _, drawn = move.advance(state, rng, 2 * period + 1)
    t = len(drawn["lp"])
    assert t == 3 * period
    local = np.arange(t) % period == 0
    assert (drawn["n_steps"][local] == move.local.steps).all()
    assert (drawn["n_steps"][~local] == 0).all()
    assert (drawn["gradient_evaluations"].sum(1) == np.where(local, 10 * (move.local.steps + 1), 0)).all()
    made = move.local.density.gradients - before[0], move.local.density.values - before[1]
    assert made == (drawn["gradient_evaluations"].sum() + 10, 3 * 10 * (period - 1))
    x = drawn["position"]
    np.testing.assert_array_equal((x[1:] != x[:-1]).any(2), drawn["accepted"][1:])
    np.testing.assert_allclose(drawn["lp"].ravel(), move.local.density.value(x.reshape(-1, 2)), rtol=1e-10, atol=1e-10)


def test_a_chain_is_never_moved_to_where_the_density_is_zero():
    def half_plane(x):
        value, grad = gaussian(x)
        return np.where(x[:, 0] > 0, value, -np.inf), np.where(x[:, :1] > 0, grad, np.nan)

    rng = generator(4)
    local = SplitHMC(Rows(2, half_plane), Coordinates(np.zeros(2), np.ones(2)), 0.5)
    move = Independence(local, no_tails(2), WEIGHTS, 8)
    _, drawn = move.advance(move.init(np.abs(rng.standard_normal((50, 2))), rng), rng, 40)
    assert (drawn["position"][..., 0] > 0).all()
    assert drawn["nonfinite"].any()


def test_accepted_in_turn_as_by_a_plain_loop():
    rng, P, chains = generator(5), 7, 30
    own, opposite = np.array([3, 4, 4, 5, 5, 6, 6]), np.array([0, 1, 1, 2, 2, 3, 3])  # rows are any to the function
    log_weights, waits = rng.standard_normal((P + 1, chains)), rng.standard_exponential((P, chains))
    log_weights[2, ::3], log_weights[4, ::5], log_weights[5, 1::4] = -np.inf, np.nan, np.inf
    rows, accepted, log_ratio, finite = accept_in_turn(log_weights, waits, own, opposite)
    for chain in range(chains):
        here, turned = P, 0
        for i in range(P):
            there, back = (own[i], opposite[i]) if i % 2 else (turned, here)
            w = [value if np.isfinite(value) else -np.inf for value in log_weights[[there, here], chain]]
            ratio = w[0] - w[1]
            assert finite[i, chain] == (ratio > -np.inf)
            assert log_ratio[i, chain] == (ratio if ratio > -np.inf else -np.inf)
            assert accepted[i, chain] == (-waits[i, chain] <= log_ratio[i, chain])
            here, turned = (there, back) if accepted[i, chain] else (here, turned)
            assert rows[i, chain] == here


# The distribution of independence proposals


def test_the_half_turn_moves_the_distribution_function_by_a_half():
    u = np.append(np.linspace(-7, 7, 1001), [1e-9, -1e-9])
    turned = ScaleMixture.half_turn(u)
    np.testing.assert_allclose(np.abs(stats.norm.cdf(turned) - stats.norm.cdf(u)), 0.5, atol=1e-14)
    inner = np.abs(u) < 5
    np.testing.assert_allclose(ScaleMixture.half_turn(turned)[inner], u[inner], rtol=1e-7, atol=1e-7)
    assert (np.sign(turned) == -np.sign(u))[u != 0].all()


def test_tails_and_their_inverse_agree():
    v = generator(6).standard_normal((50, 2)) * 3
    z, log_slope = TAILS(v)
    back, same = TAILS.inverse(z)
    np.testing.assert_allclose(back, v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(same, log_slope, rtol=1e-12, atol=1e-12)
    h = 1e-6
    numeric = np.log((TAILS(v + h)[0] - TAILS(v - h)[0]) / (2 * h)).sum(1)
    np.testing.assert_allclose(log_slope, numeric, atol=1e-4)
    assert TAILS.bent == 2
    np.testing.assert_array_equal(no_tails(2)(v)[0], v)


def test_the_density_of_one_coordinate_integrates_to_one():
    mixture = ScaleMixture(Tails(*np.array([[0.3], [0.8], [0.1], [0.4]])), WEIGHTS)
    density = lambda z: float(np.exp(mixture.log_density(np.array([z])))) / math.sqrt(2 * math.pi)
    mass = sum(quad(density, *ends, limit=400)[0] for ends in ((-80, 0), (0, 5), (5, 200)))
    assert mass == pytest.approx(1, abs=1e-6)


def test_draws_and_the_noise_they_stand_for_agree():
    rng, mixture = generator(7), ScaleMixture(TAILS, WEIGHTS)
    k, normal = mixture.scale_index(rng.random((4, 9))), rng.standard_normal((4, 9, 2))
    z, log_q = mixture.draw(k, normal)
    np.testing.assert_allclose(mixture.log_density(z), log_q, rtol=1e-11, atol=1e-11)
    again, same = mixture.draw(*mixture.noise_at(rng.random((4, 9)), z))
    np.testing.assert_allclose(again, z, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(same, log_q, rtol=1e-11, atol=1e-11)


class ScaleByWeight(ScaleMixture):
    """Bug: the scale of which a position is a draw comes by the weights alone, not by its share in the density."""

    def noise_at(self, uniform, z):
        k = self.scale_index(uniform)
        return k, self.tails.inverse(z)[0] / SCALES[k][..., None]


@pytest.mark.parametrize("kind", [ScaleMixture, ScaleByWeight])
def test_the_noise_that_draws_stand_for_is_that_of_draws(kind):
    """Scales by their weights, and normals, of 40,000 draws; one false alarm in a million, and the bug is found."""
    rng, mixture = generator(8), kind(TAILS, WEIGHTS)
    z, _ = mixture.draw(mixture.scale_index(rng.random(CHAINS)), rng.standard_normal((CHAINS, 2)))
    k, normal = mixture.noise_at(rng.random(CHAINS), z)
    counts = np.bincount(k, minlength=len(SCALES))
    p = [stats.chisquare(counts, CHAINS * WEIGHTS).pvalue]
    p += [stats.kstest(normal[k == each].ravel(), "norm").pvalue for each in range(len(SCALES))]
    assert (min(p) * len(p) > FALSE_ALARM) == (kind is ScaleMixture)


def test_tails_are_fitted_to_skewed_and_heavy_coordinates_alone():
    """Of 100,000 draws; T is recovered to 0.12 at all quantiles between 0.1 % and 99.9 %."""
    v = generator(9).standard_normal((100_000, 3))
    true = Tails(np.array([0.0, 0.5, 0.0]), np.array([1.0, 1.5, 0.7]), np.array([0, 0, 0.2]), np.array([0, 0.6, 0.2]))
    fit = fitted_tails(true(v)[0])
    assert fit.bent == 2
    assert (fit.shift[0], fit.width[0], fit.left[0], fit.right[0]) == (0, 1, 0, 0)
    quantiles = np.repeat(np.linspace(-3.1, 3.1, 21)[:, None], 3, 1)
    difference = fit(quantiles)[0] - true(quantiles)[0]
    np.testing.assert_allclose(difference[:, 1:], 0, atol=0.12)


def test_weights_are_fitted_by_likelihood():
    rng, n = generator(10), 5
    for k in (0, 1, 5):
        weights = fitted_weights(SCALES[k] ** 2 * rng.chisquare(n, 4_000), n)
        assert weights.sum() == pytest.approx(1, abs=1e-12)
        assert (weights >= 0.1 / len(SCALES) - 1e-12).all()
        assert weights @ np.log(SCALES) == pytest.approx(0.9 * np.log(SCALES[k]) + 0.1 * np.log(SCALES).mean(), abs=0.1)


# Warm-up


CORRELATED = np.array([[10.0, 0.0, 0.0], [0.9, 0.1, 0.0], [0.0, 0.02, 0.01]])


def of_gaussian(mean, factor):
    precision = np.linalg.inv(factor @ factor.T)
    return Rows(3, lambda x: (-0.5 * squares(np.linalg.solve(factor, (x - mean).T).T), -(x - mean) @ precision))


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])
def test_warm_up_learns_a_gaussian(dense):
    """From chains that stand at its draws, and widths that are wrong by a factor of three either way."""
    rng, mean = generator(11), np.array([100.0, -3.0, 0.5])
    factor = CORRELATED if dense else np.diag([10.0, 1.0, 0.01])
    x = mean + rng.standard_normal((16, 3)) @ factor.T
    widths = np.sqrt(np.sum(factor**2, 1)) * [3.0, 0.3, 1.0]
    warmup = Warmup(of_gaussian(mean, factor), 250)
    state = warmup.init(x, Coordinates(mean + widths, np.diag(widths) if dense else widths), rng)
    state, drawn = warmup.advance(state, rng, 250)
    here = Coordinates.of(state)
    assert warmup.settled(state)
    assert warmup.over(state)
    assert len(drawn["lp"]) < 60
    assert len(drawn["lp"]) in warmup.ends
    learned = here.factor if dense else np.diag(here.factor)
    np.testing.assert_allclose(np.linalg.svd(np.linalg.solve(factor, learned))[1], 1, atol=0.1)
    np.testing.assert_allclose(np.linalg.solve(factor, here.mean - mean), 0, atol=0.1)
    assert warmup.rule.finished(state["rule"]) > 1.0
    assert warmup.advance(state, rng, 10) == (state, {})


def test_warm_up_in_pieces_gives_the_same_bits():
    rng = generator(12)
    warmup = Warmup(Rows(2, TARGET.density), 100)
    begun = warmup.init(TARGET.draws(5, rng), Coordinates(np.zeros(2), np.eye(2)), rng)
    whole, all_draws = in_pieces(warmup, begun, 13, [200])
    t = len(all_draws["lp"])
    for lengths in ([1] * t, [3, 10, 40, 200]):
        state, drawn = in_pieces(warmup, begun, 13, lengths)
        assert_same(state, whole)
        assert_same(drawn, all_draws)


def test_no_fit_is_taken_from_draws_that_are_not_finite():
    """Chains that do not move leave variances of 0; the coordinates stay as they were, and nothing settles."""
    rng = generator(14)
    stuck = Rows(2, lambda x: (np.where(np.abs(x).sum(1) > 0, -np.inf, 0.0), np.full(x.shape, np.nan)))
    warmup = Warmup(stuck, 60)
    state = warmup.init(np.zeros((4, 2)), Coordinates(np.zeros(2), np.ones(2)), rng)
    state, drawn = warmup.advance(state, rng, 60)
    assert not warmup.settled(state)
    assert warmup.over(state)
    assert len(drawn["lp"]) == 60
    np.testing.assert_array_equal(state["factor"], 1.0)


def test_fits_agree_by_the_number_of_draws():
    assert agreement(2, 1_000) == 0.35
    assert agreement(100, 400) == 0.5
    assert agreement(100, 10) == 0.7


@pytest.mark.parametrize("length", [1, 19, 20, 100, 250, 1_000])
def test_windows_add_up(length):
    assert sum(quick_windows(length)) == length


# Runs in pieces


@pytest.mark.parametrize(
    ("move", "block"), [(split_hmc(), 1), (independence(period=8), 8)], ids=["split-hmc", "independence"]
)
def test_pieces_give_the_same_bits(move, block):
    rng = generator(15)
    begun: State = move.init(TARGET.draws(7, rng), rng)
    whole, all_draws = in_pieces(move, begun, 16, [6 * block])
    for lengths in ([1] * 6, [2 * block, 0, block, 2 * block, block]):
        state, drawn = in_pieces(move, begun, 16, lengths)
        assert_same(state, whole)
        assert_same(drawn, all_draws)
    assert all_draws["position"].shape == (6 * block, 7, 2)
    np.testing.assert_array_equal(move.positions(whole), all_draws["position"][-1])
