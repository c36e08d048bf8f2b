"""Moves in coordinates with layers: their law, planted bugs, runs in pieces, and what they record and learn."""

from dataclasses import replace

import numpy as np
import pytest

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.independence import Independence
from gadabout.ensemble.learning_nuts import LearningNuts
from gadabout.ensemble.noncentring import Noncentring, unfolded
from gadabout.ensemble.nuts import Nuts
from gadabout.ensemble.split_hmc import SplitHMC
from gadabout.ensemble.tails import Tails
from gadabout.ensemble.warmup import Warmup
from tests.exact_draws import LAYERS, Curved, Rows, assert_same, generator, in_pieces, layered

FALSE_ALARM = 1e-6
"""of each test of a law, were the law right; seeds were chosen once. With as many chains as below, a moment that is off
by 3.5 % of its draws' standard deviation is found with a chance of 95 % (40,000 chains; 5.3 + 1.65 standard errors), by
7 % (10,000) or by 13 % (3,000)."""
MANY, SOME, FEW = 40_000, 10_000, 3_000
"""chains"""
TARGET = Curved(0.6, bend=0.2)
TAILS = Tails(np.array([0.1, -0.2]), np.array([0.9, 1.0]), np.array([0.0, 0.1]), np.array([0.05, 0.3]))
WEIGHTS = np.array([0.3, 0.3, 0.1, 0.1, 0.1, 0.1])

both = pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])


def density():
    return Rows(2, TARGET.density)


def split_hmc(here):
    return SplitHMC(density(), here, 0.8)


def independence(here):
    return Independence(split_hmc(here), TAILS, WEIGHTS, 8)


def nuts(here):
    return Nuts(density(), here, 0.9, max_depth=4, ahead=2)


def halved(here):
    return Nuts(density(), here, 0.9, max_depth=3, halvings=14, ahead=2)


def halved_twice(here):
    return Nuts(density(), here, 0.9, max_depth=3, halvings=2, ahead=2)


def fine(here):
    return Nuts(density(), here, 0.3, max_depth=4, ahead=2)


MOVES = {
    split_hmc: (MANY, 4, [-1]),
    independence: (MANY, 8, [1, 2, 3, -1]),
    nuts: (SOME, 3, [-1]),
    fine: (SOME, 3, [-1]),
    halved: (SOME, 3, [-1]),
    halved_twice: (SOME, 3, [-1]),
}
"""chains, iterations, and after which of them the law is looked at"""
each = pytest.mark.parametrize("make", MOVES)


def alarms(make, here, seed=0):
    """After these iterations of chains that begin at exact draws, and the draws."""
    chains, iterations, rows = MOVES[make]
    rng, move = generator(seed), make(here)
    x = TARGET.draws(chains, rng)
    assert TARGET.alarm(x) > 1e-3
    _, drawn = move.advance(move.init(x, rng), rng, iterations)
    return min(TARGET.alarm(drawn["position"][row]) for row in rows), drawn


POOLED = tuple(
    replace(layer, precision=np.array([0.7]), data_precision=np.array([0.4]), data_location=np.array([0.5]))
    for layer in LAYERS
)
"""the same layers, with precisions that add"""
CENTRED = tuple(replace(layer, location_scales=-layer.log_scales) for layer in POOLED)
"""and with locations that are scaled too"""


@pytest.mark.parametrize("layers", [POOLED, CENTRED], ids=["pooled", "centred"])
@pytest.mark.parametrize("make", [split_hmc, independence, nuts, halved_twice])
def test_the_law_stands_still_where_precisions_add(make, layers):
    alarm, drawn = alarms(make, layered(True, layers))
    assert alarm > FALSE_ALARM
    assert 0.4 < drawn["accepted"].mean() < 0.995


class NoData(Noncentring):
    """Bug: the log determinant is that of the model's precision alone."""

    def log_det(self, y, of=None):
        return replace(Noncentring(**vars(self)), data_precision=None).log_det(y)


def test_a_log_determinant_without_the_data_is_found():
    alarm, _ = alarms(split_hmc, with_layers(NoData)(layered(True, POOLED)))
    assert alarm < FALSE_ALARM


@both
@each
def test_the_law_stands_still(make, dense):
    alarm, drawn = alarms(make, layered(dense))
    assert alarm > FALSE_ALARM
    assert 0.4 < drawn["accepted"].mean() < 0.995


