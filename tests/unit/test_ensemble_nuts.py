"""NUTS of many chains on the host: its law, planted bugs, runs in pieces, and what it learns."""

from itertools import pairwise

import numpy as np
import pytest

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.learning_nuts import LearningNuts
from gadabout.ensemble.nuts import Nuts
from tests.exact_draws import Curved, Rows, Stepped, assert_same, gaussian, generator, in_pieces

FALSE_ALARM = 1e-6
"""of each test of a law, were the law right; seeds were chosen once"""
CHAINS = 20_000


def run(kind, target, factor, seed=0, transitions=4, **settings):
    """Draws of chains that begin at exact ones, and the alarm after the last transition."""
    rng = generator(seed)
    move = kind(Rows(2, target.density), Coordinates(np.array([0.1, 0.2]), np.array(factor)), ahead=2, **settings)
    x = target.draws(CHAINS, rng)
    assert target.alarm(x) > 1e-3
    _, drawn = move.advance(move.init(x, rng), rng, transitions)
    return drawn, target.alarm(drawn["position"][-1])


DENSE, DIAGONAL = [[1.0, 0.0], [0.3, 1.2]], [1.1, 0.9]
PLAIN = {"target": Curved(0.3), "factor": DENSE, "step_size": 1.0, "max_depth": 4}
FINE = {"target": Curved(0.3), "factor": DIAGONAL, "step_size": 0.3, "max_depth": 4}
HALVED = {"target": Curved(0.0), "factor": DENSE, "step_size": 1.2, "max_depth": 3, "halvings": 14}
DEAR = {"target": Curved(0.8), "factor": DIAGONAL, "step_size": 0.6, "max_depth": 3, "halvings": 14}
FEW = {"target": Curved(0.5), "factor": DIAGONAL, "step_size": 0.8, "max_depth": 3, "halvings": 2}
STEPS = Stepped(0.0, 0.0, ((-0.5, 0.2, 1.0), (0.0,)), ((0.0, 1.0, 3.0, 2.0), (0.0, 2.0)))
LEVELS = {"target": STEPS, "factor": DENSE, "step_size": 0.4, "max_depth": 4, "halvings": 14}
BENT_STEPS = Stepped(0.3, 0.7, ((0.0,), (0.0,)), ((0.0, 5.0), (0.0, 1.2)))
CLIFF = {"target": BENT_STEPS, "factor": DENSE, "step_size": 1.2, "max_depth": 4, "halvings": 14}
HALF_NORMAL = Stepped(0.0, 0.0, ((0.0,), ()), ((0.0, 1000.0), (0.0,)))
BORDER = {"target": HALF_NORMAL, "factor": DENSE, "step_size": 0.1, "max_depth": 7, "halvings": 14}


@pytest.mark.parametrize(
    ("settings", "occurs"),
    [
        (PLAIN, "diverging"),
        (FINE, "reached_max_treedepth"),
        (HALVED, "cut_short"),
        (DEAR, "reached_max_treedepth"),
        (FEW, "diverging"),
        (LEVELS, "discontinuous"),
        (CLIFF, "cut_short"),
        (BORDER, "diverging"),
    ],
    ids=["plain", "fine", "halved", "dear", "few-halvings", "levels", "cliff", "border"],
)
def test_the_law_stands_still(settings, occurs):
    """Transitions from exact draws, where trajectories end in every way; one false alarm in a million."""
    drawn, alarm = run(Nuts, **settings)
    assert alarm > FALSE_ALARM
    assert drawn[occurs].mean() > 0.003
    assert 0.2 < drawn["accepted"].mean() < 1


class UniformWeights(Nuts):
    """Bug: all states of a trajectory have the same weight."""

    def _log_weight(self, change):
        return np.zeros_like(change)


class EvenWeights(Nuts):
    """Bug: weights are a little too even."""

    def _log_weight(self, change):
        return 0.8 * change


class NoOdds(Nuts):
    """Bug: strides are not weighed by the odds of the way back."""

    def _log_odds(self, forth, back):
        return np.zeros_like(forth)


class NoWayBack(Nuts):
    """Bug: strides are taken that cannot be retraced."""

    def _add(self, s, i, leaf, change, cut, *rest):
        super()._add(s, i, leaf, change, np.zeros_like(cut), *rest)


class JumpsFromTheStart(Nuts):
    """Bug: jumps that end trajectories are counted from the start, so that some starts do not reach others."""

    def _add(self, s, i, leaf, change, *rest):
        super()._add(s, i, leaf, np.where(change > -1000, change, -np.inf), *rest)


@pytest.mark.parametrize(
    ("bug", "settings"),
    [
        (UniformWeights, PLAIN),
        (EvenWeights, PLAIN),
        (UniformWeights, HALVED),
        (NoOdds, HALVED),
        (UniformWeights, LEVELS),
        (NoWayBack, CLIFF),
        (JumpsFromTheStart, BORDER),
    ],
)
def test_planted_bugs_are_found(bug, settings):
    _, alarm = run(bug, **settings)
    assert alarm < FALSE_ALARM


