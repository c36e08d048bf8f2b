"""Malformed calls of what stands beside `sample`, each refused in one line: argument, value, and what it must be."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gadabout as gad
from gadabout import diagnostics, factors, finite, kernels, proposals
from gadabout import monte_carlo as mc
from gadabout.schedule import Draw, Learn, Search
from tests.refusals import nothing_is_written, refused

pytestmark = pytest.mark.usefixtures(nothing_is_written.__name__)

Q = proposals.Gaussian(jnp.zeros(2), factors.Diagonal(jnp.ones(2)))
CHAINS = np.random.default_rng(1).normal(size=(4, 10, 2))
TREE = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw", "i"), CHAINS)})})
ROWS = {"x": np.ones((6, 2)), "y": np.ones(6)}
HALVES = [0.5, 0.5]


def normal(x):
    return -0.5 * jnp.sum(x**2)


def likelihood(x, rows):
    return -0.5 * (rows["y"] - rows["x"] @ x) ** 2


def raising(x):
    raise RuntimeError("no density\nat all")


def batches(prior=normal, terms=likelihood, rows=ROWS, **settings):
    return gad.Minibatches(prior, terms, rows, **settings)


def run(posterior, sampler):
    return gad.sample(posterior, np.zeros(2), sampler=sampler, progress=False)


SGLD = gad.sgld(gad.minibatch.polynomial(0.1))

MONTE_CARLO = [
    (lambda: mc.plain(3, Q), ["f", "function", "3"]),
    (lambda: mc.plain(normal, 3), ["distribution", "3"]),
    (lambda: mc.plain(normal, Q, num_draws=1), ["num_draws", "1"]),
    (lambda: mc.plain(normal, Q, num_draws="x"), ["num_draws", "'x'"]),
    (lambda: mc.plain(normal, Q, num_draws=10**12), ["num_draws", "GiB"]),
    (lambda: mc.plain(normal, Q, seed="x"), ["seed", "'x'"]),
    (lambda: mc.plain(normal, Q, seed=-1), ["seed", "-1"]),
    (lambda: mc.plain(normal, Q, seed=jax.random.split(jax.random.key(1))), ["seed", "(2,)"]),
    (lambda: mc.plain(normal, Q, position=np.zeros(3)), ["position", "3", "2"]),
    (lambda: mc.plain(normal, Q, position="x"), ["position", "numbers"]),
    (lambda: mc.plain(normal, lambda key: key, position=np.zeros(3)), ["position", "leave"]),
    (lambda: mc.plain(lambda x: "x", Q), ["f", "'x'"]),
    (lambda: mc.plain(lambda x: None, Q), ["f", "None"]),
    (lambda: mc.plain(lambda: 0.0, Q), ["f", "of one draw"]),
    (lambda: mc.plain(raising, Q), ["f", "RuntimeError: no density"]),
    (lambda: mc.plain(normal, lambda: jnp.zeros(2)), ["distribution", "of a key"]),
    (lambda: mc.plain(normal, lambda key: "x"), ["distribution", "str"]),
    (lambda: mc.average("x"), ["values", "'x'"]),
    (lambda: mc.average([1.0]), ["values", "(1,)"]),
    (lambda: mc.average(3), ["values", "()"]),
    (lambda: mc.average([[1], [2, 3]]), ["values"]),
    (lambda: mc.average([1j, 2j]), ["values", "real"]),
    (lambda: mc.error_split([1.0], 1.0), ["values", "(1,)"]),
    (lambda: mc.error_split([1.0, 2.0], [1.0, 2.0]), ["truth", "()", "(2,)"]),
    (lambda: mc.error_split([1.0, 2.0], "x"), ["truth", "'x'"]),
    (lambda: mc.rejection(3, Q, log_envelope=3.0), ["logdensity", "3"]),
    (lambda: mc.rejection(normal, 3, log_envelope=3.0), ["distribution", "3"]),
    (lambda: mc.rejection(normal, Q, log_envelope="x"), ["log_envelope", "'x'"]),
    (lambda: mc.rejection(normal, Q, log_envelope=math.inf), ["log_envelope", "inf"]),
    (lambda: mc.rejection(normal, Q, log_envelope=3.0, num_draws=0), ["num_draws", "0"]),
    (lambda: mc.rejection(normal, Q, log_envelope=3.0, max_proposals=2**40), ["max_proposals", str(2**40)]),
    (lambda: mc.rejection(normal, Q, log_envelope=3.0, batch_size=0), ["batch_size", "0"]),
    (lambda: mc.rejection(normal, Q, log_envelope=3.0, seed=1.5), ["seed", "1.5"]),
    (lambda: mc.rejection(normal, Q, log_envelope=3.0, data="x"), ["data", "numbers"]),
    (lambda: mc.rejection(lambda x: (x, x), Q, log_envelope=3.0), ["logdensity", "a tuple"]),
    (lambda: mc.rejection(lambda x: x, Q, log_envelope=3.0), ["logdensity", "(2,)"]),
    (lambda: mc.rejection(lambda: 0.0, Q, log_envelope=3.0), ["logdensity", "argument"]),
    (lambda: mc.rejection(raising, Q, log_envelope=3.0), ["logdensity", "RuntimeError: no density"]),
    (lambda: mc.rejection(normal, Q, log_envelope=-9.0), ["log_envelope", "envelope is violated"]),
    (lambda: mc.rejection(gad.Model(normal, np.zeros(3)), Q, log_envelope=3.0), ["distribution", "2", "3"]),
    (lambda: mc.rejection(gad.Model(normal, np.zeros(2, int)), Q, log_envelope=3.0), ["model", "int"]),
    (lambda: mc.importance(normal, Q, num_draws=1), ["num_draws", "1"]),
    (lambda: mc.importance(normal, Q, num_draws=10**12), ["num_draws", "GiB"]),
    (lambda: mc.importance(normal, np.zeros(2)), ["distribution", "Gaussian"]),
    (lambda: mc.importance(normal, proposals.Gaussian), ["distribution", "Gaussian(mean, factor)"]),
    (lambda: mc.importance(lambda x: None, Q), ["logdensity", "None"]),
    (lambda: mc.importance(lambda x: x @ jnp.ones(3), Q), ["logdensity", "(2,)"]),
    (lambda: mc.importance(lambda x: -jnp.inf, Q), ["support"]),
    (lambda: mc.importance(gad.Target(normal), Q, data=np.ones(2)), ["data", "Target"]),
    (lambda: mc.importance(batches(), Q), ["model", "log_density"]),
    (
        lambda: mc.importance(normal, proposals.UserDistribution(2, lambda key: "x", normal)),
        ["distribution.sample", "(2,)", "()"],
    ),
    (lambda: mc.importance(normal, Q).expectation(3), ["f", "3"]),
    (lambda: mc.importance(normal, Q).expectation(lambda x: "x"), ["f", "'x'"]),
    (lambda: mc.importance(normal, Q).expectation(lambda x: x, normalised="x"), ["normalised", "'x'"]),
    (lambda: mc.self_normalised("x", [1.0]), ["log_weights", "()"]),
    (lambda: mc.self_normalised([0.0, 0.0], [1.0]), ["values", "(1,)", "(2,)"]),
    (lambda: mc.self_normalised([0.0, np.nan], [1.0, 2.0]), ["log_weights", "1 entries", "NaN"]),
    (lambda: mc.self_normalised([0.0, np.inf], [1.0, 2.0]), ["log_weights", "+∞"]),
    (lambda: mc.self_normalised([-np.inf, -np.inf], [1.0, 2.0]), ["log_weights", "all −∞"]),
    (lambda: mc.self_normalised([0.0, 0.0], [1.0, np.nan]), ["values", "1 entries", "NaN"]),
    (lambda: mc.elbo(normal, Q, num_draws=True), ["num_draws", "True"]),
    (lambda: mc.elbo(normal, "q"), ["distribution", "'q'"]),
    (lambda: mc.elbo(lambda x: {}, Q), ["logdensity", "a dict"]),
    (lambda: mc.fit_gaussian(normal), ["init", "function of a key"]),
    (lambda: mc.fit_gaussian(normal, "x"), ["init", "numbers"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(2, int)), ["init", "int"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(2), factor="full"), ["factor", "'full'"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(2), num_steps=0), ["num_steps", "0"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(2), num_draws=1), ["num_draws", "1"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(2), step_size=2), ["step_size", "(0, 1]", "2"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(2), step_size="x"), ["step_size", "'x'"]),
    (lambda: mc.fit_gaussian(normal, np.zeros(10**6)), ["init", "GiB", "diagonal"]),
    (
        lambda: mc.fit_gaussian(
            normal, proposals.StudentT(jnp.zeros(2), gad.factors.Diagonal(jnp.ones(2)), jnp.asarray(3.0))
        ),
        ["init", "StudentT"],
    ),
    (lambda: mc.fit_gaussian(raising, np.zeros(2)), ["logdensity", "RuntimeError: no density"]),
    (lambda: mc.fit_gaussian(lambda x: x, np.zeros(2)), ["logdensity", "(2,)"]),
    (lambda: mc.fit_gaussian(lambda x: jnp.nan * normal(x), np.zeros(2), num_steps=2), ["init", "support"]),
    (lambda: mc.smc(normal, Q, sampler="mala"), ["sampler", "'mala'"]),
    (lambda: mc.smc(normal, Q, sampler=gad.mala), ["sampler", "mala()"]),
    (lambda: mc.smc(normal, Q, sampler=gad.ula(0.1)), ["sampler", "ula", "rejects"]),
    (lambda: mc.smc(normal, Q, num_particles=4), ["num_particles", "4", "5"]),
    (lambda: mc.smc(normal, Q, num_particles=10**12), ["num_particles", "GiB"]),
    (lambda: mc.smc(normal, Q, ess_share=1.5), ["ess_share", "1.5"]),
    (lambda: mc.smc(normal, Q, ess_share="x"), ["ess_share", "'x'"]),
    (lambda: mc.smc(normal, Q, num_adapt=-1), ["num_adapt", "-1"]),
    (lambda: mc.smc(normal, Q, num_moves=0), ["num_moves", "0"]),
    (lambda: mc.smc(normal, Q, max_stages=0), ["max_stages", "0"]),
    (lambda: mc.smc(lambda x: "x", Q), ["logdensity", "a str"]),
    (lambda: mc.smc(raising, Q), ["logdensity", "RuntimeError: no density"]),
    (lambda: mc.systematic_resampling("x"), ["weights", "'x'"]),
    (lambda: mc.systematic_resampling(np.ones((2, 2))), ["weights", "(N,)"]),
    (lambda: mc.systematic_resampling(np.array([1.0, -1.0])), ["weights", "at least 0"]),
    (lambda: mc.systematic_resampling(np.zeros(3)), ["weights", "above 0"]),
    (lambda: mc.systematic_resampling(np.ones(3), seed="x"), ["seed", "'x'"]),
]

MINIBATCHES = [
    (lambda: gad.Minibatches(3, likelihood, ROWS), ["log_prior", "3"]),
    (lambda: gad.Minibatches(normal, "x", ROWS), ["log_likelihood", "'x'"]),
    (lambda: gad.Minibatches(normal, likelihood, None), ["rows", "None"]),
    (lambda: gad.Minibatches(normal, likelihood, 3), ["rows", "()"]),
    (lambda: gad.Minibatches(normal, likelihood, "x"), ["rows", "numbers"]),
    (lambda: gad.Minibatches(normal, likelihood, np.zeros((0, 2))), ["rows", "(0, 2)"]),
    (lambda: gad.Minibatches(normal, likelihood, {"x": np.ones((6, 2)), "y": np.ones(5)}), ["rows", "(5,)"]),
    (lambda: gad.Minibatches(normal, likelihood, np.array(["a"])), ["rows", "numbers"]),
    (lambda: gad.Minibatches(normal, likelihood, np.array([math.nan])), ["rows", "NaN"]),
    (lambda: gad.Minibatches(normal, likelihood, ROWS, batch_size=0), ["batch_size", "0"]),
    (lambda: gad.Minibatches(normal, likelihood, ROWS, batch_size=7), ["batch_size", "7"]),
    (lambda: gad.Minibatches(normal, likelihood, ROWS, batch_size="x"), ["batch_size", "'x'"]),
    (lambda: gad.Minibatches(normal, likelihood, ROWS, num_rows=6), ["num_rows", "6"]),
    (lambda: gad.Minibatches(normal, likelihood, iter([]), num_rows=6).feed(0), ["rows", "empty"]),
    (lambda: gad.Minibatches(normal, likelihood, iter([ROWS])), ["num_rows", "iterator"]),
    (lambda: gad.Minibatches(normal, likelihood, iter([ROWS]), num_rows="x"), ["num_rows", "'x'"]),
    (lambda: batches().with_control("x"), ["position", "numbers"]),
    (
        lambda: gad.Minibatches(normal, likelihood, iter([ROWS]), num_rows=6).with_control(np.zeros(2)),
        ["control variate", "iterator"],
    ),
    (lambda: batches().mode("x"), ["init", "numbers"]),
    (lambda: batches().mode(np.zeros(2), num_iterations=0), ["num_iterations", "0"]),
    (lambda: batches().mode(np.zeros(2), learning_rate=-1), ["learning_rate", "-1"]),
    (lambda: batches().mode(np.zeros(2), seed="x"), ["seed", "'x'"]),
    (lambda: gad.Minibatches(normal, lambda x, rows: 0.0, ROWS).mode(np.zeros(2)), ["log_likelihood", "(6,)", "()"]),
    (lambda: gad.Minibatches(lambda x: x, likelihood, ROWS).mode(np.zeros(2)), ["log_prior", "(2,)"]),
    (lambda: run(batches(), gad.mala()), ["sampler", "mala", "sgld"]),
    (lambda: run(gad.Minibatches(normal, lambda x: x, ROWS), SGLD), ["log_likelihood", "argument"]),
    (lambda: run(gad.Minibatches(normal, lambda x, rows: None, ROWS), SGLD), ["log_likelihood", "None"]),
    (lambda: run(gad.Minibatches(lambda x: "x", likelihood, ROWS), SGLD), ["log_prior", "a str"]),
]

RULES_AND_PLANS = [
    (lambda: gad.Until(), ["until", "ess", "rhat", "seconds"]),
    (lambda: gad.Until(ess="x"), ["until: ess", "'x'"]),
    (lambda: gad.Until(ess=-1), ["until: ess", "-1"]),
    (lambda: gad.Until(rhat=1), ["until: rhat", "1.01"]),
    (lambda: gad.Until(rhat=[1.1]), ["until: rhat", "[1.1]"]),
    (lambda: gad.Until(seconds=math.nan), ["until: seconds", "nan"]),
    (lambda: gad.Until(seconds=True), ["until: seconds", "True"]),
    (lambda: gad.Until(ess=100, every=3), ["until: every", "3"]),
    (lambda: gad.Until(ess=100, every=4.5), ["until: every", "4.5"]),
    (lambda: gad.Plan(()), ["stages", "Draw", "[]"]),
    (lambda: gad.Plan(3), ["stages", "3"]),
    (lambda: gad.Plan((gad.rwm(),)), ["stages", "Draw", "tuple"]),
    (lambda: gad.Plan((Search(), Learn(gad.rwm()))), ["stages", "Draw"]),
    (lambda: gad.Plan((Draw(gad.rwm()), Draw(gad.rwm()))), ["stages", "Draw"]),
    (lambda: gad.Plan((Search(), Learn(gad.rwm(), 0.5), Draw(gad.rwm()))), ["stages", "sum to 1", "0.5"]),
    (lambda: gad.Plan((Search(), Learn(gad.rwm(), "x"), Draw(gad.rwm()))), ["stages", "share", "'x'"]),
    (lambda: gad.Plan((Search(), Draw(gad.rwm())), num_chains=0), ["num_chains", "at least 1", "0"]),
    (lambda: gad.Plan((Search(), Draw(gad.rwm())), num_chains=None), ["num_chains", "None"]),
    (lambda: gad.Plan((Search(), Draw("rwm"))), ["sampler", "'rwm'", "rwm()"]),
    (lambda: gad.Plan((Search(), Draw(gad.rwm))), ["sampler", "rwm()"]),
    (lambda: gad.Plan((*gad.default().stages[:-1], Draw(gad.rwm()))), ["stages", "default", "sampler"]),
    (lambda: gad.Sampler("own", 3, gad.adaptations.NoAdaptation()), ["make_kernel", "3"]),
    (lambda: gad.Sampler("own", normal, 3), ["adaptation", "3"]),
    (lambda: gad.Sampler("own", normal, gad.adaptations.NoAdaptation(), "x"), ["num_warmup", "'x'"]),
]

FACTORS_AND_PROPOSALS = [
    (lambda: factors.Diagonal(3.0), ["scale", "(n,)", "3.0"]),
    (lambda: factors.Diagonal([1.0, 2.0]), ["scale", "(n,)", "[1.0, 2.0]"]),
    (lambda: factors.Diagonal("x"), ["scale", "'x'"]),
    (lambda: factors.Diagonal(None), ["scale", "None"]),
    (lambda: factors.Diagonal(jnp.ones(2, int)), ["scale", "int"]),
    (lambda: factors.Cholesky(jnp.ones(3)), ["matrix", "(n, n)", "(3,)"]),
    (lambda: factors.Cholesky(jnp.ones((2, 3))), ["matrix", "(n, n)", "(2, 3)"]),
    (lambda: factors.Cholesky([[1.0]]), ["matrix", "(n, n)", "[[1.0]]"]),
    (lambda: factors.SquareRoot(jnp.ones(3)), ["matrix", "(n, n)", "(3,)"]),
    (lambda: factors.SquareRoot("x"), ["matrix", "'x'"]),
    (lambda: factors.Scaled("x", factors.Diagonal(jnp.ones(2))), ["multiplier", "'x'"]),
    (lambda: factors.Scaled(2.0, 3), ["base", "3"]),
    (lambda: factors.LowRank(jnp.ones(3), jnp.ones((2, 1)), jnp.ones((3, 1))), ["left", "(3, r)", "(2, 1)"]),
    (lambda: factors.LowRank("x", jnp.ones((2, 1)), jnp.ones((3, 1))), ["scale", "'x'"]),
    (lambda: proposals.RandomWalk(3), ["factor", "3"]),
    (lambda: proposals.RandomWalk(jnp.eye(2)), ["factor", "Cholesky"]),
    (lambda: proposals.RandomWalk(factors.Diagonal), ["factor", "Diagonal"]),
    (lambda: proposals.Langevin("x"), ["factor", "'x'"]),
    (lambda: proposals.Barker(jnp.ones(2)), ["factor", "Diagonal"]),
    (lambda: proposals.Hamiltonian(jnp.ones(2), jnp.asarray(0.1)), ["factor", "Diagonal"]),
    (lambda: proposals.Hamiltonian(factors.Diagonal(jnp.ones(2)), "x"), ["step_size", "'x'"]),
    (lambda: proposals.Hamiltonian(factors.Diagonal(jnp.ones(2)), jnp.asarray(0.1), 0), ["num_steps", "0"]),
    (
        lambda: proposals.Hamiltonian(factors.Diagonal(jnp.ones(2)), jnp.asarray(0.1), 3, proposals.Euler()),
        ["integrator", "Leapfrog()"],
    ),
    (lambda: proposals.Gaussian(jnp.zeros(3), factors.Diagonal(jnp.ones(2))), ["mean", "3", "2"]),
    (lambda: proposals.Gaussian([0.0], factors.Diagonal(jnp.ones(1))), ["mean", "[0.0]"]),
    (lambda: proposals.Gaussian(0.0, factors.Diagonal(jnp.ones(1))), ["mean", "0.0"]),
    (lambda: proposals.Gaussian(jnp.zeros(2), jnp.eye(2)), ["factor", "Cholesky"]),
    (lambda: proposals.StudentT(jnp.zeros(2), jnp.eye(2), 3.0), ["factor", "Cholesky"]),
    (lambda: proposals.StudentT(jnp.zeros(2), factors.Diagonal(jnp.ones(2)), "x"), ["degrees_of_freedom", "'x'"]),
    (lambda: proposals.UserDistribution("x", normal, normal), ["size", "'x'"]),
    (lambda: proposals.UserDistribution(2, 3, normal), ["sample_of", "3"]),
    (lambda: proposals.UserDistribution(2, normal, None), ["log_density_of", "None"]),
    (lambda: proposals.Independent(3), ["distribution", "3"]),
    (lambda: proposals.Independent(normal), ["distribution", "normal"]),
    (lambda: kernels.Metropolis(3), ["proposal", "3"]),
]

DIAGNOSTICS = [
    (lambda: gad.diagnose(3, normal), ["tree", "3"]),
    (lambda: gad.diagnose({"posterior": 1}, normal), ["tree", "posterior"]),
    (lambda: gad.diagnose(xr.DataTree(), normal), ["tree", "posterior"]),
    (lambda: gad.diagnose(TREE, 3), ["f", "3"]),
    (lambda: gad.diagnose(TREE, lambda: 0.0), ["f", "position"]),
    (lambda: gad.diagnose(TREE, lambda x: "x"), ["f", "'x'"]),
    (lambda: gad.diagnose(TREE, lambda x: None), ["f", "None"]),
    (lambda: gad.diagnose(TREE, raising), ["f", "RuntimeError: no density"]),
    (lambda: gad.diagnose(TREE, lambda x: x["a"]), ["f", "failed"]),
    (lambda: gad.diagnose(TREE, normal, superchains=3), ["superchains", "4", "3"]),
    (lambda: gad.diagnose(TREE, normal, superchains="x"), ["superchains", "'x'"]),
    (lambda: gad.diagnose(TREE, normal, superchains=0), ["superchains", "0"]),
    (lambda: diagnostics.rhat("x"), ["draws", "'x'"]),
    (lambda: diagnostics.rhat(np.ones(3)), ["draws", "(chain, draw, n)", "(3,)"]),
    (lambda: diagnostics.ess_table(np.ones((2, 3))), ["draws", "(2, 3)"]),
    (lambda: diagnostics.ess_table(np.ones((2, 0, 3))), ["draws", "(2, 0, 3)"]),
    (lambda: diagnostics.ess_table(None), ["draws", "None"]),
    (lambda: diagnostics.initial_monotone_ess([[1], [2, 3]]), ["draws", "(chain, draw, n)"]),
    (lambda: diagnostics.initial_monotone_ess(np.ones((2, 3, 1), complex)), ["draws", "real"]),
    (lambda: gad.predictive(3, TREE, ROWS), ["function", "3"]),
    (lambda: gad.predictive(likelihood, 3, ROWS), ["draws", "(chain, draw)"]),
    (lambda: gad.predictive(likelihood, "x", ROWS), ["draws", "'x'"]),
    (lambda: gad.predictive(likelihood, np.ones(3), ROWS), ["draws", "(3,)"]),
    (lambda: gad.predictive(likelihood, np.ones((2, 0, 2)), ROWS), ["draws", "no draw", "(2, 0)"]),
    (lambda: gad.predictive(likelihood, TREE, 3), ["rows", "3"]),
    (lambda: gad.predictive(likelihood, TREE, None), ["rows", "None"]),
    (lambda: gad.predictive(likelihood, TREE, {"x": np.ones((6, 2)), "y": np.ones(5)}), ["rows", "(5,)"]),
    (lambda: gad.predictive(likelihood, TREE, {"x": "abc"}), ["rows", "numbers"]),
    (lambda: gad.predictive(likelihood, TREE, ROWS, log="x"), ["log", "'x'"]),
    (lambda: gad.predictive(likelihood, TREE, ROWS, draws_at_once=0), ["draws_at_once", "0"]),
    (lambda: gad.predictive(lambda x: x, TREE, ROWS), ["function", "(position, rows)"]),
    (lambda: gad.predictive(lambda x, rows: None, TREE, ROWS), ["function", "None"]),
    (lambda: gad.predictive(lambda x, rows: 0.0, TREE, ROWS), ["function", "6", "()"]),
    (lambda: gad.predictive(lambda x, rows: raising(x), TREE, ROWS), ["function", "RuntimeError: no density"]),
]

FINITE_CHAINS = [
    (lambda: finite.FiniteChain("x"), ["transition", "'x'"]),
    (lambda: finite.FiniteChain([[1.0, 0.0]]), ["transition", "(1, 2)"]),
    (lambda: finite.FiniteChain([[0.5, 0.4], [0, 1]]), ["transition", "row 0", "0.9"]),
    (lambda: finite.FiniteChain([[math.nan]]), ["transition", "row 0"]),
    (lambda: finite.FiniteChain([[1j]]), ["transition", "real"]),
    (lambda: finite.FiniteChain(np.eye(2)).marginal([1.0], 3), ["start", "(1,)", "2"]),
    (lambda: finite.FiniteChain(np.eye(2)).marginal(HALVES, -1), ["t", "-1"]),
    (lambda: finite.FiniteChain(np.eye(2)).marginal([0.5, 0.7], 1), ["start", "sum"]),
    (lambda: finite.FiniteChain(np.eye(2)).simulate(0, -1, HALVES), ["num_steps", "-1"]),
    (lambda: finite.FiniteChain(np.eye(2)).simulate("x", 3, HALVES), ["seed", "'x'"]),
    (lambda: finite.FiniteChain(np.eye(2)).simulate(0, 3, HALVES, 0), ["num_chains", "0"]),
    (lambda: finite.FiniteChain(np.eye(2)).mixing_time("x"), ["distance", "'x'"]),
    (lambda: finite.FiniteChain(np.eye(2)).mixing_time(0), ["distance", "0"]),
    (lambda: finite.FiniteChain(np.eye(2)).imbalance([0.5]), ["law", "(1,)"]),
    (lambda: finite.FiniteChain(np.eye(2)).stationary_law, ["stationary law", "[0]"]),
]


CALLS = MONTE_CARLO + MINIBATCHES + RULES_AND_PLANS + FACTORS_AND_PROPOSALS + DIAGNOSTICS + FINITE_CHAINS


@pytest.mark.parametrize(("call", "words"), CALLS)
def test_calls_beside_sample(call, words):
    too_large = "GiB" in words
    refused(call, *words, kinds=(MemoryError,) if too_large else (TypeError, ValueError))
