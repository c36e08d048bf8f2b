"""Sequential Monte Carlo against models whose marginal likelihood and moments are known, and planted bugs.

Log Ẑ and moments of R runs with other keys are compared with the truth by Student's t with R − 1 degrees of freedom.
The log marginal likelihood must lie within 3 standard errors of the mean (false alarms: one in 110 for R = 16, each
key fixed once), the moments within 5 (one in 6,000 for each of them).
"""

import importlib
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout import monte_carlo as mc
from tests.laws import law_target
from tests.statistical import conjugate

key = jax.random.key
module = importlib.import_module("gadabout.monte_carlo.smc")
RUNS = 16


def runs(target, start, moments, num_particles=400, **settings):
    """R runs: the z-score of their mean log Ẑ as a function of the truth, that of moments, and the runs."""
    results = [mc.smc(target, start, num_particles=num_particles, seed=i, **settings) for i in range(RUNS)]
    evidence = mc.average([result.log_marginal_likelihood.value for result in results])
    means = mc.average([np.asarray(jax.vmap(moments)(result.draws)).mean(0) for result in results])
    score = lambda estimate, truth: np.max(np.abs((estimate.value - truth) / estimate.standard_error))
    return (lambda truth: score(evidence, truth)), (lambda truth: score(means, truth)), results


@pytest.fixture(scope="module")
def conjugate_runs():
    return runs(conjugate.TARGET, conjugate.START, conjugate.moments)


def test_the_conjugate_model_is_recovered(conjugate_runs):
    """Default moves (MALA): finds errors of 0.2 in log Z: 5 standard errors of 0.035."""
    evidence, moments, results = conjugate_runs
    assert evidence(conjugate.LOG_MARGINAL) < 3
    assert moments(conjugate.MOMENTS) < 5
    assert all(result.warnings == () for result in results)


def test_the_standard_error_is_the_scatter(conjugate_runs):
    """Where moves mix, one run's own standard error is the scatter: χ² with 15 degrees, alarms below one in 500."""
    results = conjugate_runs[2]
    estimates = [result.log_marginal_likelihood for result in results]
    scatter = np.std([e.value for e in estimates], ddof=1)
    ratio = scatter / np.mean([e.standard_error for e in estimates])
    assert np.sqrt(3.5 / 15) < ratio < np.sqrt(36 / 15)


def test_the_trace_of_a_run(conjugate_runs):
    """Temperatures rise from 0 to 1, each stage's weights keep half of the particles, MALA accepts what it aims at."""
    for result in conjugate_runs[2]:
        assert result.temperatures[0] == 0
        assert result.temperatures[-1] == 1
        assert np.all(np.diff(result.temperatures) > 0)
        np.testing.assert_allclose(result.ess[:-1], 200, rtol=1e-3)
        assert result.ess[-1] >= 200
        assert len(result.ess) == len(result.acceptance_rate) == len(result.log_increments)
        assert np.all(np.abs(result.acceptance_rate - 0.574) < 0.12)


def test_the_same_key_gives_the_same_bits_and_other_keys_compile_nothing(compilations):
    log_density = conjugate.log_joint
    target = gad.Target(log_density, conjugate.TARGET.data)
    run = lambda i, data=target.data: mc.smc(
        gad.Target(log_density, data), conjugate.START, num_particles=50, num_moves=2, seed=i
    )
    first = run(0)
    again = run(0)
    np.testing.assert_array_equal(first.draws, again.draws)
    np.testing.assert_array_equal(first.log_increments, again.log_increments)
    data = jax.tree.map(lambda leaf: leaf + 0.1, target.data)
    count = len(compilations)
    other = run(1, data)
    assert len(other.ess) > 3  # one program for all temperatures
    assert len(compilations) == count


def test_a_recipes_own_adaptation_moves_the_particles_of_a_curved_target():
    """gadMALA learns on (`memory` and θ are kept from stage to stage); Z = 2π · 0.6, exact moments by 10⁶ draws."""
    start = gad.proposals.Gaussian(jnp.array([0.0, 1.0, 1.0]), gad.factors.Diagonal(jnp.array([2.0, 3.0, 3.0])))
    target = gad.Target(law_target.log_density)
    moves = gad.gad_mala(scale=0.8, learning_rate=5e-3)
    evidence, moments, _ = runs(target, start, law_target.moments, sampler=moves)
    truth = law_target.moments(law_target.draws(key(9), 1_000_000)).mean(0)
    assert evidence(np.log(2 * np.pi * 0.6)) < 3
    assert moments(np.asarray(truth)) < 5


