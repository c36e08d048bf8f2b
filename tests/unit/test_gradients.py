"""The gradients of Algorithm 1: closed forms against automatic differentiation, exact against finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.algorithms import PAPER
from gadabout.factors import pooled_sum
from gadabout.proposals import AbstractReparametrised, renew_cache
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)
LOWER = jnp.tril(jax.random.normal(jax.random.key(3), (3, 3)) * 0.3) + 0.7 * jnp.eye(3)
FACTORS = {
    "dense": gad.factors.Cholesky(LOWER),
    "diagonal": gad.factors.Diagonal(jnp.asarray([0.5, 0.8, 1.1])),
    "scaled dense": gad.factors.Scaled(jnp.asarray(0.6**0.5), gad.factors.Cholesky(LOWER)),
    "scaled diagonal": gad.factors.Scaled(jnp.asarray(0.6**0.5), gad.factors.Diagonal(jnp.asarray([0.5, 0.8, 1.1]))),
}
every_factor = pytest.mark.parametrize("kind", FACTORS)


def points(proposal, seed, order):
    x_key, noise_key = jax.random.split(jax.random.key(seed))
    here = renew_cache(proposal, TARGET.at(0.7 * jax.random.normal(x_key, (3,)), order))
    return here, proposal.noise(noise_key, here)


def leaves(gradient):
    """The gradient of one chain as plain arrays, outer products multiplied out."""
    return jax.tree.leaves(pooled_sum(jax.tree.map(lambda leaf: leaf[None], gradient)))


@every_factor
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [gad.proposals.RandomWalk, gad.proposals.Langevin])
def test_closed_form_equals_automatic_differentiation(make, seed, kind):
    proposal = make(FACTORS[kind])
    here, noise = points(proposal, seed, proposal.order)
    there, log_q, pullback = proposal.move_and_pullback(noise, here, TARGET)
    there_ad, log_q_ad, pullback_ad = AbstractReparametrised.move_and_pullback(proposal, noise, here, TARGET)
    np.testing.assert_allclose(there.x, there_ad.x, rtol=1e-14)
    np.testing.assert_allclose(log_q, log_q_ad, rtol=1e-12, atol=1e-14)
    for ours, theirs in zip(leaves(pullback(1.7)), leaves(pullback_ad(1.7)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def log_ratio(proposal, noise, here, held_gradient=None):
    """log π(y) − log π(x) + log q(x|y) − log q(y|x), written out from the densities; ∇ log π(y) held if given."""
    L = proposal.factor.matrix
    covariance = L @ L.T
    gradient = jax.grad(law_target.log_density)

    def log_q(y, x, g):
        d = y - x - 0.5 * covariance @ g
        return -0.5 * d @ jnp.linalg.solve(covariance, d)

    y = here.x + 0.5 * covariance @ here.grad + L @ noise
    g_y = gradient(y) if held_gradient is None else held_gradient
    return law_target.log_density(y) - here.logp + log_q(here.x, y, g_y) - log_q(y, here.x, here.grad)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("exact", [False, True])
def test_gad_mala_against_the_densities_themselves(exact, seed):
    """Both variants against finite differences of the log-ratio, with ∇ log π(y) held constant for the fast one."""
    proposal = gad.proposals.Langevin(gad.factors.Cholesky(LOWER), exact)
    here, noise = points(proposal, seed, 1)
    there, log_q, pullback = proposal.move_and_pullback(noise, here, TARGET)
    held = None if exact else there.grad
    np.testing.assert_allclose(there.logp - here.logp + log_q, log_ratio(proposal, noise, here, held), rtol=1e-10)
    (ours,) = leaves(pullback(1.0))
    h = 1e-6
    for i, j in zip(*np.tril_indices(3), strict=True):
        up, down = (eqx.tree_at(lambda p: p.factor.matrix, proposal, LOWER.at[i, j].add(s)) for s in (h, -h))
        numeric = (log_ratio(up, noise, here, held) - log_ratio(down, noise, here, held)) / (2 * h)
        np.testing.assert_allclose(ours[i, j], numeric, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(np.triu(ours, 1), 0)


def test_fast_and_exact_part():
    """Were the switch without effect, the two tests above could not both pass on this target."""
    gradients = []
    for exact in (False, True):
        proposal = gad.proposals.Langevin(gad.factors.Cholesky(LOWER), exact)
        here, noise = points(proposal, 0, 1)
        gradients.append(leaves(proposal.move_and_pullback(noise, here, TARGET)[2](1.0))[0])
    assert np.abs(gradients[0] - gradients[1]).max() > 0.05


@pytest.mark.parametrize("make", [gad.proposals.RandomWalk, gad.proposals.Langevin])
@pytest.mark.parametrize("factor", [gad.factors.Cholesky, gad.factors.Diagonal])
def test_one_update_is_the_papers(make, factor):
    """L after one iteration, β after it, and the recorded lower bound, from the paper's formulas."""
    recipe = {gad.proposals.RandomWalk: gad.gad_rwm, gad.proposals.Langevin: gad.gad_mala}[make]
    kind = {gad.factors.Cholesky: "dense", gad.factors.Diagonal: "diagonal"}[factor]
    sampler = recipe(factor=kind, scale=0.9, learning_rate=1e-3, **PAPER)
    rejections = 0
    for seed in range(12):
        state = sampler.init(TARGET, jnp.asarray([[0.3, -0.2, 1.0]]))
        key = jax.random.split(jax.random.key(seed), 1)
        after, record = sampler.step(key, state, TARGET)
        proposal = state.kernel.proposal
        here = jax.tree.map(lambda leaf: leaf[0], state.chains)
        noise = proposal.noise(jax.random.split(key[0])[0], here)
        there, log_q = proposal.move(noise, here, TARGET)
        ratio = there.logp - here.logp + log_q
        g_y = jax.grad(law_target.log_density)(there.x)
        if make is gad.proposals.RandomWalk:
            u, v = g_y, noise
        else:
            difference = here.grad - g_y
            u, v = -0.5 * difference, 0.5 * proposal.factor.tmul(difference) + noise
        diagonal = jnp.full(3, 0.9)
        gradient = (ratio < 0) * (jnp.tril(jnp.outer(u, v)) if factor is gad.factors.Cholesky else u * v)
        gradient += jnp.diag(1 / diagonal) if factor is gad.factors.Cholesky else 1 / diagonal
        step = 1e-3 * gradient / (1 + jnp.abs(gradient))  # G = ∇² on the first iteration
        (before,), (now,) = jax.tree.leaves(proposal), jax.tree.leaves(after.kernel.proposal)
        np.testing.assert_allclose(now, before + step, rtol=1e-12)
        alpha_star = 0.25 if make is gad.proposals.RandomWalk else 0.55
        accepted = bool(record["accepted"][0])
        np.testing.assert_allclose(after.memory.beta, 1 + 0.02 * (accepted - alpha_star), rtol=1e-12)
        np.testing.assert_allclose(record["lower_bound"][0], min(0, ratio) + jnp.log(diagonal).sum(), rtol=1e-10)
        rejections += not accepted
    assert 0 < rejections < 12


