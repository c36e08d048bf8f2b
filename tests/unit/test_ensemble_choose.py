"""The choice of the move: what a trial says of its draws, the pilot run, the decision, and what is handed over."""

import numpy as np
import pytest

from gadabout.diagnostics import independence_efficiency
from gadabout.ensemble import choose, made, worth
from gadabout.ensemble.choose import Move
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.from_mixture import FromMixture
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.independence import Independence
from gadabout.ensemble.layering import Layering
from gadabout.ensemble.mixture import Mixture
from gadabout.ensemble.noncentring import Noncentring
from gadabout.ensemble.nuts import Nuts
from gadabout.ensemble.pilot import Pilot
from gadabout.ensemble.pilot_runs import PilotRuns
from gadabout.ensemble.split_hmc import SplitHMC, squares
from gadabout.ensemble.stages import kind_of, made_move, move_of, nuts_chosen
from gadabout.ensemble.tails import SCALES, fitted_weights, log_radial_density
from gadabout.ensemble.trial import (
    Trial,
    best_independence,
    correlated,
    diagnose,
    fit_independence,
    longest_stays,
    score,
    slow_chains,
    stretched,
)
from tests.exact_draws import Curved, Rows, gaussian, generator

CERTAIN = {"doubt": [], "efficiency": 0.5, "gradients": 4.0}
"""evidence that says nothing of independence proposals"""
NAMED = [move for move in Move if move is not Move.MIXTURE]
"""moves that need no mixture"""
GOOD = CERTAIN | {"pareto_k": 0.1, "independence_efficiency": 0.8}


def standard(n):
    return Coordinates(np.zeros(n), np.ones(n))


def trial_of(draws, rate=0.8, coordinates=None, **stats):
    """A trial of a standard Gaussian."""
    t, chains, n = draws.shape
    stats |= {"lp": -0.5 * (draws**2).sum(-1), "acceptance_rate": np.full((t, chains), rate)}
    return Trial(draws, stats, standard(n) if coordinates is None else coordinates)


def independent(t=100, chains=16, n=3, seed=0):
    return generator(seed).standard_normal((t, chains, n))


# The decision


@pytest.mark.parametrize(
    ("evidence", "move"),
    [
        (CERTAIN, Move.SPLIT_HMC),
        (CERTAIN | {"doubt": ["R-hat is 1.20"]}, Move.NUTS),
        (GOOD | {"doubt": ["R-hat is 1.20"]}, Move.NUTS),
        (GOOD, Move.INDEPENDENCE),
        (GOOD | {"pareto_k": 0.7}, Move.SPLIT_HMC),
        (GOOD | {"pareto_k": 0.69}, Move.INDEPENDENCE),
        (GOOD | {"pareto_k": 0.5, "diagonal": True}, Move.SPLIT_HMC),
        (GOOD | {"pareto_k": 0.49, "diagonal": True}, Move.INDEPENDENCE),
        (GOOD | {"independence_efficiency": 0.05, "gradients": 1_000.0}, Move.SPLIT_HMC),
        (GOOD | {"independence_efficiency": 0.1, "gradients": 1.0}, Move.SPLIT_HMC),
    ],
)
def test_the_move_follows_from_the_evidence(evidence, move):
    assert choose.decide(evidence) is move


