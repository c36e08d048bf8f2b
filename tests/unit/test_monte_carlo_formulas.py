"""Monte Carlo without chains: formulas, shapes, determinism, and errors that show what is wrong."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad
from gadabout import monte_carlo as mc
from gadabout.diagnostics import pareto_k
from gadabout.proposals import UserDistribution

key = jax.random.key
NORMAL = gad.proposals.Gaussian(jnp.zeros(1), gad.factors.Diagonal(jnp.ones(1)))
CAUCHY = gad.Target(lambda x: -jnp.log1p(x @ x) - jnp.log(jnp.pi))
POSITIVE = gad.Target(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf))  # Exp(1)
SQUARE = UserDistribution(2, lambda key: jax.random.uniform(key, (2,)) * 2 - 1, lambda x: -jnp.log(4.0))
DISC = gad.Target(lambda x: jnp.where(x @ x < 1, 0.0, -jnp.inf))


def factor(matrix):
    return gad.factors.Cholesky(jnp.asarray(matrix, dtype=float))


DISTRIBUTIONS = {
    "gaussian": gad.proposals.Gaussian(jnp.array([0.3, -0.2]), factor([[0.8, 0], [0.5, 0.6]])),
    "student": gad.proposals.StudentT(jnp.array([0.3, -0.2]), factor([[0.8, 0], [0.5, 0.6]]), jnp.asarray(3.0)),
    "mixture": gad.proposals.GaussianMixture(
        jnp.array([0.5, 1.5]),  # need not sum to one
        jnp.array([[0.0, 1.0], [1.0, -1.0]]),
        factor([[[0.8, 0], [0.5, 0.6]], [[1, 0], [0, 0.5]]]),
    ),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_normalised_densities_integrate_to_one(name):
    """The trapezoidal rule on x = sinh(s), whose tails reach 10⁵: rounding error, and the Student-t's tail of 1e-15."""
    q, s = DISTRIBUTIONS[name], jnp.linspace(-12, 12, 601)
    x = jnp.stack(jnp.meshgrid(jnp.sinh(s), jnp.sinh(s)), -1).reshape(-1, 2)
    jacobian = jnp.cosh(s)[:, None] * jnp.cosh(s)
    density = jnp.exp(jax.vmap(q.normalised_log_density)(x)).reshape(601, 601)
    np.testing.assert_allclose(jnp.sum(density * jacobian) * (s[1] - s[0]) ** 2, 1, rtol=1e-6)


def test_a_distribution_without_its_constant_says_what_to_define():
    class Unnormalised(gad.AbstractDistribution):
        dim = 1  # pyright: ignore

        def noise(self, key):
            return jax.random.normal(key, (1,))

        def draw(self, noise):
            return noise

        def log_density(self, x):
            return -0.5 * x @ x

    with pytest.raises(NotImplementedError, match="define its method log_normaliser"):
        mc.importance(CAUCHY, Unnormalised(), num_draws=100, seed=0)


def test_the_discrete_example():
    """p(0, 1, 2) = ¼, ½, ¼: E[θ] = 1, E[θ²] = 1.5; an array of three draws gives the formula's standard error."""
    values = np.array([[0, 0], [1, 1], [2, 4]])
    estimate = mc.average(values)
    np.testing.assert_allclose(estimate.value, [1, 5 / 3])
    np.testing.assert_allclose(estimate.standard_error, np.std(values, axis=0, ddof=1) / np.sqrt(3))


def test_f_may_return_any_shape_and_whole_numbers():
    draw = lambda key: jax.random.choice(key, jnp.arange(3), p=jnp.array([0.25, 0.5, 0.25]))
    estimate = mc.plain(lambda x: jnp.outer(x ** jnp.arange(2), jnp.arange(3) == x), draw, num_draws=100, seed=0)
    assert estimate.value.shape == estimate.standard_error.shape == (2, 3)
    assert float(mc.plain(lambda x: x[0] > 1e9, NORMAL, num_draws=10, seed=0).value) == 0
    with pytest.warns(UserWarning, match="not finite at .* of 100 draws"):
        mc.plain(lambda x: jnp.log(x[0]), NORMAL, num_draws=100, seed=0)