def test_pooled_gradient_is_the_mean_over_chains():
    sampler = gad.gad_mala(scale=0.9, **PAPER)
    positions = law_target.draws(jax.random.key(1), 4)
    keys = jax.random.split(jax.random.key(2), 4)
    state = sampler.init(TARGET, positions)

    def gradient(state, keys):
        """What RMSprop saw, from its first mean square: |∇|, with the sign of L's step."""
        after, _ = sampler.step(keys, state, TARGET)
        step = after.kernel.proposal.factor.matrix - state.kernel.proposal.factor.matrix
        return jnp.sign(step) * jnp.sqrt(after.memory.optimiser.mean_square.factor.matrix)

    alone = [gradient(sampler.init(TARGET, positions[c : c + 1]), keys[c : c + 1]) for c in range(4)]
    np.testing.assert_allclose(gradient(state, keys), jnp.mean(jnp.stack(alone), 0), rtol=1e-9, atol=1e-12)


def test_rmsprop_first_and_second_step():
    rule = gad.adaptations.RMSprop(0.01)
    memory = rule.init(jnp.zeros(2))
    g1, g2 = jnp.asarray([2.0, -1.0]), jnp.asarray([1.0, 3.0])
    step, memory = rule.update(-g1, memory)
    np.testing.assert_allclose(step, 0.01 * g1 / (1 + jnp.abs(g1)))
    step, memory = rule.update(-g2, memory)
    np.testing.assert_allclose(step, 0.01 * g2 / (1 + jnp.sqrt(0.9 * g1**2 + 0.1 * g2**2)))
