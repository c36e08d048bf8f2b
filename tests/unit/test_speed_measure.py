"""Algorithm 1's own coordinates and safeguards, each against a formula or a planted bug."""

import importlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import PowerGain
from gadabout.adaptations.coordinates import clipped, growth, units
from gadabout.adaptations.pool import ALONE
from gadabout.algorithms import PAPER
from gadabout.factors import LowerOuter, SquareRoot

NORMAL = gad.Target(lambda x: -0.5 * x @ x)
LOWER = jnp.asarray([[2.0, 0.0, 0.0], [-1.0, 0.5, 0.0], [3.0, 0.0, 4.0]])
FACTORS = {
    "dense": gad.factors.Cholesky(LOWER),
    "diagonal": gad.factors.Diagonal(jnp.asarray([0.5, 8.0, 1.1])),
    "scaled": gad.factors.Scaled(jnp.asarray(0.6), gad.factors.Cholesky(LOWER)),
    "square": SquareRoot(LOWER),
}
RECIPES = {
    "fast": gad.gad_mala,
    "exact": lambda **settings: gad.gad_mala("exact", **settings),
    "diagonal": lambda **settings: gad.gad_mala(factor="diagonal", **settings),
    "rwm": gad.gad_rwm,
}


def updated(adaptation, proposal, gradient, hopeless=False, steps=1, accepted=False):
    """Kernel and memory after updates from one chain's given gradient of the log-ratio."""
    kernel = gad.kernels.Metropolis(proposal, learn=True)
    states = jax.vmap(lambda x: kernel.init(x, NORMAL))(jnp.zeros((1, 3)))
    memory = adaptation.init(kernel, states)
    module = importlib.import_module("gadabout.adaptations.speed_measure")
    one = lambda value: jnp.asarray([value])
    evidence = module.ChainGradient(
        jax.tree.map(lambda g: g[None], gradient), one(0.0), one(True), one(hopeless), one(accepted), states
    )
    for _ in range(steps):
        pooled = adaptation.pool(memory, kernel, evidence, ALONE)
        kernel, memory, _ = adaptation.update(memory, kernel, states, pooled)
    return kernel, memory


@pytest.mark.parametrize("kind", FACTORS)
def test_units_and_growth_scale_with_the_factor(kind):
    """c L has c times the units, and its growth in units is that of L: log c is what it moves."""
    factor = FACTORS[kind]
    grown = jax.tree.map(lambda leaf, s, d: leaf + 1e-6 * s * d, factor, units(factor), growth(factor, factor))
    e = jnp.asarray([1.0, -2.0, 0.5])
    expected = (2.0 if kind == "scaled" else 1.0) * 1e-6  # the multiplier and its base both grow
    np.testing.assert_allclose(grown.mul(e) / factor.mul(e) - 1, expected, rtol=1e-3)
    if kind in ("dense", "square"):
        np.testing.assert_allclose(units(factor).matrix[:, 0], np.linalg.norm(LOWER, axis=1))


def test_outside_factors_the_unit_is_one_and_growth_goes_up_the_entropy():
    theta = {"log_scale": jnp.asarray([0.3, -5.0])}
    assert jax.tree.leaves(units(theta)) == [1.0]
    np.testing.assert_array_equal(growth(theta, {"log_scale": jnp.asarray([7.0, -2.0])})["log_scale"], [1, -1])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_an_outer_product_that_overflows_is_clipped_and_keeps_its_direction(dtype):
    big = jnp.sqrt(jnp.finfo(dtype).max) * 10
    u, v = jnp.asarray([1.0, -2.0], dtype) * big, jnp.asarray([3.0, 1.0], dtype) * big
    assert not jnp.isfinite(jnp.outer(u, v)).all()
    product = clipped(LowerOuter(u, v), jnp.asarray(100.0, dtype))
    whole = jnp.outer(product.u, product.v)
    np.testing.assert_allclose(jnp.linalg.norm(whole), 100, rtol=1e-5)
    np.testing.assert_allclose(whole / whole[0, 0], jnp.outer(u / u[0], v / v[0]), rtol=1e-5)
    small = LowerOuter(u / big, v / big)
    assert eqx.tree_equal(clipped(small, jnp.asarray(100.0, dtype)), small)
    leaf = clipped(jnp.asarray([3.0, 4.0], dtype) * big, jnp.asarray(5.0, dtype))
    np.testing.assert_allclose(leaf, [3, 4], rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_rmsprop_survives_a_gradient_whose_square_overflows(dtype):
    rule = gad.adaptations.RMSprop(jnp.asarray(0.01, dtype))
    memory = rule.init(jnp.zeros(2, dtype))
    huge = jnp.asarray([0.5 * jnp.finfo(dtype).max, 1.0], dtype)
    _, memory = rule.update(huge, memory)
    assert jnp.isfinite(memory.mean_square).all()
    update = jax.jit(lambda memory: rule.update(jnp.ones(2, dtype), memory))
    for _ in range(9_000 if dtype == jnp.float64 else 1_200):
        step, memory = update(memory)
    np.testing.assert_allclose(step[0], step[1], rtol=1e-3)  # it has been forgotten


@pytest.mark.parametrize("recipe", RECIPES)
def test_learning_does_not_know_the_units_of_x(recipe):
    """The same chain on N(0, I) and N(0, c²I) from starts and scales in proportion: θ in proportion, equal β."""
    runs = []
    for c in (1.0, 2.0**-7, 2.0**9):  # powers of two round alike
        target = gad.Target(lambda x, c=c: -0.5 * jnp.sum((x / c) ** 2))
        sampler = RECIPES[recipe](scale=0.3 * c)
        state = sampler.init(target, c * jnp.asarray([[0.3, -1.0], [2.0, 0.5]]))
        step = jax.jit(lambda s, k, sampler=sampler, target=target: sampler.step(k, s, target))
        state, _ = jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 300))
        runs.append((jax.tree.leaves(state.kernel)[0] / c, state.memory.beta, state.position / c))
    for run in runs[1:]:
        for here, there in zip(run, runs[0], strict=True):
            np.testing.assert_allclose(here, there, rtol=1e-9)