@pytest.mark.parametrize(
    ("move", "evidence", "kind"),
    [
        (Move.NUTS, {"correlated": 11.0}, Move.NUTS),
        (Move.NUTS, {"correlated": 10.0}, Move.NUTS_DIAGONAL),
        (Move.SPLIT_HMC, {}, Move.SPLIT_HMC),
        (Move.INDEPENDENCE, {"diagonal": True}, Move.INDEPENDENCE_DIAGONAL),
        (Move.INDEPENDENCE, {"diagonal": True, "independence_efficiency": 0.44}, Move.INDEPENDENCE_OFTEN_DIAGONAL),
        (Move.INDEPENDENCE, {"independence_efficiency": 0.45, "pareto_k": 0.49}, Move.INDEPENDENCE),
        (Move.INDEPENDENCE, {"independence_efficiency": 0.44, "pareto_k": 0.1}, Move.INDEPENDENCE_OFTEN),
        (Move.INDEPENDENCE, {"independence_efficiency": 0.9, "pareto_k": 0.5}, Move.INDEPENDENCE_OFTEN),
        (Move.INDEPENDENCE_OFTEN, {}, Move.INDEPENDENCE_OFTEN),
    ],
)
def test_the_kind_of_a_move_follows_from_the_evidence(move, evidence, kind):
    assert choose.one_of_kind(move, evidence) is kind


def test_independence_proposals_are_tried_where_importance_weights_have_a_variance():
    poor = {"doubt": [], "pareto_k": 0.49, "independence_efficiency": 0.01}
    assert choose.covered(poor)
    assert not choose.covered(poor | {"pareto_k": 0.5})
    slight = {"doubt": [], "pareto_k": 0.53, "pareto_k_error": 0.035, "independence_efficiency": 0.011}
    assert choose.covered(slight)
    assert not choose.covered(slight | {"pareto_k": 0.54})
    assert not choose.covered(slight | {"independence_efficiency": 0.01})
    assert not choose.covered({"doubt": []})  # of draws that no proposals were fitted to


def test_in_doubt_independence_proposals_are_tried_where_they_are_worth_enough():
    doubt = {"doubt": ["R-hat is 1.20"], "pareto_k": 0.1, "independence_efficiency": 0.06}
    assert choose.covered(doubt)
    assert not choose.covered(doubt | {"independence_efficiency": 0.05})


def test_more_iterations_are_wanted_where_there_is_doubt_or_the_tail_is_near_its_bound():
    most = (400, 800)
    wanted = lambda evidence, made: choose.wanted(evidence, (made, 16, 3), most)
    doubt = CERTAIN | {"doubt": ["R-hat is 1.20"]}
    assert [wanted(doubt, made) for made in (50, 500, 800, 900)] == [50, 300, 0, 0]
    near = GOOD | {"pareto_k": 0.68, "pareto_k_error": 0.011}
    assert [wanted(near, made) for made in (50, 300, 400, 500)] == [50, 100, 0, 0]
    assert wanted(GOOD, 50) == 0
    assert wanted(CERTAIN, 50) == 0
    assert wanted(near | {"independence_efficiency": 0.01}, 50) == 0  # not taken, whatever the tail


def test_the_choice_is_said_in_one_line():
    said = lambda move, evidence, named=False: choose.why(evidence | {"move": str(move), "named": named})
    assert said(Move.NUTS, GOOD, named=True) == "NUTS with halved steps, as named"
    doubt = CERTAIN | {"doubt": ["this", "that"]}
    assert said(Move.NUTS, doubt) == "NUTS with halved steps, because with split HMC this and that"
    assert said(Move.SPLIT_HMC, CERTAIN) == "split HMC: a move of split HMC is worth 0.50 draws, in 4.0 gradients"
    assert "an independence proposal 0.80 (Pareto k̂ 0.10)" in said(Move.INDEPENDENCE, GOOD)
    modes = CERTAIN | {"modes": [{}, {}, {}], "mixture_efficiency": 0.5, "doubt": ["R-hat is 1.20"]}
    told = "proposals from a mixture of 3, since there are several modes: a proposal is worth 0.50 draws"
    assert said(Move.MIXTURE, modes) == told
    assert said(Move.NUTS, modes) == "NUTS with halved steps, because with split HMC R-hat is 1.20"
    assert choose.WORDS.keys() == set(Move)


def test_other_coordinates_are_tried_where_a_gaussian_fits_badly():
    far = choose.far_from_gaussian
    assert [far(each) for each in (GOOD, GOOD | {"doubt": ["this"]}, CERTAIN)] == [False, True, True]
    assert [far(GOOD | {"independence_efficiency": share}) for share in (0.44, 0.45)] == [True, False]


