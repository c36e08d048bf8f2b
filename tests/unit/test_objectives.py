"""Objectives and estimators of Algorithm 1, and the proposals they are for: formulas, gradients, refusals."""

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import JumpDistance, LogAcceptance, LogRatio, Pathwise, ScoreFunction
from gadabout.factors import Cholesky, Diagonal, LowRank, multiplied_out
from gadabout.kernels import Metropolis, Transition
from gadabout.proposals import (
    CouplingFlow,
    Gaussian,
    Langevin,
    MultiscaleWalk,
    RandomWalk,
    ReparametrisedIndependent,
    Trajectory,
    coupling_flow,
    renew_cache,
)
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)
LOWER = jnp.tril(jax.random.normal(jax.random.key(3), (3, 3)) * 0.3) + 0.7 * jnp.eye(3)
CHOLESKY = Cholesky(LOWER)
LOW_RANK = LowRank(jnp.asarray([0.5, 0.8, 1.1]), *(0.3 * jax.random.normal(jax.random.key(k), (3, 2)) for k in (4, 5)))
PLACE = jnp.asarray([0.4, -0.3, 0.9])


def leaves(gradient):
    return jax.tree.leaves(multiplied_out(gradient))


def parts(proposal, target=TARGET):
    here = renew_cache(proposal, target.at(PLACE, proposal.order))
    return proposal.noise(jax.random.key(8), here), here, target


def close(ours, theirs, **tolerance):
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, **({"rtol": 1e-10, "atol": 1e-12} | tolerance))


@pytest.mark.parametrize(
    "factor", [CHOLESKY, Diagonal(jnp.asarray([0.5, 0.8, 1.1])), LOW_RANK], ids=lambda f: type(f).__name__
)
@pytest.mark.parametrize("make", [RandomWalk, Langevin])
def test_where_y_goes_is_differentiated_as_automatic_differentiation_does(make, factor):
    proposal, direction = make(factor), jnp.asarray([0.7, -1.1, 0.2])
    ours = proposal.move_and_pullback(*parts(proposal))[2]
    theirs = gad.AbstractReparametrised.move_and_pullback(proposal, *parts(proposal))[2]
    close(ours(1.7, direction), theirs(1.7, direction))
    close(ours(0.0, direction), theirs(0.0, direction))


@pytest.mark.parametrize("factor", [CHOLESKY, LOW_RANK], ids=lambda f: type(f).__name__)
def test_a_trajectory_of_one_step_is_the_langevin_proposal(factor):
    one, langevin = Trajectory(factor, 1, 0.0), Langevin(factor)
    noise, here, target = parts(langevin)
    there, log_q, pull = one.move_and_pullback((noise, jnp.asarray(1.0)), *parts(one)[1:])
    expected, expected_q, expected_pull = langevin.move_and_pullback(noise, here, target)
    np.testing.assert_allclose(there.x, expected.x, rtol=1e-12)
    np.testing.assert_allclose(log_q, expected_q, rtol=1e-10)
    close(pull(1.3), expected_pull(1.3))
    close(pull(1.3, PLACE), expected_pull(1.3, PLACE))


def test_a_trajectorys_gradient_holds_those_of_the_target():
    """Written out: with ∇ log π as it was at each step, y and the last momentum are made of products with L alone."""
    proposal, direction = Trajectory(CHOLESKY, 3, 0.3), jnp.asarray([0.7, -1.1, 0.2])
    (momentum, h), here, target = parts(proposal)
    places, x, p = [here.x], here.x, momentum
    slope = jax.grad(law_target.log_density)
    for _ in range(3):
        p = p + 0.5 * h * LOWER.T @ slope(x)
        x = x + h * LOWER @ p
        p = p + 0.5 * h * LOWER.T @ slope(x)
        places.append(x)
    held = [slope(place) for place in places]

    def value(L):
        x, p = here.x, momentum
        for before, after in pairwise(held):
            p = p + 0.5 * h * L.T @ before
            x = x + h * L @ p
            p = p + 0.5 * h * L.T @ after
        return 1.3 * (held[-1] @ x - 0.5 * p @ p) + direction @ x

    there, log_q, pull = proposal.move_and_pullback((momentum, h), here, target)
    np.testing.assert_allclose(there.x, x, rtol=1e-12)
    np.testing.assert_allclose(log_q, 0.5 * (momentum @ momentum - p @ p), rtol=1e-10)
    np.testing.assert_allclose(pull(1.3, direction).factor.matrix, jnp.tril(jax.grad(value)(LOWER)), rtol=1e-9)


def test_a_trajectory_counts_its_gradients():
    assert Trajectory(CHOLESKY, 5).gradient_evaluations(True) == 5


