"""Adaptive Metropolis against its dense formulas, acceptance control, and what is not finite."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gadabout as gad
from gadabout.kernels import MetropolisInfo, Transition
from tests.laws import law_target

LOWER = jnp.tril(jax.random.normal(jax.random.key(3), (3, 3)) * 0.3) + 0.7 * jnp.eye(3)
TARGET = gad.Target(law_target.log_density)


def the_factor(kernel):
    return kernel.proposal.factor


@pytest.mark.parametrize("as_written", [True, False])
def test_cholesky_moments_equal_the_dense_formulas(as_written):
    kernel = gad.kernels.Metropolis(gad.proposals.RandomWalk(gad.factors.Cholesky(LOWER)))
    adaptation = gad.adaptations.CholeskyMoments(as_written, 0.01, 0.02, 100.0, the_factor)
    x = jax.random.normal(jax.random.key(1), (4, 3))
    memory = adaptation.init(kernel, jax.vmap(lambda x: kernel.init(x, TARGET))(jnp.zeros((4, 3))))
    for t in range(3):
        before, mean = the_factor(kernel).matrix, memory.mean
        kernel, memory, _ = adaptation.update(memory, kernel, None, x + t)
        fall = 1 + t / 100
        mean = mean + (0.02 / fall if as_written else 0.02) * ((x + t).mean(0) - mean)
        np.testing.assert_allclose(memory.mean, mean, rtol=1e-12)
        z = jnp.linalg.solve(before, (x + t - mean).T).T
        M = jnp.einsum("ci,cj->ij", z, z) / 4
        step = before @ jnp.tril(M - jnp.eye(3)) if as_written else jnp.tril(before @ (M - jnp.eye(3)))
        np.testing.assert_allclose(the_factor(kernel).matrix, before + 0.01 / fall * step, rtol=1e-11)


def test_the_two_forms_of_adaptive_metropolis_differ():
    z = jnp.asarray([1.0, -0.5, 2.0])
    M = jnp.outer(z, z)
    assert jnp.abs(LOWER @ jnp.tril(M - jnp.eye(3)) - jnp.tril(LOWER @ (M - jnp.eye(3)))).max() > 0.05


def test_acceptance_control_is_the_papers_rule():
    sampler = gad.rwm(step_size=0.5**0.5)
    state = sampler.init(TARGET, jnp.zeros((1, 3)))
    for t in range(5):
        before = state.kernel.proposal.factor.multiplier
        state, record = sampler.step(jax.random.key(t), state, TARGET)
        assert record["step_size"][0] == before
        alpha = record["accepted"][0].astype(float)
        after = before**2 * (1 + 0.01 * (alpha - 0.25) / 0.25)
        np.testing.assert_allclose(state.kernel.proposal.factor.multiplier**2, after, rtol=1e-14)


@pytest.mark.parametrize("recipe", [gad.gad_rwm, gad.gad_mala])
@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_proposals_that_are_not_finite_move_beta_alone(recipe, bad):
    """All moves leave the one finite point: every one is rejected and counted, and neither L nor G moves."""
    target = gad.Target(lambda x: jnp.where(jnp.all(x == 0), -0.5 * x @ x, bad * jnp.sum(x**2)))
    sampler = recipe(scale=0.8, gain=None)
    state = sampler.init(target, jnp.zeros((2, 3)))
    theta, optimiser = state.kernel.proposal, state.memory.optimiser
    step = jax.jit(lambda k, s: sampler.step(k, s, target))
    for t in range(5):
        state, record = step(jax.random.key(t), state)
        assert record["nonfinite"].all()
        assert not record["accepted"].any()
        assert (record["acceptance_rate"] == 0).all()
    assert eqx.tree_equal(theta, state.kernel.proposal)
    assert eqx.tree_equal(optimiser, state.memory.optimiser)
    alpha = 0.25 if recipe is gad.gad_rwm else 0.55
    np.testing.assert_allclose(state.memory.beta, (1 - 0.02 * alpha) ** 5)
    assert jnp.isfinite(state.position).all()


@pytest.mark.parametrize("recipe", [gad.gad_rwm, gad.gad_mala])
def test_a_gradient_that_is_not_finite_is_no_poison(recipe):
    """√|x₀| has a value at x₀ = 0 but no gradient; a plateau beyond 1 is reached with a gradient of NaN."""

    @jax.custom_jvp
    def hole(x):
        return 0.0 * x

    @hole.defjvp
    def _(primals, tangents):
        return hole(primals[0]), jnp.where(primals[0] > 0.5, jnp.nan, 0.0) * tangents[0]

    target = gad.Target(lambda x: -0.5 * x @ x + hole(x[0]))
    sampler = recipe(scale=0.8)
    state = sampler.init(target, jnp.zeros((3, 2)) - 1)
    step = jax.jit(lambda state, key: sampler.step(key, state, target))
    state, record = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 300))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((state.kernel, state.memory)))
    assert record["accepted"].any()
    assert record["nonfinite"].any() == (recipe is gad.gad_mala)  # the random walk does not look at gradients


def test_one_bad_chain_does_not_spoil_the_pool():
    """A chain whose proposals all fail adds nothing: θ moves by the mean over the others."""
    cut = gad.Target(lambda x, cut: jnp.where(x[0] > cut, jnp.nan, law_target.log_density(x)), jnp.asarray(5.0))
    sampler = gad.gad_mala(scale=0.3)
    keys = jax.random.split(jax.random.key(0), 2)
    good = jnp.asarray([[0.1, 0.2, 0.3]])
    pool = sampler.init(cut, jnp.concatenate([good, good]))
    pool = eqx.tree_at(lambda s: s.chains.grad, pool, pool.chains.grad.at[1].set(1e9))  # throws it far beyond the cut
    pool = eqx.tree_at(lambda s: s.chains.cache, pool, pool.chains.cache.at[1].set(1e9))
    both, record = sampler.step(keys, pool, cut)
    alone, _ = sampler.step(keys[:1], sampler.init(cut, good), cut)
    np.testing.assert_array_equal(record["nonfinite"], [False, True])
    np.testing.assert_allclose(both.kernel.proposal.factor.matrix, alone.kernel.proposal.factor.matrix, rtol=1e-12)


def test_optax_climbs():
    sampler = gad.gad_mala(scale=0.05, optimiser=optax.adam(1e-2))
    state = sampler.init(TARGET, law_target.draws(jax.random.key(1), 8))
    step = jax.jit(lambda s, k: sampler.step(k, s, TARGET))
    after, record = jax.lax.scan(step, state, jax.random.split(jax.random.key(2), 1_000))
    assert jnp.diagonal(after.kernel.proposal.factor.matrix).min() > 0.2
    assert 0.4 < record["accepted"][500:].mean() < 0.7


def test_speed_measure_needs_a_pullback():
    kernel = gad.kernels.Metropolis(gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.ones(3))))
    adaptation = gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25)
    state = kernel.init(jnp.zeros(3), TARGET)
    after, info = kernel.step(jax.random.key(0), state, TARGET)
    assert isinstance(info, MetropolisInfo)
    memory = adaptation.init(kernel, jax.tree.map(lambda leaf: leaf[None], state))
    with pytest.raises(TypeError, match="learn=True"):
        adaptation.observe(memory, kernel, Transition(state, after, info))
