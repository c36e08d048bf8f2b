"""With θ frozen, a sampler leaves the target's law unchanged.

Chains start from exact draws and make 20 iterations (`lab.verify.invariance`, which does the same for defaults and
after warm-ups). Threshold 4.75 on ten moments of some 50 samplers and moves: a false alarm in 60 · 10 · 2·10⁻⁶ = 1 in
800 suites. With 100,000 chains a moment that drifts by 2 % of its change's standard deviation is found with a chance of
95 % (4.75 + 1.65 = 6.4 standard errors of 0.32 %).
"""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import gadabout as gad
from gadabout.ensemble.choose import Move
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.mixture import Mixture
from gadabout.ensemble.noncentring import Noncentring, packed
from gadabout.lab.verify import plants
from gadabout.lab.verify.exact import FUNNEL, SKEW, Exact
from gadabout.lab.verify.invariance import drift, drift_of_move
from gadabout.lab.verify.samplers import frozen
from gadabout.proposals import Hamiltonian, Langevin, RandomWalk
from tests.laws import law_target
from tests.laws.registry import SAMPLERS, Shrinking, entry, every

CHAINS = 100_000
ITERATIONS = 20
THRESHOLD = 4.75


MEAN, VARIANCE = np.array([0, 0.5, np.euler_gamma]), np.array([1, 1.86, np.pi**2 / 6])
LAW = Exact("curved", law_target.log_density, law_target.draws, MEAN, np.sqrt(VARIANCE))


def largest_z(sampler):
    found = drift(sampler.kernel(3), LAW, CHAINS, ITERATIONS)
    assert 0.1 < found.acceptance < 0.995, "moves this small or large would hide a wrong acceptance ratio"
    return found.largest


@every(SAMPLERS)
def test_law_stands_still(name):
    assert largest_z(entry(name)) < THRESHOLD


def largest_z_of(move, law=LAW):
    """The same of a move of the default, of which chains in NumPy are dearer."""
    chains, iterations = (20_000, 8) if "nuts" in move else (CHAINS, ITERATIONS)
    found = drift_of_move(frozen(move, law), law, chains, iterations)
    assert 0.1 < found.acceptance < 0.995
    return found.largest


NAMED = [move for move in Move if move is not Move.MIXTURE]
"""moves that need no mixture"""


@pytest.mark.parametrize("move", NAMED)
def test_law_stands_still_by_every_move_of_the_default(move):
    assert largest_z_of(move) < THRESHOLD


@pytest.mark.parametrize("move", [Move.NUTS, Move.NUTS_DIAGONAL])
def test_law_stands_still_where_steps_are_halved(move):
    assert largest_z_of(move, FUNNEL) < THRESHOLD


@pytest.mark.parametrize(
    ("plant", "move", "law"),
    [
        (plants.wrong_half_turn, Move.INDEPENDENCE, SKEW),
        (plants.wrong_half_turn, Move.INDEPENDENCE_OFTEN, SKEW),
        (plants.no_odds_of_halvings, Move.NUTS, FUNNEL),
        (plants.even_weights_of_a_tree, Move.NUTS, FUNNEL),
        (plants.no_last_kick, Move.SPLIT_HMC, LAW),
    ],
    ids=lambda value: getattr(value, "__name__", getattr(value, "name", str(value))),
)
def test_bugs_planted_in_moves_are_found(plant, move, law):
    with plant():
        assert largest_z_of(move, law) > THRESHOLD


def drift_by(handover, chains=CHAINS, iterations=ITERATIONS, law=LAW):
    found = drift_of_move(handover, law, chains, iterations)
    assert 0.1 < found.acceptance < 0.995
    return found.largest


def unfolding(move):
    """The handover of a move with two layers: x₁ and x₂ are scaled by the others, and placed by them."""
    layers = [
        Noncentring(*map(np.array, ([0], [1, 2], [0.1], [0.4, 0.5], [[-0.8], [0.1]], [[-0.2], [0.1]]))),
        Noncentring(*map(np.array, ([1], [2], [0.2], [0.1], [[0.1]], [[0.05]]))),
    ]
    return replace(frozen(move, LAW), mean=np.array([0.0, 0.1, 0.0]), layers=packed(layers))