def test_the_split_is_exact():
    replicates = np.random.default_rng(0).normal(0.3, 1.0, (50, 4))
    split = mc.error_split(replicates, np.zeros(4))
    np.testing.assert_allclose(split.mean_squared_error, split.squared_bias + split.variance)
    np.testing.assert_allclose(split.bias.value, replicates.mean(0))
    np.testing.assert_allclose(split.bias.standard_error, replicates.std(0, ddof=1) / np.sqrt(50))


def test_rejection_does_not_depend_on_the_batch():
    results = [
        mc.rejection(DISC, SQUARE, log_envelope=1.5, num_draws=300, seed=1, batch_size=size) for size in (64, 1_000)
    ]
    np.testing.assert_array_equal(results[0].draws, results[1].draws)
    assert results[0].num_proposals == results[1].num_proposals
    assert results[0].draws.shape == (300, 2)


def test_the_acceptance_rate_of_a_limited_number_of_proposals_is_the_share():
    with pytest.raises(mc.ProposalLimit) as error:
        mc.rejection(DISC, SQUARE, log_envelope=1.5, num_draws=300, seed=1, max_proposals=200)
    partial = error.value.partial
    assert partial.acceptance_rate.value == len(partial.draws) / 200


def test_a_violated_envelope_does_not_depend_on_the_batch():
    """The first violation is reported, and none beyond the last proposal that was needed."""
    reported = []
    for size in (256, 8_192):
        with pytest.raises(mc.EnvelopeViolated) as error:
            mc.rejection(CAUCHY, NORMAL, log_envelope=1.0, num_draws=2_000, seed=0, batch_size=size)
        reported.append((float(error.value.point[0]), error.value.log_ratio))
        assert mc.rejection(CAUCHY, NORMAL, log_envelope=1.0, num_draws=2, seed=0, batch_size=size).num_proposals < 100
    assert reported[0] == reported[1]


def test_a_violated_envelope_shows_the_point():
    with pytest.raises(mc.EnvelopeViolated, match=r"at the proposed point x = .* pass log_envelope") as error:
        mc.rejection(CAUCHY, NORMAL, log_envelope=1.0, num_draws=2_000, seed=0)
    point, ratio = error.value.point, error.value.log_ratio
    np.testing.assert_allclose(ratio, CAUCHY.log_density(point) - NORMAL.normalised_log_density(point))
    assert ratio > 1
    assert f"{point[0]:.6f}"[:6] in str(error.value)
    undefined = gad.Target(lambda x: jnp.where(x[0] > 2, jnp.nan, -x @ x))
    with pytest.raises(mc.EnvelopeViolated, match=r"nan exceeds .* must be a number"):
        mc.rejection(undefined, NORMAL, log_envelope=10.0, num_draws=2_000, seed=0)


def test_an_envelope_that_is_met_exactly_is_none_violated():
    """log π − log q is the envelope everywhere, up to rounding."""
    shifted = gad.Target(lambda x: NORMAL.normalised_log_density(x) + 123.4)
    result = mc.rejection(shifted, NORMAL, log_envelope=123.4, num_draws=2_000, seed=0)
    assert result.num_proposals == 2_000
    np.testing.assert_allclose(result.log_normaliser.value, 123.4)


def test_the_limit_on_proposals_keeps_what_was_drawn():
    with pytest.raises(mc.ProposalLimit, match="of 300 draws after max_proposals = 100 ") as error:
        mc.rejection(DISC, SQUARE, log_envelope=1.5, num_draws=300, seed=1, batch_size=64, max_proposals=100)
    whole = mc.rejection(DISC, SQUARE, log_envelope=1.5, num_draws=300, seed=1, batch_size=64)
    kept = error.value.partial
    assert 0 < len(kept.draws) < 100
    assert kept.num_proposals == 100
    np.testing.assert_array_equal(kept.draws, whole.draws[: len(kept.draws)])


def weighted(log_weights):
    return mc.Importance(np.arange(len(log_weights), dtype=float)[:, None], np.asarray(log_weights, dtype=float))


