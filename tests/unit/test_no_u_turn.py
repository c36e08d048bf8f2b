"""The No-U-Turn kernel beside BlackJAX's own, in whitened coordinates, at its limits; and Stan's windows."""

from itertools import pairwise

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import Pool, doubling_windows
from gadabout.density import HostDensity
from gadabout.driver import loop, runner
from gadabout.driver.runner import ALONE
from gadabout.kernels import NoUTurn
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)
SIGMA = jnp.array([[1.0, 0.6, 0.2], [0.6, 2.0, 0.1], [0.2, 0.1, 1.5]])
L = jnp.linalg.cholesky(SIGMA)
START = jnp.array([0.1, 0.2, 0.3])
KEYS = jax.random.split(jax.random.key(3), 200)


def no_u_turn(factor, step_size=0.3, depth=6):
    return NoUTurn(factor, jnp.asarray(step_size), jnp.asarray(depth), jnp.asarray(depth), depth)


@eqx.filter_jit
def draws(kernel, x, target=TARGET, keys=KEYS):
    """Positions (200, n) and records of a chain from x."""

    def step(state, key):
        state, info = kernel.step(key, state, target)
        return state, (state.x, info.record)

    return jax.lax.scan(step, kernel.init(x, target), keys)[1]


@pytest.mark.parametrize(
    ("factor", "inverse_mass"),
    [
        (gad.factors.Diagonal(jnp.ones(3)), jnp.ones(3)),
        (gad.factors.Diagonal(jnp.array([0.5, 1, 2])), jnp.array([0.25, 1, 4])),
        (gad.factors.Cholesky(L), SIGMA),
    ],
    ids=["unit", "diagonal", "dense"],
)
def test_it_makes_blackjaxs_moves_from_the_same_keys(factor, inverse_mass):
    """200 transitions, to rounding: positions, acceptance statistic, energies, lengths and depths."""
    nuts = blackjax.nuts(law_target.log_density, 0.3, inverse_mass, max_num_doublings=6)

    @jax.jit
    def theirs(x):
        def step(state, key):
            state, info = nuts.step(key, state)
            return state, (state.position, info)

        return jax.lax.scan(step, nuts.init(x), KEYS)[1]

    (x, record), (y, info) = draws(no_u_turn(factor), START), theirs(START)
    np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(record["acceptance_rate"], info.acceptance_rate, rtol=1e-9)
    np.testing.assert_allclose(record["energy"], info.energy, rtol=1e-9)
    np.testing.assert_array_equal(record["n_steps"], info.num_integration_steps)
    np.testing.assert_array_equal(record["tree_depth"], info.num_trajectory_expansions)
    assert 5 < record["n_steps"].mean() < 30
    np.testing.assert_array_equal(record["gradient_evaluations"], record["n_steps"])


def test_a_factor_is_a_change_of_coordinates():
    """With factor L on π, as with the unit factor on π(L z), z = L⁻¹x."""
    white = gad.Target(lambda z: law_target.log_density(L @ z))
    z, _ = draws(no_u_turn(gad.factors.Diagonal(jnp.ones(3))), jnp.linalg.solve(L, START), white)
    x, _ = draws(no_u_turn(gad.factors.Cholesky(L)), START)
    np.testing.assert_allclose(x, z @ L.T, rtol=1e-9, atol=1e-12)


def test_trajectories_end_at_the_depth_limit_that_holds_at_run_time():
    kernel = no_u_turn(gad.factors.Diagonal(jnp.ones(3)), step_size=1e-4, depth=5)
    for depth in (1, 3, 5):
        limited = eqx.tree_at(lambda k: k.max_depth, kernel, jnp.asarray(depth))
        _, record = draws(limited, START, keys=KEYS[:20])
        np.testing.assert_array_equal(record["n_steps"], 2**depth - 1)
        assert record["reached_max_treedepth"].all()
    _, record = draws(no_u_turn(gad.factors.Diagonal(jnp.ones(3))), START)
    assert not record["reached_max_treedepth"].any()