@pytest.mark.parametrize("move", [Move.SPLIT_HMC, Move.INDEPENDENCE, Move.NUTS])
def test_law_stands_still_in_coordinates_with_layers(move):
    chains, iterations = (3_000, 3) if move is Move.NUTS else (CHAINS, 8)
    assert drift_by(unfolding(move), chains, iterations) < THRESHOLD


def from_mixture(weights):
    """The handover of proposals from two components, one of each half of the law, in proportion to some weights."""
    factors = np.stack([np.diag([0.8, 1.0, 1.2]), np.diag([0.9, 0.8, 1.3])])
    mixture = Mixture(np.array(weights), np.array([[-0.7, 1.0, 0.5], [0.8, -0.2, 0.6]]), factors, np.array([0, 1]))
    index = np.asarray(list(Move).index(Move.MIXTURE))
    return Handover(np.zeros((1, 3)), step_size=np.asarray(0.6), move=index, **mixture.arrays())


def test_law_stands_still_by_proposals_from_a_mixture():
    assert drift_by(from_mixture([0.5, 0.5])) < THRESHOLD


def test_bugs_planted_in_layers_and_mixtures_are_found(monkeypatch):
    """The log determinant has the wrong sign; the density of proposals has components of equal weights."""
    with monkeypatch.context() as patch:
        right = Coordinates.at
        patch.setattr(Coordinates, "at", lambda self, z: replace(here := right(self, z), log_det=-here.log_det))
        assert drift_by(unfolding(Move.SPLIT_HMC), iterations=4) > THRESHOLD
    monkeypatch.setattr(Mixture, "log_q", lambda self, x: logsumexp(self.parts(x) - np.log(self.weights), 1))
    assert drift_by(from_mixture([0.3, 0.7]), iterations=8) > THRESHOLD


class NoReverseDrift(Langevin):
    """Bug: the Hastings correction is left out."""

    def move(self, noise, here, target):
        return super().move(noise, here, target)[0], 0.0


class HalfCorrection(Langevin):
    """Bug: the Hastings correction is a little too small."""

    def move(self, noise, here, target):
        there, log_q = super().move(noise, here, target)
        return there, 0.9 * log_q


class OneSidedLeapfrog(Hamiltonian):
    """Bug: the momentum's last half step is forgotten."""

    def move(self, noise, here, target):
        there, _ = super().move(noise, here, target)
        p = (there.x - here.x) / self.step_size
        return there, 0.5 * (noise @ noise - p @ p)


class Narrowing(Shrinking):
    """Bug: an asymmetric proposal that claims to be symmetric."""

    def move(self, noise, here, target):
        return super().move(noise, here, target)[0], 0.0


class Deaf(RandomWalk):
    """Bug: a tenth of the log density's difference is lost."""

    def move(self, noise, here, target):
        there, _ = super().move(noise, here, target)
        return there, 0.1 * (here.logp - there.logp)


@pytest.mark.parametrize(
    "proposal",
    [
        NoReverseDrift(gad.factors.Diagonal(0.8 * jnp.ones(3))),
        HalfCorrection(gad.factors.Diagonal(0.8 * jnp.ones(3))),
        OneSidedLeapfrog(gad.factors.Diagonal(jnp.ones(3)), jnp.asarray(0.7), 1),
        Narrowing(jnp.asarray(0.4), jnp.asarray(-0.3)),
        Deaf(gad.factors.Diagonal(0.8 * jnp.ones(3))),
    ],
    ids=lambda proposal: type(proposal).__name__,
)
def test_planted_bugs_are_found(proposal):
    sampler = eqx.tree_at(
        lambda s: s.make_kernel,
        gad.rwm(),
        lambda n, learned: gad.kernels.Metropolis(proposal),
        is_leaf=lambda x: x is None,
    )
    assert largest_z(sampler) > THRESHOLD