def test_importance_formulas():
    w = np.array([1.0, 2.0, 5.0])
    result = weighted(np.log(w) - 1_000)  # no overflow, no underflow
    np.testing.assert_allclose(result.log_marginal_likelihood.value, np.log(8 / 3) - 1_000)
    np.testing.assert_allclose(result.log_marginal_likelihood.standard_error, w.std(ddof=1) / np.sqrt(3) / w.mean())
    np.testing.assert_allclose(result.ess, 64 / 30)
    np.testing.assert_allclose(result.weight_variance, w.var(ddof=1) / w.mean() ** 2)
    np.testing.assert_allclose(result.elbo.value, np.log(w).mean() - 1_000)
    mean, error = result.expectation(lambda x: x)
    np.testing.assert_allclose(mean, [12 / 8])
    np.testing.assert_allclose(error, [np.sqrt(np.sum((w / 8 * (np.arange(3) - 1.5)) ** 2))])
    plain = weighted(np.log(w)).expectation(lambda x: x[0], normalised=True)
    np.testing.assert_allclose(plain.value, 4)
    np.testing.assert_allclose(plain.standard_error, np.std([0, 2, 10], ddof=1) / np.sqrt(3))
    assert np.isneginf(weighted([0.0, -np.inf]).elbo.value)


@pytest.mark.parametrize("k", [0.3, 1.0])
def test_pareto_k_of_a_pareto_tail(k):
    """w = U^(−k): the fit's standard deviation is near (1 + k)/√424 at 20,000 draws, 424 of them the tail."""
    log_weights = -k * np.log(np.random.default_rng(0).uniform(size=20_000))
    assert abs(weighted(log_weights).pareto_k - k) < 4 * (1 + k) / np.sqrt(424)


@pytest.mark.parametrize("draws", [26, 100, 1_600, 20_000])
def test_pareto_k_is_that_of_arviz(draws):
    noise = np.random.default_rng(0)
    for log_weights in (noise.normal(size=draws), 2 * noise.exponential(size=draws), -(noise.normal(size=draws) ** 2)):
        known = float(array_stats.psislw(-log_weights)[1])
        assert np.isnan(known) or abs(pareto_k(log_weights) - known) < 1e-9


def test_pareto_k_at_the_edges():
    rng = np.random.default_rng(0)
    assert weighted(np.zeros(1_000)).pareto_k == -np.inf
    assert np.isnan(weighted(np.zeros(24)).pareto_k)
    assert weighted(np.where(np.arange(1_000) < 3, 0, -np.inf)).pareto_k == np.inf
    half = np.where(rng.uniform(size=1_000) < 0.5, rng.normal(size=1_000) * 0.1, -np.inf)
    assert weighted(half).pareto_k < 0.7


def test_a_tail_that_is_too_heavy_is_told_of():
    """w = U⁻¹ has k = 1: by an exponential draw x and the density that makes log w = x."""
    exponential = UserDistribution(1, lambda key: jax.random.exponential(key, (1,)), lambda x: -x[0])
    heavy, light = (gad.Target(lambda x, k: (k - 1) * x[0], jnp.asarray(k)) for k in (1.0, 0.3))
    with pytest.warns(UserWarning, match=r"Pareto k̂ = .* heavier tails \(StudentT\)"):
        result = mc.importance(heavy, exponential, num_draws=20_000, seed=0)
    assert result.pareto_k > 0.7
    assert len(result.warnings) == 1
    assert mc.importance(light, exponential, num_draws=20_000, seed=0).warnings == ()  # warnings are errors here
    with pytest.warns(UserWarning, match="cannot be judged"):
        mc.importance(light, exponential, num_draws=20, seed=0)


def test_draws_without_weight():
    undefined = gad.Target(lambda x: jnp.where(x[0] > 1, jnp.nan, jnp.where(x[0] < 0, -jnp.inf, 0.0)))
    with pytest.warns(UserWarning, match="NaN or infinite at .* of 500 draws"):
        result = mc.importance(undefined, NORMAL, num_draws=500, seed=0)
    used = result.weights > 0
    np.testing.assert_array_equal(used, (result.draws[:, 0] >= 0) & (result.draws[:, 0] <= 1))
    with pytest.raises(ValueError, match="none of 50 draws"):
        mc.importance(gad.Target(lambda x: -jnp.inf * jnp.ones(())), NORMAL, num_draws=50, seed=0)