@pytest.mark.parametrize("planted", [False, True])
@pytest.mark.parametrize("settings", [{}, PAPER], ids=["relative", "paper"])
def test_the_diagonal_of_a_factor_stays_at_its_floor(settings, planted, monkeypatch):
    """Three large steps push L₃₃ below zero; with the floor disconnected (the planted bug) it stays there."""
    if planted:
        module = importlib.import_module("gadabout.adaptations.speed_measure")
        monkeypatch.setattr(module, "floored", lambda theta, lowest, relative: theta)
    adaptation = gad.gad_rwm(learning_rate=2.0, **settings).adaptation
    push = gad.proposals.RandomWalk(gad.factors.Cholesky(jnp.zeros((3, 3)).at[2, 2].set(-50.0)))
    kernel, memory = updated(adaptation, gad.proposals.RandomWalk(gad.factors.Cholesky(LOWER)), push, steps=3)
    L = kernel.proposal.factor.matrix
    if planted:
        assert L[2, 2] < 0
        return
    np.testing.assert_allclose(L[2, 2], 1e-3 if settings else 1e-3 * jnp.linalg.norm(L[2]), rtol=0.5)
    assert adaptation.verdict(memory, kernel)["factor_at_floor"]
    kernel, memory = updated(adaptation, gad.proposals.RandomWalk(gad.factors.Cholesky(LOWER)), push, steps=0)
    assert not adaptation.verdict(memory, kernel)["factor_at_floor"]


def beta_after(adaptation, steps, accepted):
    zero = gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.zeros(3)))
    kernel, memory = updated(
        adaptation, gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.ones(3))), zero, steps=steps, accepted=accepted
    )
    return memory.beta, adaptation.verdict(memory, kernel)


def test_beta_stays_between_floor_and_cap():
    """While all is rejected, or all accepted; with the floor or the cap removed β passes it."""
    adaptation = gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25, beta_rate=0.5)
    beta, verdict = beta_after(adaptation, 90, accepted=False)
    assert beta == adaptation.beta_floor
    assert verdict["beta_at_floor"]
    assert not verdict["beta_at_cap"]
    beta, verdict = beta_after(adaptation, 30, accepted=True)
    assert beta == adaptation.beta_cap == 100
    assert verdict["beta_at_cap"]
    assert not verdict["beta_at_floor"]
    no_floor = eqx.tree_at(lambda a: a.beta_floor, adaptation, jnp.asarray(0.0))
    assert beta_after(no_floor, 90, accepted=False)[0] < adaptation.beta_floor  # the planted bug
    assert (
        beta_after(
            gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25, 0.5, beta_cap=None), 30, accepted=True
        )[0]
        > 100
    )