# The trial


def test_the_score_is_that_of_the_worst_coordinate_and_of_squares():
    """Autoregressions of 64,000 draws: within 0.03, eight standard errors of the first autocorrelation."""
    rng, rho = generator(1), np.array([0.0, 0.5])
    x = rng.standard_normal((4_000, 16, 2))
    for i in range(1, len(x)):
        x[i] = rho * x[i - 1] + np.sqrt(1 - rho**2) * x[i]
    assert score(x) == pytest.approx(1 / 3, abs=0.03)
    assert score(x[..., :1]) == pytest.approx(1, abs=0.03)
    signs = rng.choice([-1.0, 1.0], x.shape[:2])[..., None]
    assert score(signs * x[..., 1:]) == pytest.approx((1 - 0.25) / (1 + 0.25), abs=0.05)  # squares alone correlate
    assert score(np.zeros((10, 2, 1))) == 0


def test_good_draws_leave_no_doubt():
    found = diagnose(trial_of(independent(), gradient_evaluations=np.full((100, 16), 3)))
    assert found["doubt"] == []
    assert found["acceptance"] == pytest.approx(0.8)
    assert found["gradients"] == 3
    assert found["rhat"] < 1.05
    assert "rhat" not in diagnose(trial_of(independent()), rhat=False)


def test_each_reason_for_doubt_is_found():
    draws = independent()
    diverging = np.zeros((100, 16), bool)
    diverging[:5, 0] = True
    assert diagnose(trial_of(draws, diverging=diverging))["doubt"] == ["0.3% of trajectories diverge"]
    diverging[4, 0] = False
    assert diagnose(trial_of(draws, diverging=diverging))["doubt"] == []
    slow = trial_of(draws)
    slow.stats["acceptance_rate"][:, 5] = 0.3
    assert diagnose(slow)["doubt"] == ["chain 5 accepts 30%, the median chain 80%"]
    np.testing.assert_array_equal(np.flatnonzero(slow_chains(slow.stats)), [5])
    still = draws.copy()
    still[20:60, 7] = still[20, 7]
    assert longest_stays(still, {}).tolist() == [0] * 7 + [39] + [0] * 8
    assert diagnose(trial_of(still))["doubt"] == ["chain 7 stands still for 39 iterations"]
    accepted = np.ones((100, 16), bool)
    accepted[31:43, 2] = False
    assert longest_stays(draws, {"accepted": accepted}).tolist() == [0] * 2 + [12] + [0] * 13  # whatever rounding says
    apart = draws.copy()
    apart[:, :4] += 2
    (reason,) = diagnose(trial_of(apart))["doubt"]
    assert reason.startswith("R-hat is 1.")


def test_the_stretch_is_that_of_the_widest_and_the_narrowest_direction():
    draws = independent(400)
    everyone = np.ones(16, bool)
    for dense in (True, False):
        for factor in (1.0, 2.0, 0.5):
            width = np.array([1.0, factor, 1.0])
            here = Coordinates(np.zeros(3), np.diag(1 / width) if dense else 1 / width)
            found = stretched(trial_of(draws, coordinates=here), everyone)
            assert found == pytest.approx(abs(np.log(factor)), abs=0.1)
    one_wide = draws.copy()
    one_wide[:, 0] *= 100
    assert stretched(trial_of(one_wide), everyone) > 1
    assert stretched(trial_of(one_wide), np.arange(16) > 0) < 0.1
    assert stretched(trial_of(draws[:2]), everyone) == 0  # too few draws to say


def test_correlations_make_trajectories_longer():
    draws = independent(1_000, n=2)
    assert correlated(draws * [1.0, 1e6]) == pytest.approx(1, abs=0.05)
    draws[..., 1] = draws[..., 0] + 0.01 * draws[..., 1]
    assert correlated(draws) == pytest.approx(200, rel=0.05)  # ρ = 1 − ε²/2, (1 + ρ)/(1 − ρ) = 4/ε²
    assert correlated(np.zeros((5, 2, 3))) > 1e7