@pytest.mark.parametrize(("halvings", "target"), [(0, Curved(0.5)), (14, Curved(0.5)), (14, BENT_STEPS)])
@pytest.mark.parametrize("lengths", [[1] * 23, [9, 0, 13, 1]], ids=["ones", "some"])
def test_pieces_give_the_same_bits(halvings, target, lengths):
    rng = generator(1)
    move = Nuts(Rows(2, target.density), Coordinates(np.zeros(2), np.ones(2)), 0.5, halvings=halvings, ahead=5)
    begun = move.init(target.draws(7, rng), rng)
    whole, all_draws = in_pieces(move, begun, 2, [23])
    state, drawn = in_pieces(move, begun, 2, lengths)
    assert_same(state, whole)
    assert_same(drawn, all_draws)
    assert drawn["position"].shape == (23, 7, 2)
    np.testing.assert_array_equal(move.positions(state), drawn["position"][-1])


@pytest.mark.parametrize("factor", [DENSE, DIAGONAL], ids=["dense", "diagonal"])
def test_learning_in_pieces_gives_the_same_bits(factor):
    rng, target = generator(3), Curved(0.2)
    learner = LearningNuts(Rows(2, target.density), iterations=40, halvings=6)
    begun = learner.init(target.draws(6, rng), Coordinates(np.zeros(2), np.array(factor)), rng)
    whole, all_draws = in_pieces(learner, begun, 4, [40])
    for lengths in ([1] * 40, [5, 0, 20, 100]):
        state, drawn = in_pieces(learner, begun, 4, lengths)
        assert_same(state, whole)
        assert_same(drawn, all_draws)


@pytest.mark.parametrize("dense", [True, False])
def test_the_covariance_and_the_step_size_are_learned(dense):
    """Widths within 15 %, six standard errors of 800 independent draws (4,000 are made); acceptance within 0.1."""
    rng, deviations, mean = generator(5), np.array([100.0, 1.0, 0.01]), np.array([3.0, -2.0, 1.0])
    density = Rows(3, lambda x: gaussian(x - mean, deviations))
    learner = LearningNuts(density, iterations=400)
    factor = np.diag(deviations * [3.0, 1.0, 0.2]) if dense else deviations * [3.0, 1.0, 0.2]
    state = learner.init(mean + deviations * rng.standard_normal((20, 3)), Coordinates(mean + 0.1, factor), rng)
    state, _ = learner.advance(state, rng, 400)
    here, step_size = learner.learned(state)
    np.testing.assert_allclose(here.deviations(), deviations, rtol=0.15)
    np.testing.assert_allclose((here.mean - mean) / deviations, 0, atol=0.15)
    move = Nuts(density, here, step_size)
    _, drawn = move.advance(move.init(learner.positions(state), rng), rng, 50)
    assert abs(drawn["acceptance_rate"].mean() - 0.8) < 0.1
    assert drawn["tree_depth"].max() <= 4


def test_steps_after_a_window_are_no_longer_than_before():
    """A window ends after 75 iterations; Stan's steps would be ten times as long then."""
    rng, n = generator(6), 10
    learner = LearningNuts(Rows(n, gaussian), iterations=150, halvings=6)
    state = learner.init(rng.standard_normal((16, n)), Coordinates(np.zeros(n), np.eye(n)), rng)
    _, drawn = learner.advance(state, rng, 150)
    assert 20 < learner.ends[0] < learner.ends[1] < 140
    later = drawn["step_size"][20:]
    assert later.max() < 3 * np.median(later)


def test_what_is_recorded_agrees():
    rng, target = generator(6), Curved(0.5)
    density = Rows(2, target.density)
    for halvings in (0, 14):
        move = Nuts(density, Coordinates(np.zeros(2), np.ones(2)), 0.4, max_depth=6, halvings=halvings)
        _, drawn = move.advance(move.init(target.draws(50, rng), rng), rng, 40)
        x = drawn["position"]
        np.testing.assert_allclose(drawn["lp"].ravel(), density.value(x.reshape(-1, 2)), rtol=1e-12)
        moved = (x[1:] != x[:-1]).any(2)
        np.testing.assert_array_equal(drawn["accepted"][1:], moved)
        steps, gradients, depth = drawn["n_steps"], drawn["gradient_evaluations"], drawn["tree_depth"]
        if halvings:
            assert (gradients >= np.minimum(steps, 2)).all()
            assert gradients.sum() > steps.sum()
        else:
            np.testing.assert_array_equal(steps, gradients)
            assert (steps < 2**depth).all()
            assert (steps >= 2 ** (depth - 1)).all()
        assert (drawn["energy"] >= -drawn["lp"]).all()
        assert depth.max() <= 6