def test_a_stalled_chain_halves_the_factor_and_empties_the_optimiser():
    zero = gad.proposals.RandomWalk(gad.factors.Cholesky(jnp.zeros((3, 3))))
    adaptation = gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25, beta_rate=1e-9, patience=4)
    frozen = eqx.tree_at(lambda a: a.optimiser.learning_rate, adaptation, jnp.asarray(0.0))
    for steps, share in ((3, 1), (4, 0.5), (8, 0.25)):
        kernel, memory = updated(
            frozen, gad.proposals.RandomWalk(gad.factors.Cholesky(LOWER)), zero, hopeless=True, steps=steps
        )
        np.testing.assert_allclose(kernel.proposal.factor.matrix, share * LOWER, rtol=1e-12)
    assert memory.shrinks == 2
    assert memory.optimiser.empty
    never = eqx.tree_at(lambda a: a.patience, frozen, None)
    kernel, _ = updated(never, gad.proposals.RandomWalk(gad.factors.Cholesky(LOWER)), zero, hopeless=True, steps=8)
    np.testing.assert_array_equal(kernel.proposal.factor.matrix, LOWER)


def test_a_gain_multiplies_both_rates_and_may_let_adaptation_go_on():
    half = gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25, gain=PowerGain(1.0, 1.0, 1.0))  # γ₁ = ½
    whole = gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25)
    push = gad.proposals.RandomWalk(gad.factors.Cholesky(jnp.tril(jnp.ones((3, 3)))))
    steps, betas = [], []
    for adaptation in (half, whole):
        kernel, memory = updated(adaptation, gad.proposals.RandomWalk(gad.factors.Cholesky(LOWER)), push)
        steps.append(kernel.proposal.factor.matrix - LOWER)
        betas.append(memory.beta - 1)
    np.testing.assert_allclose(2 * steps[0], steps[1], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(2 * betas[0], betas[1])
    assert half.diminishing
    assert not whole.diminishing
    assert not gad.adaptations.SpeedMeasure(gad.adaptations.RMSprop(1e-3), 0.25, gain=PowerGain(1.0, 0.0)).diminishing
    assert gad.gad_mala(adapt_for_ever=True).adaptation.continues
    with pytest.raises(ValueError, match=r"adapt_for_ever.*do not diminish"):
        gad.gad_mala(adapt_for_ever=True, gain=None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_dead_component_and_a_flat_covariance_leave_a_mixture(dtype):
    """All chains at one point, far from the second of two components, whose responsibility underflows."""
    with jax.enable_x64(dtype == "float64"):
        kernel = gad.mixture_independence(2).kernel(2)
        adaptation = gad.mixture_independence(2).adaptation
        module = importlib.import_module("gadabout.adaptations.online_em")
        Memory, Evidence = module.MixtureStatistics, module.Membership
        tiny = jnp.finfo(float).tiny
        flat = jnp.asarray([[[1e8, 1e8], [1e8, 1e8]], [[1.0, 0.0], [0.0, 1.0]]])
        memory = Memory(jnp.asarray([1.0, 0.0]), jnp.zeros((2, 2)), flat, jnp.asarray(3))
        for r in (0.0, float(tiny)):
            evidence = Evidence(jnp.zeros((4, 2)), jnp.tile(jnp.asarray([1.0, r]), (4, 1)))
            after, renewed, _ = adaptation.update(memory, kernel, None, evidence)
            assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((after, renewed)))
        np.testing.assert_allclose(renewed.covariances[1], jnp.eye(2), atol=0.5)


def test_log_of_a_uniform_number_that_is_zero_accepts_nothing(monkeypatch):
    """With the smallest uniform number there is, a hopeless proposal is rejected and an equal one accepted."""
    for u in (0.0, 1 - 2.0**-53):
        monkeypatch.setattr(jax.random, "exponential", lambda key, dtype=float, u=u: -jnp.log1p(-jnp.asarray(u, dtype)))
        for drop, accepted in ((1e6, False), (0.0, True)):
            target = gad.Target(lambda x, drop=drop: jnp.where(jnp.all(x == 0), 0.0, -drop))
            kernel = gad.kernels.Metropolis(gad.proposals.RandomWalk(gad.factors.Diagonal(jnp.ones(2))))
            _, info = kernel.step(jax.random.key(0), kernel.init(jnp.zeros(2), target), target)
            assert info.accepted == accepted


def test_an_infinite_log_ratio_is_not_finite():
    """log q overflows in float32 where π(y) and its gradient do not."""
    with jax.enable_x64(False):
        target = gad.Target(lambda x: -1e18 * jnp.sum(jnp.abs(x)))
        kernel = gad.kernels.Metropolis(gad.proposals.Langevin(gad.factors.Diagonal(jnp.full(2, 10.0))), learn=True)
        _, info = kernel.step(jax.random.key(0), kernel.init(jnp.full(2, 1e-12), target), target)
        assert not (info.finite and jnp.isneginf(info.log_ratio))
        assert not info.accepted