def test_the_same_key_gives_the_same():
    for run in (
        lambda k: mc.plain(jnp.sum, NORMAL, num_draws=50, seed=k).value,
        lambda k: mc.importance(gad.Target(NORMAL.log_density), NORMAL, num_draws=50, seed=k).draws,
        lambda k: mc.fit_gaussian(gad.Target(NORMAL.log_density), jnp.ones(1), num_steps=100, seed=k).distribution.mean,
    ):
        np.testing.assert_array_equal(run(key(3)), run(key(3)))
        assert np.any(run(key(3)) != run(key(4))) or run(key(3)).ndim == 1  # a Gaussian's fit has no noise left


def test_systematic_resampling_keeps_whole_shares():
    """Every index appears ⌊N w⌋ or ⌈N w⌉ times, and never one without weight, at either end."""
    weights = jnp.array([0.0, 0.1, 0.0, 2.0, 0.55, 0.35, 0.0, 0.0])
    shares = np.asarray(8 * weights / weights.sum())
    indices = jax.jit(jax.vmap(lambda k: mc.systematic_resampling(weights, seed=k)))(jax.random.split(key(0), 500))
    counts = np.asarray(jax.vmap(lambda i: jnp.bincount(i, length=8))(indices))
    assert np.all((counts >= np.floor(shares)) & (counts <= np.ceil(shares)))


def test_arguments():
    q, target = NORMAL, gad.Target(NORMAL.log_density)
    with pytest.raises(ValueError, match="num_draws must be a whole number of at least 2, got 1"):
        mc.plain(jnp.sum, q, num_draws=1, seed=0)
    with pytest.raises(ValueError, match="at least 2 independent draws"):
        mc.average(3.0)
    with pytest.raises(ValueError, match="truth must have the shape"):
        mc.error_split(np.zeros((3, 2)), 0.0)
    with pytest.raises(ValueError, match="log_envelope must be a finite"):
        mc.rejection(target, q, log_envelope=np.inf, num_draws=10, seed=0)
    with pytest.raises(ValueError, match="num_draws"):
        mc.importance(target, q, num_draws=1, seed=0)
    with pytest.raises(ValueError, match="step_size"):
        mc.fit_gaussian(target, jnp.zeros(1), step_size=2.0)
    with pytest.raises(ValueError, match="factor must be one of"):
        mc.fit_gaussian(target, jnp.zeros(1), factor="full")
    with pytest.raises(TypeError, match="Cholesky or Diagonal, got Scaled"):
        mc.fit_gaussian(target, replace(q, factor=gad.factors.Scaled(jnp.ones(()), q.factor)))
    with pytest.raises(ValueError, match="choose a start inside the support"):
        mc.fit_gaussian(POSITIVE, jnp.full(1, -100.0), num_steps=2)
    with pytest.raises(ValueError, match="ess_share"):
        mc.smc(target, q, num_particles=10, ess_share=1.0)
    with pytest.raises(ValueError, match="num_particles must be a whole number of at least 3"):
        mc.smc(target, q, num_particles=2)
    with pytest.raises(ValueError, match="num_moves"):
        mc.smc(target, q, num_particles=10, num_moves=0)


def test_a_fit_beside_the_support_goes_on_and_says_so():
    q = gad.proposals.Gaussian(jnp.ones(1), gad.factors.Diagonal(jnp.ones(1)))
    with pytest.warns(UserWarning, match="not finite at|did not converge") as caught:
        fit = mc.fit_gaussian(POSITIVE, q, num_steps=20)
    assert np.isfinite(fit.distribution.mean).all()
    assert "not finite at" in fit.warnings[0]
    assert [str(w.message) for w in caught] == list(fit.warnings)


def test_a_fit_that_is_still_on_its_way_says_so():
    """Five steps from 10 standard deviations away; 100 steps leave exp(−7.2) of that."""
    target, far = gad.Target(NORMAL.log_density), jnp.full(1, 10.0)
    with pytest.warns(UserWarning, match=r"the fit did not converge: .* .num_steps above 5"):
        assert mc.fit_gaussian(target, far, num_steps=5).warnings
    assert mc.fit_gaussian(target, far, num_steps=100).warnings == ()