def test_warm_up_may_have_a_limit_of_its_own():
    sampler = gad.nuts("unit", step_size=1e-5, max_depth=2, warmup_max_depth=4, target_acceptance=0.999)
    kernel = sampler.kernel(3)
    assert kernel.deepest == kernel.max_depth == 4
    tree = gad.sample(
        law_target.log_density, START, sampler=sampler, num_chains=1, num_warmup=1, num_draws=30, progress=False
    )
    assert int(tree["warmup_sample_stats"]["n_steps"].max()) == 15
    assert int(tree["sample_stats"]["n_steps"].max()) == 3


def test_a_step_much_too_large_diverges_and_the_chain_stays():
    steep = gad.Target(lambda x: -1e4 * x @ x)
    x, record = draws(no_u_turn(gad.factors.Diagonal(jnp.ones(3)), step_size=1.0), START, steep)
    assert record["diverging"].all()
    assert not record["accepted"].any()
    assert not record["nonfinite"].any()
    np.testing.assert_array_equal(x, jnp.broadcast_to(START, x.shape))
    np.testing.assert_array_equal(record["acceptance_rate"], 0)


@pytest.mark.parametrize("beyond", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_is_not_finite_ends_a_trajectory_and_poisons_nothing(beyond):
    wall = gad.Target(lambda x: jnp.where(x[0] > 0.5, beyond, -0.5 * x @ x))
    x, record = draws(no_u_turn(gad.factors.Diagonal(jnp.ones(3))), START, wall)
    assert x[:, 0].max() <= 0.5
    assert 0 < record["nonfinite"].mean() < 1
    np.testing.assert_array_equal(record["nonfinite"], record["diverging"])
    assert all(jnp.isfinite(values).all() for values in record.values())
    assert record["accepted"].mean() > 0.5


def test_a_chain_beside_others_is_the_chain_alone():
    kernel = no_u_turn(gad.factors.Cholesky(L))
    step = jax.jit(jax.vmap(lambda key, x: kernel.step(key, kernel.init(x, TARGET), TARGET)[0].x))
    three = step(KEYS[:3], jnp.stack([START, 2 * START, -START]))
    single = jax.jit(lambda key: kernel.step(key, kernel.init(START, TARGET), TARGET)[0].x)(KEYS[0])
    np.testing.assert_allclose(three[0], single, rtol=1e-9)


def test_one_chain_is_no_batch():
    """Of a choice one branch is made, and a loop ends when it is done; of several chains both branches are."""
    choice = lambda x, y: jax.lax.cond(x > 0, jnp.sin, jnp.cos, x + y)
    for block, x in [(None, [1.0]), (None, [1.0, -1.0]), (1, [1.0, -1.0]), (2, [1.0, -1.0, 0.5, 2.0])]:
        x = jnp.array(x)
        result = Pool(block=block).each(lambda x: choice(x, 2.0), x)
        np.testing.assert_allclose(result, jnp.where(x > 0, jnp.sin(x + 2), jnp.cos(x + 2)))
    program = lambda n, block: str(jax.make_jaxpr(lambda x: Pool(block=block).each(lambda x: choice(x, 2.0), x))(
        jnp.ones(n)))  # fmt: skip
    assert "cond" in program(1, None)
    assert "cond" in program(4, 1)
    assert "cond" not in program(2, None)


def test_windows_are_stans():
    assert doubling_windows(1_000) == [75, 25, 50, 100, 200, 500, 50]
    assert doubling_windows(500) == [75, 25, 50, 100, 200, 50]
    assert doubling_windows(100) == [15, 75, 10]
    assert doubling_windows(19) == [19]
    for length in range(20, 3_000):
        first, *slow, last = doubling_windows(length)
        assert first + sum(slow) + last == length
        assert min(first, *slow, last) > 0
        assert all(b >= 2 * a for a, b in pairwise(slow))
        assert last < 2 * slow[-1]  # so that what follows the slow windows is never taken for one


@pytest.mark.parametrize("metric", ["diagonal", "dense"])
def test_a_windows_factor_is_its_regularised_covariance(metric):
    sampler = gad.nuts(metric, step_size=0.2)
    adaptation, kernel = sampler.adaptation, sampler.kernel(3)
    memory = adaptation.init(kernel, jax.vmap(lambda x: kernel.init(x, TARGET))(jnp.zeros((2, 3))))
    rng = np.random.default_rng(1)

    def window(length, kernel, memory):
        """Two chains' draws, and kernel and memory at the end of their window."""
        x = rng.normal(size=(length, 2, 3)) @ np.asarray(L).T + 5
        for row in x:
            pooled = adaptation.pool(memory, kernel, (jnp.full(2, 0.7), (jnp.asarray(row), None)), Pool())
            kernel, memory, _ = adaptation.update(memory, kernel, None, pooled)
        average = float(jnp.exp(memory.rule.log_average))
        kernel, memory, _ = adaptation.finish(memory, kernel, None)
        np.testing.assert_allclose(kernel.step_size, average, rtol=1e-12)
        return x.reshape(-1, 3), kernel, memory

    covariance = lambda kernel: np.asarray(jax.vmap(lambda e: kernel.factor.mul(kernel.factor.tmul(e)))(jnp.eye(3)))
    for length, used in [(30, False), (20, True), (40, True), (60, False)]:  # a buffer, two windows, a buffer
        before = covariance(kernel)
        x, kernel, memory = window(length, kernel, memory)
        if not used:
            np.testing.assert_array_equal(covariance(kernel), before)
            continue
        N = 2 * length
        expected = N / (N + 5) * np.cov(x.T) + 1e-3 * 5 / (N + 5) * np.eye(3)
        expected = np.diag(np.diag(expected)) if metric == "diagonal" else expected
        np.testing.assert_allclose(covariance(kernel), expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(memory.rule.shrinkage_point, np.log(10 * float(kernel.step_size)))
        assert memory.rule.count == 0


def test_settings_out_of_range():
    with pytest.raises(ValueError, match="metric must be one of"):
        gad.nuts("full")  # pyright: ignore
    with pytest.raises(ValueError, match="max_depth must be a whole number"):
        gad.nuts(max_depth=0)
    with pytest.raises(ValueError, match="warmup_max_depth must be a whole number"):
        gad.nuts(warmup_max_depth=2.5)  # pyright: ignore
    with pytest.raises(ValueError, match="target_acceptance"):
        gad.nuts(target_acceptance=1.0)


def normal_of_the_host(x):
    return HostDensity(lambda rows: (-0.5 * np.sum(rows**2, 1), -rows))(x)


@pytest.mark.filterwarnings("ignore::UserWarning")  # so short a run is told of much
@pytest.mark.parametrize(
    ("sampler", "log_density", "operations", "block"),
    [
        (gad.nuts(), law_target.log_density, ALONE, 1),
        (gad.nuts(), law_target.log_density, 0.0, None),
        (gad.nuts(), normal_of_the_host, ALONE, None),
        (gad.cycle(gad.hmc(), gad.nuts()), law_target.log_density, ALONE, 1),
        (gad.hmc(), law_target.log_density, ALONE, None),
    ],
    ids=["nuts", "dear", "host", "cycle", "hmc"],
)
def test_chains_go_one_by_one_where_trajectories_differ(monkeypatch, sampler, log_density, operations, block):
    asked, advance = set(), loop.advance
    monkeypatch.setattr(runner, "ALONE", operations)
    monkeypatch.setattr(loop, "advance", lambda *parts, **how: (asked.add(how["block"]), advance(*parts, **how))[1])
    gad.sample(log_density, START, sampler=sampler, num_warmup=20, num_draws=5, progress=False)
    assert asked == {block}


@pytest.mark.filterwarnings("ignore::UserWarning")  # so short a run is told of much
def test_chains_that_go_one_by_one_are_those_of_blocks_of_one():
    """Bit by bit; blocks of four round otherwise, so that this could fail."""
    told = {"sampler": gad.nuts(), "num_warmup": 100, "num_draws": 50, "progress": False}
    by_default, one, four = (
        gad.sample(law_target.log_density, START, **told, **more)["posterior"]["x"].values
        for more in ({}, {"chain_block": 1}, {"chain_block": 4})
    )
    np.testing.assert_array_equal(by_default, one)
    assert not np.array_equal(by_default, four)