def test_independence_proposals_are_fitted_to_draws():
    draws = independent(200)
    z, lp = draws.reshape(-1, 3), -0.5 * (draws**2).sum(-1).ravel()
    found, evidence = fit_independence(z, lp, z)
    assert found["weights"].shape == SCALES.shape
    assert found["tails"].shape == (4, 3)
    assert evidence["bent"] == 0
    assert evidence["independence_acceptance"] > 0.85
    assert evidence["independence_efficiency"] > 0.8
    assert evidence["pareto_k"] < 0.5
    skewed = np.exp(0.4 * z)
    log_density = lambda x: (-0.5 * (np.log(x) / 0.4) ** 2 - np.log(x)).sum(-1)
    whitened = (skewed - skewed.mean(0)) / skewed.std(0)
    _, with_tails = fit_independence(whitened, log_density(skewed), skewed)
    assert with_tails["bent"] == 3
    radial = log_radial_density(squares(whitened), 3, fitted_weights(squares(whitened), 3))
    _, without = independence_efficiency(log_density(skewed) - radial, skewed)
    assert with_tails["independence_efficiency"] > 2 * without


def test_standard_deviations_are_taken_where_they_serve_and_coordinates_are_many():
    """40 coordinates, of which the first two correlate, or not."""
    n = 40
    for rho, diagonal in ((0.0, True), (0.99, False)):
        factor = np.eye(n)
        factor[1, :2] = rho, np.sqrt(1 - rho**2)
        z = independent(400, n=n)
        trial = Trial(z @ factor.T, {"lp": -0.5 * (z**2).sum(-1)}, Coordinates(np.zeros(n), factor))
        _, evidence = best_independence(trial)
        assert evidence["diagonal"] == diagonal
        assert evidence["independence_efficiency"] > 0.3
    few = Trial(z[..., :3], {"lp": -0.5 * (z[..., :3] ** 2).sum(-1)}, Coordinates(np.zeros(3), np.eye(3)))
    assert "diagonal" in best_independence(few)[1]


def test_trials_are_joined_in_time():
    draws = independent(30)
    first, second = trial_of(draws[:10]), trial_of(draws[10:])
    both = first.and_more(second.draws, second.stats)
    np.testing.assert_array_equal(both.draws, draws)
    assert {len(values) for values in both.stats.values()} == {30}
    np.testing.assert_array_equal(both.whitened, draws.reshape(-1, 3))


# The pilot run


def piloted(density, x, coordinates, step_size=1.5, move=None, seed=2, unfold=True):
    begun = Handover(x, coordinates.mean, coordinates.factor, np.asarray(step_size))
    return Pilot(PilotRuns(density, generator(seed), 0.8), unfold).choose(begun, move, {})


def test_the_pilot_run_chooses_independence_proposals_on_a_gaussian():
    handed, evidence = piloted(Rows(3, gaussian), independent(1)[0], Coordinates(np.zeros(3), np.eye(3)))
    assert move_of(handed) is Move.INDEPENDENCE
    assert not evidence["named"]
    assert evidence["move"] == "independence"
    assert evidence["why"].startswith("independence proposals: ")
    assert handed.weights is not None
    assert not nuts_chosen(handed)


def test_the_pilot_run_chooses_nuts_in_a_funnel(monkeypatch):
    """Without layers, and where a mixture is not to be had."""
    monkeypatch.setattr(made, "MOST_COORDINATES", 0)
    monkeypatch.setattr(worth, "MOST_SPENT", 10**6)
    target, rng = Curved(2.0, bend=0.0), generator(3)
    x = target.draws(16, rng)
    here = Coordinates(np.zeros(2), np.diag([1.0, 20.0]))
    handed, evidence = piloted(Rows(2, target.density), x, here, unfold=False)
    assert nuts_chosen(handed)
    assert evidence["doubt"]
    assert evidence["correlated"] >= 1
    assert "coordinates" not in evidence
    assert "modes" not in evidence