def test_values_of_the_objectives():
    """Written out: min{0, log r}, log r, min{1, r} times the mean squared jump, minus its reciprocal."""
    jump = jnp.asarray([1.0, 2.0, 2.0])
    for log_ratio, r in ((np.log(0.25), 0.25), (0.5, 1.0)):
        assert LogAcceptance()(log_ratio, jump) == pytest.approx(min(0, log_ratio))
        assert LogRatio()(log_ratio, jump) == pytest.approx(log_ratio)
        assert JumpDistance()(log_ratio, jump) == pytest.approx(3 * r)
        scaled = JumpDistance(jnp.asarray([1.0, 2.0, 4.0]), reciprocal=True)(log_ratio, jump)
        assert scaled == pytest.approx(0.75 * r - 1 / (0.75 * r))


class Widening(gad.AbstractReparametrised):
    """An asymmetric proposal with both: y = x + w(x) L ε, wider on the right."""

    factor: Cholesky

    def width(self, x):
        return jnp.exp(0.5 * jnp.tanh(x[0]))

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def move(self, noise, here, target):
        there = target.at(here.x + self.width(here.x) * self.factor.mul(noise))
        return there, self.log_q(here, there) - self.log_q(there, here)

    def log_q(self, there, here):
        z = self.factor.solve(there.x - here.x) / self.width(here.x)
        return -0.5 * z @ z - z.size * jnp.log(self.width(here.x)) - self.factor.log_det()

    def entropy(self, here):
        return self.factor.log_det() + here.x.size * jnp.log(self.width(here.x))


class NoSlope(ScoreFunction):
    """Bug: the derivative of the log-ratio in θ at a given y is forgotten."""

    def __call__(self, objective, proposal, transition, beta, baseline):
        class Held(type(objective)):
            def __call__(self, log_ratio, jump):
                return super().__call__(jax.lax.stop_gradient(log_ratio), jump)

        return super().__call__(Held(**vars(objective)), proposal, transition, beta, baseline)


class NoEntropy(ScoreFunction):
    """Bug: the entropy is left out of what the score is weighed by."""

    def __call__(self, objective, proposal, transition, beta, baseline):
        return super().__call__(objective, proposal, transition, 0.0 * beta, baseline)


def mean_gradient(estimator, objective, proposal, count=200_000):
    """Mean and standard error of the estimated gradient of J + β · entropy at one place, β = 0.7."""
    beta, kernel = jnp.asarray(0.7), Metropolis(proposal, learn=True)
    here = kernel.init(PLACE, TARGET)

    def one(key):
        after, info = kernel.step(key, here, TARGET)
        gradient = estimator(objective, proposal, Transition(here, after, info), beta, jnp.asarray(-1.0))[0]
        gradient = eqx.filter(multiplied_out(gradient), eqx.is_inexact_array)
        if objective.entropy and estimator.knows_entropy:
            own = jax.grad(lambda p: p.entropy(here))(proposal)
            gradient = jax.tree.map(lambda g, h: g + beta * h, gradient, own)
        return gradient.factor.matrix[jnp.tril_indices(3)]

    found = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), count))
    return found.mean(0), found.std(0) / np.sqrt(count)


def largest_difference(estimator, objective, proposal):
    ours, ours_se = mean_gradient(estimator, objective, proposal)
    theirs, theirs_se = mean_gradient(Pathwise(), objective, proposal)
    return float(np.max(np.abs(ours - theirs) / np.hypot(ours_se, theirs_se)))


OBJECTIVES = {"log-acceptance": LogAcceptance(), "log-ratio": LogRatio(), "jump": JumpDistance()}


@pytest.mark.parametrize("make", [RandomWalk, Widening])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_both_estimators_have_the_same_mean(name, make):
    """Six entries of 200,000 moves, within 4.75 standard errors: 36 figures, a false alarm in 14,000 suites."""
    assert largest_difference(ScoreFunction(), OBJECTIVES[name], make(Cholesky(0.5 * LOWER))) < 4.75


@pytest.mark.parametrize("wrong", [NoSlope, NoEntropy])
def test_planted_errors_of_the_score_function_are_found(wrong):
    assert largest_difference(wrong(), LogAcceptance(), Widening(Cholesky(0.5 * LOWER))) > 10


def test_the_log_ratio_of_a_gaussian_that_fits_has_no_gradient():
    """π = q = N(m, L Lᵀ): log r is 0 whatever is proposed, and its gradient's mean too."""
    inverse = jnp.linalg.inv(LOWER)
    target = gad.Target(lambda x: -0.5 * jnp.sum((inverse @ (x - PLACE)) ** 2))
    proposal = ReparametrisedIndependent(Gaussian(PLACE, CHOLESKY))

    def one(key):
        x_key, noise_key = jax.random.split(key)
        here = target.at(PLACE + LOWER @ jax.random.normal(x_key, (3,)))
        there, log_q, pull = proposal.move_and_pullback(
            proposal.noise(noise_key, here), renew_cache(proposal, here), target
        )
        log_ratio = there.logp - here.logp + log_q
        return log_ratio, jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(pull(1.0))])

    ratios, gradients = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(2), 100_000))
    np.testing.assert_allclose(ratios, 0, atol=1e-10)
    errors = np.abs(gradients.mean(0)) / np.maximum(gradients.std(0), 1e-12) * np.sqrt(100_000)
    assert errors.max() < 4.75


