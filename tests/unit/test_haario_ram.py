"""The adaptive Metropolis family against its dense formulas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations.robust import rank_one
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)


def steps(sampler, count, chains=3):
    """Consecutive (state, record, next state)."""
    state = sampler.init(TARGET, law_target.draws(jax.random.key(1), chains))
    step = jax.jit(lambda key, state: sampler.step(key, state, TARGET))
    for t in range(count):
        after, record = step(jax.random.key(t), state)
        yield state, record, after
        state = after


def test_haario_is_its_formula():
    gain = gad.adaptations.PowerGain(0.5, 0.7, 1.0)
    for k, (before, _, after) in enumerate(steps(gad.haario(gain=gain, regularisation=1e-3), 5), 1):
        gamma, d = 0.5 * (k + 1) ** -0.7, np.asarray(after.position - before.memory.mean)
        mean = before.memory.mean + gamma * d.mean(0)
        covariance = before.memory.covariance + gamma * (sum(map(np.outer, d, d)) / 3 - before.memory.covariance)
        np.testing.assert_allclose(after.memory.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(after.memory.covariance, covariance, rtol=1e-12)
        factor = after.kernel.proposal.factor
        L = factor.multiplier * factor.base.matrix
        np.testing.assert_allclose(L @ L.T, 2.38**2 / 3 * (covariance + 1e-3 * np.eye(3)), rtol=1e-12)
        np.testing.assert_array_equal(np.triu(L, 1), 0)


def test_the_global_scale_follows_the_acceptance_rate():
    gain = gad.adaptations.PowerGain(0.5, 0.7, 1.0)
    for k, (before, record, after) in enumerate(steps(gad.haario_scaled(gain=gain), 5), 1):
        was, now = (state.kernel.proposal.factor.multiplier for state in (before, after))
        np.testing.assert_array_equal(record["step_size"], was)
        error = record["acceptance_rate"].mean() - 0.234
        np.testing.assert_allclose(now**2, was**2 * np.exp(0.5 * (k + 1) ** -0.7 * error), rtol=1e-12)


@pytest.mark.parametrize("step", [0.4, -0.49, 1e-9, 0.0])
def test_the_rank_one_update_is_a_cholesky_factor(step):
    S = jnp.tril(jax.random.normal(jax.random.key(0), (6, 6))) + 2 * jnp.eye(6)
    w = jax.random.normal(jax.random.key(1), (6,))
    w = (w / jnp.linalg.norm(w)).at[2].set(0.0)
    updated = rank_one(S, w, jnp.asarray(step))
    dense = S @ (jnp.eye(6) + step * jnp.outer(w, w)) @ S.T
    np.testing.assert_allclose(updated, jnp.linalg.cholesky(dense) * jnp.sign(jnp.diagonal(S)), atol=1e-13)


def test_robust_adaptive_metropolis_is_its_formula():
    """One chain to rounding; over several, the mean of the updates up to second order in η."""
    for chains, tolerance in ((1, 1e-12), (4, 2e-4)):
        gain = gad.adaptations.PowerGain(0.01, 0.66, 1.0)
        adaptation = gad.ram(gain=gain).adaptation
        kernel = gad.ram().kernel(3)
        kernel = gad.kernels.Metropolis(
            gad.proposals.RandomWalk(gad.factors.Cholesky(jnp.tril(jnp.ones((3, 3))))), kernel.learn
        )
        u = jax.random.normal(jax.random.key(2), (chains, 3))
        alpha = jnp.linspace(1.0, 0.0, chains)
        from gadabout.adaptations.robust import NoiseAndRate

        new, memory, _ = adaptation.update(adaptation.init(kernel, None), kernel, None, NoiseAndRate(u, alpha))
        w = u / jnp.linalg.norm(u, axis=1)[:, None]
        eta = 3 * 0.01 * 2**-0.66
        M = jnp.eye(3) + eta * jnp.einsum("c,ci,cj->ij", alpha - 0.234, w, w) / chains
        S = kernel.proposal.factor.matrix
        R = new.proposal.factor.matrix
        np.testing.assert_allclose(R @ R.T, S @ M @ S.T, atol=tolerance)
        assert memory.count == 1


def test_a_covariance_without_a_factor_leaves_the_factor_alone():
    sampler = gad.haario(gain=gad.adaptations.PowerGain(1.0, 1.0), regularisation=0)  # γ_1 = 1: Γ_1 has rank one
    before, _, after = next(iter(steps(sampler, 1, chains=1)))
    np.testing.assert_array_equal(before.kernel.proposal.factor.base.matrix, after.kernel.proposal.factor.base.matrix)


@pytest.mark.parametrize("recipe", [gad.haario, gad.haario_scaled, gad.ram])
def test_proposals_that_are_not_finite_are_no_poison(recipe):
    target = gad.Target(lambda x: jnp.where(jnp.all(x == 0), 0.0, jnp.nan))
    sampler = recipe()
    state = sampler.init(target, jnp.zeros((2, 3)))
    step = jax.jit(lambda state, key: sampler.step(key, state, target))
    state, record = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 50))
    assert record["nonfinite"].all()
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((state.kernel, state.memory)))