def test_nuts_is_given_up_where_it_takes_gradients_without_end(monkeypatch):
    monkeypatch.setattr(made, "MOST_COORDINATES", 0)
    monkeypatch.setattr(worth, "MOST_SPENT", 200)
    target, rng = Curved(2.0, bend=0.0), generator(3)
    density = Rows(2, target.density)
    here = Coordinates(np.zeros(2), np.diag([1.0, 20.0]))
    handed, evidence = piloted(density, target.draws(16, rng), here, unfold=False)
    assert evidence["worth"]["nuts"] == 0
    assert move_of(handed) is Move.SPLIT_HMC
    assert evidence["why"].startswith("split HMC, although ")
    assert density.gradients < 500_000


def funnel(x):
    """x₀ ~ N(0, 3²), the others N(0, e^{x₀})."""
    v, rest, n = x[:, 0], x[:, 1:], x.shape[1] - 1
    precision = np.exp(-v)
    square = np.sum(rest**2, 1) * precision
    grad = np.column_stack([-v / 9 - 0.5 * n + 0.5 * square, -rest * precision[:, None]])
    return -0.5 * v**2 / 9 - 0.5 * square - 0.5 * n * v, grad


def one_in_the_neck(rng):
    """Sixteen chains in the mouth of the funnel, but for one."""
    v = np.where(np.arange(16) == 7, -6.0, rng.uniform(2, 4, 16))
    x = np.column_stack([v, np.exp(v / 2)[:, None] * rng.standard_normal((16, 4))])
    return Handover(x, np.zeros(5), np.eye(5), np.asarray(1.0))


def test_a_slow_chain_is_led_out_of_a_neck_alone():
    """Gradients are evaluated of that chain then, and of no other."""

    class Counted(Rows):
        alone = 0

        def value_and_grad(self, x):
            self.alone += len(x) == 1
            return super().value_and_grad(x)

    rng, density = generator(3), Counted(5, funnel)
    _, evidence = Pilot(PilotRuns(density, rng, 0.8), unfold=False).choose(one_in_the_neck(rng), None, {})
    assert evidence["led_out"] == [7]
    assert density.alone > 100


def test_layers_are_looked_for_as_soon_as_a_chain_was_led_out():
    """Nothing is learned anew before, which saves half of the gradients."""
    begun, spent, evidence = one_in_the_neck(generator(3)), {}, {}
    for unfold in (True, False):
        density = Rows(5, funnel)
        pilot = Pilot(PilotRuns(density, generator(4), 0.8), unfold, names=["v", "a", "b", "c", "d"])
        _, evidence[unfold] = pilot.choose(begun, Move.SPLIT_HMC, {})
        spent[unfold] = density.gradients
    assert evidence[True]["led_out"] == evidence[False]["led_out"] == [7]
    assert "stretch" not in evidence[True]
    assert "stretch" in evidence[False]
    assert evidence[True]["coordinates"]
    assert spent[True] < 0.5 * spent[False]


class Dear(Nuts):
    """NUTS that takes ten gradients of each chain more an iteration."""

    def advance(self, state, rng, iterations):
        for _ in range(10 * iterations):
            self.density.value_and_grad(state["position"])
        return super().advance(state, rng, iterations)


def test_a_move_that_cannot_win_is_given_up():
    """After the iterations that show it, of 48; else all are made and the worth is that of the whole."""
    density, x = Rows(3, gaussian), independent(1)[0]
    begun = Handover(x, np.zeros(3), np.eye(3), np.asarray(1.0))
    runs, move = PilotRuns(density, generator(2), 0.8), Dear(density, begun.coordinates, 1.0)
    stayed, worth = runs.of_move(begun, move, 48, least=0.5)
    assert worth == 0
    np.testing.assert_array_equal(stayed.x, x)
    few = density.gradients
    _, worth = runs.of_move(begun, move, 48, least=1e-3)
    assert 1e-3 < worth < 0.1
    assert density.gradients - few > 3 * few


