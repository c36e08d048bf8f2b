"""Three rules for one number, and what an adaptation settles on at the end of warm-up."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import DualAveraging, Pool, ProportionalControl
from gadabout.api.positions import starts_of
from gadabout.driver import Engine, Interrupted, MemorySink, Records, Settings
from gadabout.kernels import Transition
from gadabout.schedule import Draw, Learn, Search, plan_of
from tests.laws import law_target

RULES = ["multiplicative", "proportional", "dual-averaging"]
TARGET = gad.Target(law_target.log_density)
QUICK = {"num_warmup": 2_000, "num_draws": 2_000, "num_chains": 4, "progress": False}


def the_step_size(kernel):
    return kernel.proposal.step_size


def updates(adaptation, probabilities):
    """The step size after each update from one row of acceptance probabilities (chains), and the last memory."""
    kernel = gad.hmc(5, step_size=0.2).kernel(3)
    memory, sizes = adaptation.init(kernel, None), []
    for row in probabilities:
        pooled = adaptation.pool(memory, kernel, jnp.asarray(row), Pool())
        kernel, memory, _ = adaptation.update(memory, kernel, None, pooled)
        sizes.append(float(the_step_size(kernel)))
    return sizes, memory, kernel


PROBABILITIES = np.random.default_rng(4).uniform(size=(30, 3))


def test_proportional_control_is_the_lectures_rule():
    sizes, _, _ = updates(ProportionalControl(0.65, the_step_size, speed=0.1), PROBABILITIES)
    step_size = 0.2
    for row, size in zip(PROBABILITIES, sizes, strict=True):
        step_size *= np.exp(0.1 * (row.mean() - 0.65))
        np.testing.assert_allclose(size, step_size, rtol=1e-13)


def test_dual_averaging_is_hoffman_and_gelmans():
    """Their closed form: x_{m+1} = μ − √m/γ · 1/(m + t₀) Σ (δ − α); the average by the weights m^−κ."""
    adaptation = DualAveraging(0.65, the_step_size)
    sizes, memory, kernel = updates(adaptation, PROBABILITIES)
    errors, log_average = 0.65 - PROBABILITIES.mean(1), 0.0
    for m in range(1, 31):
        log_step = np.log(10 * 0.2) - np.sqrt(m) / 0.05 * errors[:m].sum() / (m + 10)
        np.testing.assert_allclose(sizes[m - 1], np.exp(log_step), rtol=1e-11)
        log_average = m**-0.75 * log_step + (1 - m**-0.75) * log_average
    kernel, _, states = adaptation.finish(memory, kernel, "states")
    np.testing.assert_allclose(the_step_size(kernel), np.exp(log_average), rtol=1e-11)
    assert states == "states"


@pytest.mark.parametrize("begin", [0.4, 0.6, 0.8, 1.0, 1.2])
def test_a_short_window_finds_the_step_below_a_largest_one(begin):
    """Two steps of any size beyond 0.785 are accepted too rarely, three often enough: twelve updates say three.

    Iterates that shrink to steps beyond the largest, cut off there, stay in the average of so few: that said two.
    """
    kernel = gad.hmc(5, step_size=begin).kernel(3)
    adaptation = DualAveraging(jnp.asarray(0.8), the_step_size, largest=1.5)
    memory = adaptation.init(kernel, None)
    for _ in range(12):
        accepted = jnp.where(the_step_size(kernel) < 0.785, 0.84, 0.65)
        kernel, memory, _ = adaptation.update(memory, kernel, None, accepted)
    assert 0.4 < float(the_step_size(adaptation.finish(memory, kernel, None)[0])) < 0.785


def test_probabilities_and_not_decisions_are_what_they_see():
    kernel = gad.hmc(5, step_size=0.6).kernel(3)
    state = kernel.init(jnp.zeros(3), TARGET)
    after, info = kernel.step(jax.random.key(0), state, TARGET)
    assert 0 < info.acceptance_rate < 1
    for rule in (ProportionalControl, DualAveraging):
        adaptation = rule(0.65, the_step_size)
        seen, trace = adaptation.observe(None, kernel, Transition(state, after, info))
        assert seen == info.acceptance_rate
        assert trace["step_size"] == 0.6


CASES = [
    *((gad.hmc, 0.651, rule) for rule in RULES),
    (gad.rwm, 0.25, "multiplicative"),
    *(pytest.param(gad.rwm, 0.25, rule, marks=pytest.mark.long) for rule in RULES[1:]),  # HMC has all rules
    (gad.mala, 0.574, "proportional"),
    (gad.barker, 0.4, "dual-averaging"),
]


@pytest.mark.parametrize(("recipe", "target_acceptance", "rule"), CASES)
def test_every_rule_reaches_its_rate_and_freezes(recipe, target_acceptance, rule):
    """On ten independent normals, 16 pooled chains, from a step size far too small.

    One leapfrog step: the rate of longer trajectories is steep and not monotone in their step size. At rest the log of
    the step size has the variance gain · var(ᾱ) / (2 · slope) = 0.015 · 0.23/16 / 2, the slope of the rate in it being
    about 1: a standard error of 0.010, and with that of 32,000 correlated draws 0.013. The threshold is 4.3 of them:
    one false alarm in 10,000 suites; a rule that steers to a rate 0.08 away is found with a chance of 97 %.
    """
    settings = {"num_steps": 1} if recipe is gad.hmc else {}
    sampler = recipe(step_size_rule=rule, step_size=0.01, **settings)
    tree = gad.sample(lambda x: -0.5 * x @ x, jnp.zeros(10), sampler=sampler, **QUICK | {"num_chains": 16})
    assert abs(float(tree["sample_stats"]["acceptance_rate"].mean()) - target_acceptance) < 0.055
    if recipe is gad.hmc:
        learned = tree["learned"]["proposal.step_size"].item()
        np.testing.assert_array_equal(tree["sample_stats"]["step_size"], learned)


def averaged(trace):
    """The averaged step size of Hoffman and Gelman from the trace of ε_1, ε_2, …"""
    log_average = 0.0
    for m, log_step in enumerate(np.log(trace), 1):
        log_average = m**-0.75 * log_step + (1 - m**-0.75) * log_average
    return np.exp(log_average)


@pytest.mark.parametrize("adapt", ["pooled", "per-chain"])
def test_draws_are_made_with_the_averaged_step_size(adapt):
    """The trace shows ε before each update, so that all but the last of the averaged values stand in it."""
    sampler = gad.hmc(5, step_size_rule="dual-averaging")
    settings = QUICK | {"num_warmup": 50, "num_draws": 5, "adapt": adapt}
    tree = gad.sample(law_target.log_density, jnp.zeros(3), sampler=sampler, **settings)
    longer = gad.sample(law_target.log_density, jnp.zeros(3), sampler=sampler, **settings | {"num_warmup": 51})
    trace = longer["warmup_sample_stats"]["step_size"].values[:, 1:51]
    used = tree["sample_stats"]["step_size"].values
    for chain in range(4):
        np.testing.assert_allclose(used[chain], averaged(trace[chain]), rtol=1e-10)
        assert used[chain, 0] != trace[chain, -1]
    assert (len(np.unique(used)) == 1) == (adapt == "pooled")


def engine(plan, num_warmup, num_draws, **arguments):
    """A run of two chains that stand at exact draws, not yet begun."""
    model = gad.Model(law_target.log_density, jnp.zeros(3))
    starts = starts_of(None, law_target.draws(jax.random.key(5), 2), model, 2, False)
    settings, records = Settings(2, num_warmup, num_draws), Records(model, MemorySink())
    return Engine(model, plan_of(plan), settings, 7, records, starts, **arguments)


def test_an_interrupted_warm_up_settles_too():
    sampler, asked = gad.hmc(5, step_size_rule="dual-averaging"), []

    def interrupted():
        asked.append(None)
        return len(asked) > 3

    run = engine(sampler, 10**6, 10, interrupted=interrupted)
    assert isinstance(run.drive(), Interrupted)
    assert 0 < run.pipeline.account.iterations < 10**6
    np.testing.assert_array_equal(the_step_size(run.theta()), jnp.exp(run.progress.pools.memory.log_average))


class Marks(gad.adaptations.AbstractAdaptation):
    """Learns nothing; counts in its memory how often it was finished, and doubles the step size then."""

    def init(self, kernel, states):
        return jnp.asarray(0)

    def observe(self, memory, kernel, transition):
        return (), {}

    def update(self, memory, kernel, states, pooled):
        return kernel, memory, states

    def finish(self, memory, kernel, states):
        h = kernel.proposal.factor.multiplier
        return eqx.tree_at(lambda k: k.proposal.factor.multiplier, kernel, 2 * h), memory + 1, states


def test_every_learning_stage_of_warm_up_is_finished_once_and_caches_renewed():
    """Two stages that learn, with two adaptations that each have an end; a Langevin's cache Lᵀg
    follows the new L."""
    sampler = gad.Sampler(
        "marks", gad.mala(step_size=0.1**0.5).make_kernel, gad.adaptations.Together((Marks(), Marks()))
    )
    stages = Learn(sampler, 0.6, "first"), Learn(sampler, 0.4, "second"), Draw(sampler)
    run = engine(gad.Plan((Search(), *stages)), 30, 0)
    run.drive()
    pool = run.progress.pools
    np.testing.assert_array_equal(pool.memory, [[2], [2]])
    np.testing.assert_allclose(pool.kernel.proposal.factor.multiplier**2, 0.1 * 4.0**4)
    np.testing.assert_allclose(pool.chains.cache, np.sqrt(0.1 * 4.0**4) * pool.chains.grad, rtol=1e-12)
    none = engine(gad.Plan((Search(), *stages)), 0, 0)
    none.drive()
    np.testing.assert_array_equal(none.progress.pools.memory, [[0], [0]])


def test_whoever_owns_the_loop_finishes_it():
    sampler = gad.hmc(5, step_size_rule="dual-averaging")
    state = sampler.init(TARGET, jnp.zeros((2, 3)))
    for t in range(3):
        state, _ = sampler.step(jax.random.key(t), state, TARGET)
    finished = jax.jit(lambda state: sampler.finish(state))(state)
    np.testing.assert_allclose(the_step_size(finished.kernel), jnp.exp(state.memory.log_average), rtol=1e-14)
    np.testing.assert_array_equal(finished.position, state.position)