def test_a_target_with_an_edge():
    """Exp(1) from N(1, 2²): a third of the first particles have no weight, and random walks meet the edge; Z = 1.

    With keys for the moves that are never used twice (`jax_debug_key_reuse`).
    """
    target = gad.Target(lambda x: jnp.where(x[0] > 0, -x[0], -jnp.inf))
    start = gad.proposals.Gaussian(jnp.ones(1), gad.factors.Diagonal(jnp.full(1, 2.0)))
    with jax.debug_key_reuse(True):
        evidence, moments, _ = runs(
            target, start, lambda x: jnp.stack([x[0], x[0] ** 2]), sampler=gad.rwm(step_size=math.sqrt(2.0))
        )
    assert evidence(0.0) < 3
    assert moments([1.0, 2.0]) < 5


def test_resampling_is_unbiased_and_a_planted_bias_is_found():
    """Offspring of 50,000 resamplings against N w_i, 5 standard errors; planted: a comb that always starts at 0."""
    weights = jnp.array([0.03, 0.27, 0.2, 0.05, 0.45])
    offspring = jax.vmap(lambda indices: jnp.bincount(indices, length=5))

    def score(resample):
        counts = mc.average(np.asarray(offspring(jax.vmap(resample)(jax.random.split(key(0), 50_000)))))
        return np.max(np.abs(counts.value - 5 * weights) / (counts.standard_error + 1e-12))

    assert score(lambda k: mc.systematic_resampling(weights, seed=k)) < 5
    comb = jnp.arange(5) / 5
    assert score(lambda k: jnp.searchsorted(jnp.cumsum(weights), comb, side="right")) > 100


def test_a_planted_bias_of_the_offspring_is_found(monkeypatch):
    """Planted: offspring by the square roots of the weights. Moves that mix well heal it; one random walk a stage, with
    nothing learned, leaves it to be seen, and needs N = 1,000 where nothing is planted.
    """
    few = {"sampler": gad.rwm(step_size=math.sqrt(0.5)), "num_adapt": 0, "num_moves": 1}
    evidence, _, _ = runs(conjugate.TARGET, conjugate.START, conjugate.moments, 1_000, **few)
    assert evidence(conjugate.LOG_MARGINAL) < 3
    right = module.systematic_resampling
    monkeypatch.setattr(module, "systematic_resampling", lambda w, *, seed: right(jnp.sqrt(w), seed=seed))
    evidence, _, _ = runs(conjugate.TARGET, conjugate.START, conjugate.moments, 1_001, **few)  # compiles anew
    assert evidence(conjugate.LOG_MARGINAL) > 6


def test_a_planted_start_without_its_constants_is_found(monkeypatch):
    monkeypatch.setattr(gad.proposals.Gaussian, "normalised_log_density", lambda self, x: self.log_density(x))
    evidence, _, _ = runs(conjugate.TARGET, conjugate.START, conjugate.moments, 402)
    assert evidence(conjugate.LOG_MARGINAL) > 6


def test_failures_say_what_to_do():
    nowhere = gad.Target(lambda x: jnp.where(x[0] > 1e6, 0.0, -jnp.inf))
    start = gad.proposals.Gaussian(jnp.zeros(1), gad.factors.Diagonal(jnp.ones(1)))
    still = gad.rwm(step_size=1e6)
    with pytest.raises(ValueError, match="no particle falls where"):
        mc.smc(nowhere, start, num_particles=50, sampler=still)
    narrow = gad.Target(lambda x: -0.5 * jnp.sum((x / 1e-3) ** 2))
    with pytest.warns(UserWarning, match="of the moves of stage 1 were accepted"):
        result = mc.smc(narrow, start, num_particles=50, sampler=still)
    assert result.warnings
    with pytest.raises(mc.TemperingLimit, match="after max_stages = 2: q₀ is far") as error:
        mc.smc(narrow, start, num_particles=50, sampler=still, max_stages=2)
    assert error.value.partial.draws.shape == (50, 1)
    assert len(error.value.partial.ess) == 2