@pytest.mark.parametrize("unfold", [True, False])
def test_the_pilot_run_unfolds_a_funnel(unfold):
    rng = generator(3)
    begun = Handover(rng.standard_normal((16, 5)), np.zeros(5), np.eye(5), np.asarray(0.5))
    names = ["v", *(f"x[{i}]" for i in range(4))]
    handed, evidence = Pilot(PilotRuns(Rows(5, funnel), rng, 0.8), unfold=unfold, names=names).choose(
        begun, Move.SPLIT_HMC, {}
    )
    if not unfold:
        assert handed.layers is None
        assert not evidence.keys() & {"coordinates", "fisher_divergence"}
        return
    (layer,) = handed.coordinates.layers
    np.testing.assert_array_equal(layer.log_scales[:, layer.ancestors == 0], 0.5)
    assert evidence["coordinates"] == ["x is scaled by exp(0.5 v)"]
    before, after = evidence["fisher_divergence"]
    assert after < 0.1 * before
    assert evidence["settled"]
    assert not evidence["doubt"]
    state = made_move(Rows(5, funnel), handed).init(handed.x, rng)
    np.testing.assert_allclose(state["residual"], 0, atol=0.5)  # as good as Gaussian


@pytest.mark.parametrize("move", NAMED)
def test_a_move_that_is_named_is_taken(move):
    handed, evidence = piloted(Rows(3, gaussian), independent(1)[0], Coordinates(np.zeros(3), np.eye(3)), move=move)
    assert evidence["named"]
    assert evidence["why"].endswith(", as named")
    kinds = {Move.NUTS: {Move.NUTS, Move.NUTS_DIAGONAL}, Move.INDEPENDENCE: set(NAMED) - {Move.SPLIT_HMC}}
    assert move_of(handed) in kinds.get(move, {move})


def islands(x):
    """Two Gaussians of widths 1 and 2, twenty apart, with a quarter and three quarters of the mass."""
    n = x.shape[1]
    near, far = gaussian(x + 10.0), gaussian(x - 10.0, 2.0)
    parts = np.stack([near[0], far[0] - n * np.log(2.0) + np.log(3.0)])
    value = np.logaddexp.reduce(parts)
    share = np.exp(parts - value)[..., None]
    return value, share[0] * near[1] + share[1] * far[1]