class WrongSign(Coordinates):
    """Bug: the log determinant is subtracted."""

    def at(self, z):
        return replace(here := super().at(z), log_det=-here.log_det)


class NoDeterminant(Coordinates):
    """Bug: it is left out."""

    def at(self, z):
        return replace(here := super().at(z), log_det=0 * here.log_det)


def of_kind(kind):
    return lambda here: kind(here.mean, here.factor, here.layers)


def with_layers(kind):
    return lambda here: replace(here, layers=tuple(kind(**vars(layer)) for layer in here.layers))


class TwiceInTheDeterminant(Noncentring):
    """Bug: K counts twice in the log determinant."""

    def log_det(self, y, of=None):
        return 2 * super().log_det(y, of)


class InnerFirst(Coordinates):
    """Bug: the log determinant is that of layers in the wrong order."""

    def at(self, z):
        return replace(super().at(z), log_det=Coordinates(self.mean, self.factor, self.layers[::-1]).log_det(z))


@pytest.mark.parametrize(
    "bug",
    [of_kind(WrongSign), of_kind(NoDeterminant), with_layers(TwiceInTheDeterminant)],
    ids=["sign", "none", "twice"],
)
@pytest.mark.parametrize("make", [split_hmc, independence, nuts, halved_twice])
def test_planted_bugs_are_found(make, bug):
    alarm, _ = alarms(make, bug(layered(True)))
    assert alarm < FALSE_ALARM


def test_a_small_planted_bug_is_found():
    alarm, _ = alarms(split_hmc, of_kind(InnerFirst)(layered(True)))
    assert alarm < FALSE_ALARM


class TwiceInThePull(Noncentring):
    """Bug: K counts twice in gradients."""

    def pull(self, y, grad, of=None):
        return Noncentring.pull(replace(self, log_scales=2 * self.log_scales), y, grad)


@pytest.mark.parametrize("make", [split_hmc, fine])
def test_a_wrong_pull_is_found_by_acceptance_and_not_by_the_law(make):
    """Any field in place of the gradient preserves volume and is reversible; trajectories follow log π less well."""
    right, wrong = (alarms(make, here) for here in (layered(True), with_layers(TwiceInThePull)(layered(True))))
    assert wrong[0] > FALSE_ALARM
    rates = [drawn["acceptance_rate"].mean() for _, drawn in (right, wrong)]
    assert rates[1] < rates[0] - 0.05


# NUTS while it learns


def learned_alarm(here, halvings):
    """After 20 of 40 iterations, when the step size changes little, and just before the window ends.

    While it changes much the law moves a little, whatever the coordinates: chains that begin a trajectory later have
    another step size, and these have longer trajectories behind them.
    """
    chains = FEW if halvings else SOME
    learner, rng = LearningNuts(density(), iterations=40, halvings=halvings, max_depth=3), generator(1)
    x = TARGET.draws(chains, rng)
    assert TARGET.alarm(x) > 1e-3
    _, drawn = learner.advance(learner.init(x, here, rng, 0.6), rng, 36)
    return min(TARGET.alarm(drawn["position"][row]) for row in (20, 35))


@pytest.mark.parametrize("halvings", [0, 14])
def test_the_law_stands_still_while_nuts_learns(halvings):
    here = layered(True, LAYERS[:1]) if halvings else layered(True)
    assert learned_alarm(here, halvings) > FALSE_ALARM


def test_a_planted_bug_is_found_while_nuts_learns(monkeypatch):
    right = Coordinates.at
    monkeypatch.setattr(Coordinates, "at", lambda self, z: replace(here := right(self, z), log_det=-here.log_det))
    assert learned_alarm(layered(True), 0) < FALSE_ALARM


def unfolded_gaussian(x):
    """N(m, S) of y = M⁻¹(x): its log density and gradient, that of y drawn back to x by differences."""

    def value(x):
        y = unfolded(LAYERS, x)
        z = (y - CENTRE) @ np.linalg.inv(ROOT).T
        return -0.5 * np.sum(z**2, 1) - Coordinates(np.zeros(2), np.ones(2), LAYERS).log_det(y)

    h = 1e-5
    grad = np.stack([(value(x + h * e) - value(x - h * e)) / (2 * h) for e in np.eye(2)], 1)
    return value(x), grad


CENTRE, ROOT = np.array([0.4, -0.3]), np.array([[0.7, 0.0], [0.6, 0.5]])


