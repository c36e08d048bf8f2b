"""BlackJAX both ways: the same moves from the same keys, in its loops and in ours."""

import os
import subprocess
import sys

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad
from tests.conftest import CACHE

SCALES = jnp.array([0.5, 1.0, 2.0])
ALGORITHMS = {
    "nuts": lambda f: blackjax.nuts(f, 0.7, SCALES**2),
    "hmc": lambda f: blackjax.hmc(f, 0.4, SCALES**2, 5),
    "mala": lambda f: blackjax.mala(f, 0.2),
    "random-walk": lambda f: blackjax.additive_step_random_walk(f, blackjax.mcmc.random_walk.normal(0.5 * SCALES)),
}


def normal(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_its_algorithms_make_their_own_moves(name):
    sampler, algorithm = gad.from_blackjax(ALGORITHMS[name]), ALGORITHMS[name](normal)
    x, keys = jnp.array([0.3, -1.0, 2.0]), jax.random.split(jax.random.key(1), 20)
    target = gad.Target(normal)

    def ours(state, key):
        state, record = sampler.step(key[None], state, target)
        return state, (state.position[0], record["acceptance_rate"][0])

    def theirs(state, key):
        state, info = algorithm.step(key, state)
        return state, (state.position, info.acceptance_rate)

    (a, rate), (b, own) = (
        jax.lax.scan(step, begin, keys)[1]
        for step, begin in ((ours, sampler.init(target, x[None])), (theirs, algorithm.init(x)))
    )
    np.testing.assert_allclose(a, b, rtol=1e-12)
    np.testing.assert_allclose(rate, own, rtol=1e-12)
    assert len(np.unique(np.asarray(a)[:, 0])) > 3


def test_a_run_with_its_nuts_is_a_run():
    sampler = gad.from_blackjax(ALGORITHMS["nuts"])
    tree = gad.sample(normal, jnp.zeros(3), sampler=sampler, num_draws=1_000, progress=False)
    x = tree["posterior"]["x"].values
    assert np.all(np.abs(x.mean((0, 1)) / SCALES) < 0.2)
    assert np.all(np.abs(x.std((0, 1)) / SCALES - 1) < 0.15)
    assert set(tree["sample_stats"].data_vars) >= {"diverging", "energy", "n_steps", "acceptance_rate", "lp"}
    assert tree.attrs["gradient_evaluations"] == int(tree["sample_stats"]["n_steps"].sum())


def test_our_samplers_run_in_its_loops():
    def density(v):
        return -0.5 * jnp.sum(v["b"] ** 2) - 0.5 * (v["a"] / 3) ** 2

    like = {"b": jnp.zeros(2), "a": jnp.zeros(())}
    known = gad.sample(density, like, sampler=gad.gad_mala(), num_warmup=2_000, num_draws=500, progress=False)
    algorithm = gad.to_blackjax(gad.gad_mala(), density, like, warm_start=known)
    states = jax.vmap(algorithm.init)({"b": jnp.zeros((4, 2)), "a": jnp.zeros(4)})

    def loop(states, key):
        states, info = jax.vmap(algorithm.step)(jax.random.split(key, 4), states)
        return states, (states.position["a"], states.logdensity, info["acceptance_rate"])

    _, (a, lp, rate) = jax.jit(lambda s: jax.lax.scan(loop, s, jax.random.split(jax.random.PRNGKey(0), 4_000)))(states)
    assert abs(a[500:].std() / 3 - 1) < 0.15
    assert 0.4 < rate.mean() < 0.75
    np.testing.assert_allclose(lp[-1].shape, (4,))
    same, _ = algorithm.step(jax.random.PRNGKey(3), algorithm.init(like))
    np.testing.assert_allclose(same.logdensity, density(same.position), rtol=1e-9)


def funnel(v):
    return -0.5 * (v["a"] / 3) ** 2 - 0.5 * jnp.exp(-v["a"]) * jnp.sum(v["b"] ** 2) - v["a"]


def bowl(v):
    return -0.5 * ((v["a"] - 1) / 3) ** 2 - 0.5 * jnp.sum(v["b"] ** 2)


LIKE = {"b": jnp.zeros(2), "a": jnp.zeros(())}


@pytest.mark.parametrize(
    ("density", "move", "mean"),
    [
        (bowl, "auto", 1.0),
        (bowl, "split-hmc", 1.0),
        pytest.param(bowl, "nuts", 1.0, marks=pytest.mark.long),  # NUTS runs in the funnel
        (funnel, "auto", 0.0),
        (funnel, "nuts", 0.0),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_move_that_the_default_chose_runs_in_a_loop(density, move, mean):
    """a ~ N(mean, 9): mean and mean square within 4 standard errors; 10 figures, one outside in 1,600 seeds; fixed."""
    known = gad.sample(density, LIKE, sampler=gad.default(move=move), num_draws=100, progress=False)
    algorithm = gad.to_blackjax(gad.default(), density, LIKE, warm_start=known)
    state, draws = algorithm.init(LIKE), []
    for key in jax.random.split(jax.random.key(1), 1_000):
        state, info = algorithm.step(key, state)
        draws.append(float(state.position["a"]))
    x = np.array([draws]) - mean
    for values, exact in ((x, 0.0), (x**2, 9.0)):
        error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
        assert abs(values.mean() - exact) < 4 * error
        assert error < 1.5
    np.testing.assert_allclose([state.logdensity, info["lp"]], density(state.position), rtol=1e-6)


def test_a_key_and_a_state_decide_what_the_default_does_next():
    algorithm = gad.to_blackjax(gad.default(), bowl, LIKE)  # learns by itself
    begun, keys = algorithm.init(LIKE), jax.random.split(jax.random.key(0), 3)
    one, same, other = (algorithm.step(key, begun)[0].position["a"] for key in (keys[0], keys[0], keys[1]))
    assert one == same
    assert one != other
    state, _ = algorithm.step(keys[0], begun)
    assert algorithm.step(keys[1], state)[0].position["a"] == algorithm.step(keys[1], state)[0].position["a"]
    raw, _ = algorithm.step(jax.random.PRNGKey(0), begun)
    assert np.isfinite(raw.logdensity)


def test_the_defaults_functions_are_not_to_be_compiled():
    algorithm = gad.to_blackjax(gad.default(), bowl, LIKE)
    state = algorithm.init(LIKE)
    for call in (lambda: jax.jit(algorithm.init)(LIKE), lambda: jax.jit(algorithm.step)(jax.random.key(0), state)):
        with pytest.raises(TypeError, match=r"cannot be compiled; .* to_blackjax\(gadabout\.nuts\(\), .*warm_start"):
            call()
    mala = gad.sample(bowl, LIKE, sampler=gad.mala(), num_warmup=500, num_draws=50, progress=False)
    with pytest.raises(ValueError, match=r"warm_start must be a result of default\(\), got one of 'mala'"):
        gad.to_blackjax(gad.default(), bowl, LIKE, warm_start=mala)
    with pytest.raises(ValueError, match="adapt: default"):
        gad.to_blackjax(gad.default(), bowl, LIKE, adapt=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gad.from_blackjax(ALGORITHMS["nuts"]),
        lambda: gad.to_blackjax(gad.rwm(), normal, jnp.zeros(3)),
    ],
)
def test_without_blackjax_the_extra_is_named(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "blackjax", None)
    with pytest.raises(ImportError, match=r"needs blackjax, .* pip install 'gadabout\[blackjax\]'"):
        call()


def test_nuts_needs_no_blackjax():
    """In a process that cannot import it; nothing else of the package asks for it, either."""
    code = (
        "import sys; sys.modules['blackjax'] = None\n"
        "import jax.numpy as jnp, gadabout as gad\n"
        "run = lambda sampler: gad.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), sampler=sampler, "
        "num_warmup=20, num_draws=20, progress=False)\n"
        "print(run(gad.nuts())['posterior']['x'].shape, run(gad.default())['posterior']['x'].shape)"
    )
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": os.environ[CACHE], "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "(4, 20, 2) (16, 20, 2)", ran.stderr


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: gad.from_blackjax(3), "make"),
        (lambda: gad.to_blackjax("default", normal, jnp.zeros(3)), "sampler must be a recipe's result"),
        (lambda: gad.to_blackjax(gad.rwm(), normal, jnp.zeros(3), adapt="yes"), "adapt"),
        (
            lambda: gad.sample(normal, jnp.zeros(3), sampler=gad.from_blackjax(lambda f: None), progress=False),
            "make must return an algorithm",
        ),
    ],
)
def test_what_is_no_algorithm_is_refused(call, said):
    with pytest.raises(TypeError, match=said):
        call()