@pytest.mark.parametrize("halvings", [0, 3])
def test_where_the_density_is_zero_or_undefined_no_chain_goes(halvings):
    """On the half plane, with log π = −∞, NaN or ∞ elsewhere; trajectories that go there are non-finite."""
    for outside in (-np.inf, np.nan, np.inf):

        def half_plane(x, outside=outside):
            value, grad = gaussian(x)
            return np.where(x[:, 0] > 0, value, outside), np.where(x[:, :1] > 0, grad, np.nan)

        rng = generator(7)
        x = np.abs(rng.standard_normal((100, 2)))
        move = Nuts(Rows(2, half_plane), Coordinates(np.zeros(2), np.ones(2)), 0.7, halvings=halvings)
        _, drawn = move.advance(move.init(x, rng), rng, 10)
        assert (drawn["position"][..., 0] > 0).all()
        assert np.isfinite(drawn["lp"]).all()
        assert np.isfinite(drawn["acceptance_rate"]).all()
        assert drawn["nonfinite"].mean() > 0.1
        assert not (drawn["nonfinite"] & ~drawn["diverging"]).any()


def rounded(x):
    """A Gaussian whose log density is known to 2 nats, as float32 knows numbers of 2e7."""
    value, grad = gaussian(x)
    return 2 * np.round(value / 2), grad


def above(jump):
    """A Gaussian with log π higher by a jump where x₀ > 0, −∞ elsewhere where it is infinite."""

    def density(x):
        value, grad = gaussian(x)
        return np.where(x[:, 0] > 0, value, value - jump), grad

    return density


@pytest.mark.parametrize(
    ("density", "most", "occurs"),
    [
        (above(1.2), 30, None),
        (above(5.0), 45, "discontinuous"),
        (above(1000.0), 45, "discontinuous"),
        (above(1e10), 45, "discontinuous"),
        (above(np.inf), 200, "nonfinite"),
        (rounded, 150, "discontinuous"),
    ],
    ids=["1.2", "5", "1000", "1e10", "inf", "rounded"],
)
def test_halving_is_given_up_where_it_does_not_help(density, most, occurs):
    """Gradients an iteration, with 14 halvings of which each costs twice as many: 30,000 for one stride."""
    rng = generator(9)
    x = np.abs(rng.standard_normal((400, 2)))
    move = Nuts(Rows(2, density), Coordinates(np.zeros(2), np.ones(2)), 0.5, max_depth=6, halvings=14)
    _, drawn = move.advance(move.init(x, rng), rng, 5)
    assert drawn["gradient_evaluations"].mean() < most
    assert occurs is None or drawn[occurs].mean() > 0.2


@pytest.mark.parametrize(("target", "step_size"), [(Curved(0.5), 0.6), (Curved(0.0), 1.2), (Curved(1.0), 0.2)])
def test_halving_is_not_given_up_where_the_density_is_smooth(target, step_size):
    """Of 2,000 trajectories with steps that many strides need halved it is in less than 10, and none diverges."""
    rng = generator(10)
    move = Nuts(Rows(2, target.density), Coordinates(np.zeros(2), np.ones(2)), step_size, max_depth=6, halvings=14)
    _, drawn = move.advance(move.init(target.draws(400, rng), rng), rng, 5)
    assert drawn["discontinuous"].mean() < 0.005
    assert not drawn["diverging"].any()


def test_no_chain_waits_for_another():
    """One chain makes sixteen times as many gradients an iteration; the others go on to `ahead` more iterations."""
    rng = generator(8)
    scale = lambda x: np.where(x[:, 1:] > 500, 1.0, 0.1)  # two separate Gaussians in x₁, of different widths in x₀
    density = Rows(2, lambda x: gaussian(x - [0, 1000] * (x[:, 1:] > 500), np.hstack([scale(x), np.ones((len(x), 1))])))
    x = np.array([[0.0, 0.0]] + 4 * [[0.0, 1000.0]])
    move = Nuts(density, Coordinates(np.zeros(2), np.ones(2)), 0.1, ahead=20)
    state, drawn = move.advance(move.init(x, rng), rng, 10)
    ticks = (density.gradients - len(x)) // len(x)
    slowest = drawn["gradient_evaluations"].sum(0).max()
    assert ticks == slowest  # not the sum of each iteration's largest
    assert ticks < drawn["gradient_evaluations"].max(1).sum()
    assert 0 < state["completed"].max() <= 20


def test_windows_add_up():
    for iterations in (1, 19, 20, 150, 151, 500, 1_000):
        ends = LearningNuts(Rows(1, gaussian), iterations).ends
        assert ends[-1] == iterations
        assert all(a <= b for a, b in pairwise(ends))


def test_a_window_whose_covariance_rounding_has_spoilt_keeps_a_factor():
    """Chains stand 10⁹ deviations away: sums of squares are rounded by more than a variance."""
    learner = LearningNuts(Rows(3, lambda x: gaussian(x - 1e9)), iterations=200)
    here = Coordinates(np.zeros(3), np.eye(3))
    state = learner.init(1e9 + generator(2).normal(size=(4, 3)), here, generator(3))
    state, _ = learner.advance(state, generator(4), 200)
    assert np.isfinite(learner.learned(state)[0].factor).all()