@pytest.mark.parametrize("side", [np.arange(16) % 2, np.arange(16) // 8], ids=["every second", "the last half"])
def test_the_pilot_run_proposes_from_a_mixture_where_chains_do_not_mix(side):
    """Whichever chains stand in which mode; masses within five of their errors."""
    x = independent(1, n=3)[0] + np.where(side, 10.0, -10.0)[:, None]
    handed, evidence = piloted(Rows(3, islands), x, Coordinates(np.zeros(3), np.eye(3)))
    assert move_of(handed) is Move.MIXTURE
    assert not nuts_chosen(handed)
    assert (evidence["move"], evidence["named"]) == ("mixture", False)
    assert evidence["why"].startswith("proposals from a mixture of 2, since there are several modes: ")
    assert [mode["mass"] for mode in evidence["modes"]] == pytest.approx([0.75, 0.25], abs=0.05)
    for mode, mass in zip(evidence["modes"], (0.75, 0.25), strict=True):
        assert abs(mode["mass"] - mass) < 5 * mode["error"]
    assert handed.x.shape == (16, 3)
    assert 0.4 < (handed.x[:, 0] > 0).mean() < 1
    assert isinstance(made_move(Rows(3, islands), handed), FromMixture)


def test_layers_are_looked_for_in_draws_of_all_chains():
    draws = np.broadcast_to(np.arange(16.0)[:, None], (400, 16, 3))
    begun = Handover(draws[0], np.zeros(3), np.eye(3), np.asarray(1.5))
    sample = Layering(PilotRuns(Rows(3, gaussian), generator(2), 0.8), dense=True)._sample(begun, trial_of(draws))
    np.testing.assert_array_equal(np.unique(sample.y[:, 0]), np.arange(16))


UNGUARDED = pytest.mark.xfail(raises=RuntimeWarning, strict=True, reason="densities are evaluated outside errstate")


@UNGUARDED
@pytest.mark.parametrize("log_density", [funnel, islands])
def test_what_numpy_says_of_far_points_is_not_passed_on(log_density):
    """By a user's function in NumPy that overflows; the suite turns warnings into errors."""

    def overflowing(x):
        np.exp(1e3 * (1 + np.abs(x)))
        return log_density(x)

    rng, side = generator(3), np.where(np.arange(16) < 8, -10.0, 10.0)[:, None]
    x = rng.standard_normal((16, 5)) + (side if log_density is islands else 0.0)
    begun = Handover(x, np.zeros(5), np.eye(5), np.asarray(0.5))
    Pilot(PilotRuns(Rows(5, overflowing), rng, 0.8), names=list("vabcd")).choose(begun, None, {})


def test_no_mixture_is_fitted_for_a_move_that_is_named_or_a_second_time():
    x = independent(1, n=3)[0] + np.where(np.arange(16) % 2, 10.0, -10.0)[:, None]
    here = Coordinates(np.zeros(3), np.eye(3))
    handed, evidence = piloted(Rows(3, islands), x, here, move=Move.SPLIT_HMC)
    assert move_of(handed) is Move.SPLIT_HMC
    assert "modes" not in evidence
    begun = Handover(x, here.mean, here.factor, np.asarray(1.5))
    handed, evidence = Pilot(PilotRuns(Rows(3, islands), generator(2), 0.8)).choose(begun, None, {"modes": []})
    assert handed.mixture is None
    assert any(reason.startswith("R-hat is") for reason in evidence["doubt"])


def test_a_chain_without_mass_begins_anew_and_learning_too():
    """Two Gaussians far apart, of which one has e⁻³⁰ of the mass: its chain begins where another stands."""

    def two(x):
        far = x[:, 0] > 50
        centre = np.where(far, 100.0, 0.0)[:, None] * [1.0, 0.0]
        return -0.5 * ((x - centre) ** 2).sum(1) - 30.0 * far, centre - x

    x = independent(1, n=2)[0]
    x[3] += [100.0, 0.0]
    handed, evidence = piloted(Rows(2, two), x, Coordinates(np.zeros(2), np.eye(2)))
    assert evidence["started_anew"] == [3]
    assert evidence["distinct_starts"] == 15
    assert (handed.x[:, 0] < 50).all()
    assert not evidence["doubt"]


def test_the_length_of_a_pilot_run():
    assert [Pilot.usual_length((16, n)) for n in (1, 100, 150, 200, 10_000)] == [50, 50, 75, 100, 100]
    assert Pilot.usual_length((1_000, 5)) == 16
    assert Pilot.most((16, 5)) == (400, 400)
    assert Pilot.most((1_000, 5)) == (128, 400)
    assert Pilot.most((1_000, 50_000)) == (128, 128)  # memory


# The hand-over


def test_a_handover_is_made_of_arrays_and_back():
    handed = Handover(np.zeros((4, 2)), np.ones(2), np.eye(2), np.asarray(0.3), np.asarray(2))
    arrays = handed.arrays()
    assert list(arrays) == ["x", "mean", "factor", "step_size", "move"]
    again = Handover.of(arrays)
    assert again.weights is None
    assert again.tails is None
    np.testing.assert_array_equal(again.x, handed.x)
    assert again.coordinates.dense
    assert move_of(again) is Move.SPLIT_HMC


def test_an_unknown_name_in_a_handover_raises():
    with pytest.raises(TypeError, match="stepsize"):
        Handover.of({"x": np.zeros((4, 2)), "stepsize": np.asarray(0.3)})
    with pytest.raises(TypeError, match="x"):
        Handover.of({"mean": np.zeros(2)})


def test_layers_and_a_mixture_are_handed_over():
    rng = generator(4)
    layer = Noncentring(*map(np.array, ([0], [1, 2], [0.1], [0.2, 0.3], [[0.4], [0.5]], [[1.0], [2.0]])))
    mixture = Mixture(np.array([0.3, 0.7]), rng.standard_normal((2, 3)), np.stack([np.eye(3)] * 2), np.array([0, 1]))
    here = Coordinates(np.ones(3), 2 * np.eye(3), (layer,))
    handed = Handover(np.zeros((4, 3)), **here.arrays(), **mixture.arrays())
    again = Handover.of(handed.arrays())
    z = rng.standard_normal((5, 3))
    np.testing.assert_array_equal(again.coordinates.x(z), here.x(z))
    assert again.mixture is not None
    np.testing.assert_array_equal(again.mixture.log_q(z), mixture.log_q(z))
    np.testing.assert_array_equal(again.mixture.modes, [0, 1])
    assert Handover(np.zeros((4, 3))).mixture is None


def test_the_mixture_has_its_move():
    mixture = Mixture(np.array([0.3, 0.7]), np.zeros((2, 3)), np.stack([np.eye(3)] * 2), np.array([0, 1]))
    index = np.asarray(list(Move).index(Move.MIXTURE))
    handed = Handover(np.zeros((2, 3)), step_size=np.asarray(0.7), move=index, **mixture.arrays())
    assert move_of(handed) is Move.MIXTURE
    assert not nuts_chosen(handed)
    move = made_move(Rows(3, gaussian), handed)
    assert isinstance(move, FromMixture)
    assert (move.step_size, move.period) == (0.7, 8)


@pytest.mark.parametrize("name", NAMED)
def test_each_name_has_its_move(name):
    n, factor = 3, np.array([[1.0, 0, 0], [1.0, 1.0, 0], [0, 0, 2.0]])
    handed = Handover(
        np.zeros((2, n)), np.zeros(n), factor, np.asarray(0.7), np.asarray(list(Move).index(name)),
        np.full(len(SCALES), 1 / len(SCALES)), np.stack([np.zeros(n), np.ones(n), np.zeros(n), np.zeros(n)]),
    )  # fmt: skip
    assert move_of(handed) is name
    move = made_move(Rows(n, gaussian), handed)
    assert nuts_chosen(handed) == isinstance(move, Nuts)
    if isinstance(move, Nuts):
        assert name in (Move.NUTS, Move.NUTS_DIAGONAL)
        assert move.step_size == 0.7
        assert move.halvings > 0
    elif isinstance(move, SplitHMC):
        assert name is Move.SPLIT_HMC
        np.testing.assert_array_equal(move.coordinates.factor, factor)
    else:
        assert isinstance(move, Independence)
        assert move.period == (4 if "often" in name else 32)
        widths = np.array([1, np.sqrt(2), 2])
        diagonal = "diagonal" in name
        np.testing.assert_allclose(move.local.coordinates.factor, widths if diagonal else factor)


@pytest.mark.parametrize(
    ("n", "operations", "kind"),
    [
        (300, 0, "dense"),
        (301, 0, "diagonal"),
        (1_000, 1e6, "dense"),
        (1_001, 1e6, "diagonal"),
        (2_000, 1e9, "dense"),
        (2_001, 1e9, "diagonal"),
    ],
)
def test_the_kind_of_factor_follows_from_dimensions_and_operations(n, operations, kind):
    density = Rows(n, gaussian)
    density.operations = operations
    assert kind_of("auto", density) == kind
    assert kind_of("dense", density) == "dense"
    assert kind_of("diagonal", density) == "diagonal"
