"""Scouts: a mode in which no chain started is found, and nobody is sent out where there can be none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.driver.scout import look_round, send_out
from gadabout.target import Target

N = 5


def two(x):
    """Narrow at −4, twice as wide at 4, of equal mass: from around 0 the way up leads to the wide one."""
    return jnp.logaddexp(-0.5 * jnp.sum((x + 4) ** 2), -0.125 * jnp.sum((x - 4) ** 2) - N * jnp.log(2.0))


def one(x):
    return -0.5 * jnp.sum((x / jnp.logspace(-3, 3, N, dtype=x.dtype)) ** 2)


def logistic(x):
    rows = jax.random.normal(jax.random.key(0), (50, N), x.dtype)
    return -jnp.sum(jax.nn.softplus(rows @ x)) - 0.01 * jnp.sum(x**2)


def starts(x64=True):
    return jax.random.uniform(jax.random.key(1), (16, N), jnp.float64 if x64 else jnp.float32, -2, 2)


@pytest.mark.parametrize("x64", [True, False], ids=["float64", "float32"])
@pytest.mark.parametrize(("density", "convex"), [(one, False), (logistic, False), (two, True)])
def test_a_concave_log_density_is_told_from_another(density, convex, x64):
    with jax.enable_x64(x64):
        assert bool(send_out(Target(density), starts(x64), jax.random.key(0)).convex) is convex


def test_scouts_find_the_mode_in_which_no_chain_stands():
    target, chains = Target(two), jnp.full((16, N), 4.0) + 0.5 * starts()
    scouts = send_out(target, starts(), jax.random.key(0))
    report = look_round(target, scouts.starts, chains, gad.factors.Diagonal(2 * jnp.ones(N)))
    found = np.asarray(report.positions)[np.asarray(report.elsewhere)]
    assert len(found) >= 1
    assert np.abs(found + 4).max() < 5
    assert report.evaluations > len(scouts.starts)


def test_no_scout_stands_elsewhere_where_there_is_one_mode():
    target, chains = Target(one), 0.1 * starts()
    scouts = send_out(target, starts(), jax.random.key(0))
    assert not look_round(target, scouts.starts, chains, gad.factors.Diagonal(jnp.ones(N))).elsewhere.any()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_default_begins_in_both_modes_unless_it_is_told_where_to_start():
    start = lambda key: jax.random.uniform(key, (N,), float, -2, 2)
    few = {"num_warmup": 100, "num_draws": 50, "progress": False}
    tree = gad.sample(two, start, **few)
    assert 1 <= tree.attrs["choice"]["started_elsewhere"] <= 8
    assert len(np.unique(np.sign(np.asarray(tree["posterior"]["x"])[:, -1, 0]))) == 2
    given = gad.sample(two, init_per_chain=starts(), **few)
    assert "started_elsewhere" not in given.attrs["choice"]