def some_flow(n=3):
    """A flow whose couplings all do something."""
    flow = coupling_flow(
        jax.random.key(6), PLACE[:n], Diagonal(jnp.asarray([0.5, 0.8, 1.1])[:n]), num_couplings=3, width=8
    )
    keys = iter(jax.random.split(jax.random.key(7), 100))
    bent = lambda leaf: leaf + 0.3 * jax.random.normal(next(keys), leaf.shape)
    return CouplingFlow(flow.mean, flow.factor, jax.tree.map(bent, flow.networks))


@pytest.mark.parametrize("n", [2, 3])
def test_a_flow_gives_the_density_of_its_draws(n):
    flow = some_flow(n)
    noise = flow.noise(jax.random.key(9))
    x, log_q = flow.draw_with_log_density(noise)
    np.testing.assert_allclose(flow.log_density(x), log_q, rtol=1e-10)
    change = np.linalg.slogdet(jax.jacfwd(flow.draw)(noise))[1]
    np.testing.assert_allclose(log_q, -0.5 * noise @ noise - change, rtol=1e-10)


def test_a_flow_begins_as_its_gaussian():
    flow = coupling_flow(jax.random.key(6), PLACE, CHOLESKY)
    np.testing.assert_allclose(flow.log_density(0.3 * PLACE), Gaussian(PLACE, CHOLESKY).log_density(0.3 * PLACE))


def test_the_density_of_a_walk_at_several_scales_is_that_of_its_moves():
    """In one coordinate its integral is √(2π), and the chance of a small move is what moves show (4.75 errors)."""
    walk = MultiscaleWalk(Cholesky(jnp.asarray([[0.6]])), jnp.asarray([0.3, 0.0, -0.4]))
    target = gad.Target(lambda x: -0.5 * jnp.sum(x**2))
    here = target.at(jnp.asarray([0.2]))
    y = jnp.concatenate([-jnp.geomspace(60.0, 1e-4, 40_001), jnp.geomspace(1e-4, 60.0, 40_001)]) + 0.2
    q = jnp.exp(jax.vmap(lambda y: walk.log_q(target.at(y[None]), here))(y))
    assert jnp.trapezoid(q, y) == pytest.approx(np.sqrt(2 * np.pi), rel=1e-3)
    near = np.abs(y - 0.2) < 0.3
    share = float(jnp.trapezoid(jnp.where(near, q, 0), y)) / np.sqrt(2 * np.pi)
    keys = jax.random.split(jax.random.key(1), 100_000)
    moves = jax.vmap(lambda key: walk.move(walk.noise(key, here), here, target)[0].x[0] - 0.2)(keys)
    assert abs(float(np.mean(np.abs(moves) < 0.3)) - share) < 4.75 * np.sqrt(share * (1 - share) / 100_000) + 1e-4


WALK = MultiscaleWalk(Cholesky(jnp.eye(2)), jnp.zeros(3))
FLOW = ReparametrisedIndependent(coupling_flow(jax.random.key(0), jnp.zeros(2), width=4))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: gad.gad(WALK, estimator=Pathwise()),
            TypeError,
            ["Pathwise", "AbstractReparametrised", "MultiscaleWalk"],
        ),
        (lambda: gad.gad(FLOW, estimator=ScoreFunction()), TypeError, ["ScoreFunction", "log_q", "Independent"]),
        (lambda: gad.gad(WALK, estimator="score"), TypeError, ["estimator", "score", "ScoreFunction()"]),
        (lambda: gad.gad(WALK, objective="esjd"), TypeError, ["objective", "esjd", "JumpDistance()"]),
        (lambda: gad.gad(gad.proposals.Barker(CHOLESKY)), TypeError, ["log_q", "AbstractReparametrised", "Barker"]),
        (lambda: MultiscaleWalk(CHOLESKY, jnp.zeros(2)), ValueError, ["logits", "3 scales", "got 2"]),
        (lambda: MultiscaleWalk(CHOLESKY, jnp.zeros(2), (1.0, 0.0)), ValueError, ["scales", "positive"]),
        (lambda: Trajectory(CHOLESKY, 0), ValueError, ["num_steps", "0"]),
        (lambda: Trajectory(CHOLESKY, 2, 1.0), ValueError, ["jitter", "1.0", "[0, 1)"]),
        (lambda: coupling_flow(jax.random.key(0), jnp.zeros(1)), ValueError, ["two coordinates", "Gaussian"]),
        (lambda: FLOW.entropy(None), NotImplementedError, ["CouplingFlow", "LogRatio()"]),
    ],
)
def test_refusals_name_the_argument_and_the_remedy(make, error, words):
    with pytest.raises(error) as raised:
        make()
    assert all(word in str(raised.value) for word in words)