@both
@pytest.mark.parametrize("learner", ["warm-up", "nuts"])
def test_the_gaussian_of_y_is_learned(learner, dense):
    """Where y is a Gaussian: its covariance, or standard deviations, to 15 %; and split HMC accepts nearly all."""
    rng, root = generator(2), ROOT if dense else np.diag(np.sqrt(np.sum(ROOT**2, 1)))
    here = Coordinates(np.zeros(2), np.eye(2) if dense else np.ones(2), LAYERS)
    x = Coordinates(CENTRE, ROOT, LAYERS).x(rng.standard_normal((32, 2)))
    if learner == "nuts":
        nuts = LearningNuts(Rows(2, unfolded_gaussian), iterations=150)
        state, _ = nuts.advance(nuts.init(x, here, rng), rng, 150)
        learned, x = nuts.learned(state)[0], nuts.positions(state)
    else:
        warmup = Warmup(Rows(2, unfolded_gaussian), 250)
        state, _ = warmup.advance(warmup.init(x, here, rng), rng, 250)
        assert warmup.settled(state)
        learned = Coordinates.of(state)
        x = learned.x(state["chains.z"])
    assert len(learned.layers) == 2
    assert learned.dense == dense
    np.testing.assert_allclose(learned.mean, CENTRE, atol=0.15)
    if learner == "nuts" or dense:  # standard deviations of warm-up are those of the geometric mean
        widths = learned.factor if dense else np.diag(learned.factor)
        np.testing.assert_allclose(np.linalg.svd(np.linalg.solve(root, widths))[1], 1, atol=0.15)
    if dense:
        move = SplitHMC(Rows(2, unfolded_gaussian), learned, 0.5)
        _, drawn = move.advance(move.init(x, rng), rng, 20)
        assert drawn["acceptance_rate"].mean() > 0.97


# Records and pieces


@both
@each
def test_what_is_recorded_agrees(make, dense):
    rng, move = generator(3), make(layered(dense))
    _, drawn = move.advance(move.init(TARGET.draws(50, rng), rng), rng, 24)
    x = drawn["position"]
    np.testing.assert_allclose(drawn["lp"].ravel(), density().value(x.reshape(-1, 2)), rtol=1e-9, atol=1e-9)
    moved = np.abs(x[1:] - x[:-1]).max(2) > 1e-12  # x of the same z may differ in its last bit, by the number of rows
    np.testing.assert_array_equal(moved, drawn["accepted"][1:])


def learning(here):
    return LearningNuts(density(), iterations=24, halvings=6)


def warming_up(here):
    return Warmup(density(), 60)


BLOCKS = {split_hmc: 1, nuts: 1, halved: 1, independence: 8}


@both
@pytest.mark.parametrize("make", BLOCKS)
def test_pieces_give_the_same_bits(make, dense):
    """10 iterations and 7 more are 17, or blocks of so many."""
    rng, move, block = generator(4), make(layered(dense)), BLOCKS[make]
    begun = move.init(TARGET.draws(7, rng), rng)
    whole, all_draws = in_pieces(move, begun, 5, [17 * block])
    for lengths in ([10, 7], [1] * 17, [5, 0, 12]):
        state, drawn = in_pieces(move, begun, 5, [length * block for length in lengths])
        assert_same(state, whole)
        assert_same(drawn, all_draws)
    assert all_draws["position"].shape == (17 * block, 7, 2)
    np.testing.assert_array_equal(move.positions(whole), all_draws["position"][-1])


@both
@pytest.mark.parametrize("make", [learning, warming_up])
def test_learning_in_pieces_gives_the_same_bits(make, dense):
    rng, here = generator(6), layered(dense)
    learner = make(here)
    begun = learner.init(TARGET.draws(6, rng), here, rng)
    whole, all_draws = in_pieces(learner, begun, 7, [60])
    t = len(all_draws["lp"])
    for lengths in ([10, 7, t - 17], [1] * t):
        state, drawn = in_pieces(learner, begun, 7, lengths)
        assert_same(state, whole)
        assert_same(drawn, all_draws)
    assert len(Coordinates.of(whole).layers) == 2
    lp = density().value(all_draws["position"].reshape(-1, 2))
    np.testing.assert_allclose(all_draws["lp"].ravel(), lp, rtol=1e-9, atol=1e-9)
