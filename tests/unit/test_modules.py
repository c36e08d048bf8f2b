"""Positions that are modules of Equinox and other registered pytrees, which can be called."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from jax.tree_util import Partial

import gadabout as gad

X = np.array([[1.0, 0.5], [0.0, -1.0], [2.0, 1.0], [-1.0, 0.3]])
Y = np.array([1.0, -0.5, 2.5, 0.2])
SHORT = {"num_warmup": 60, "num_draws": 20, "progress": False}


def regression(module):
    """Y | w, b ~ N(X w + b, 1), w and b ~ N(0, 1)."""
    prior = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(eqx.filter(module, eqx.is_array)))
    return -0.5 * prior - 0.5 * jnp.sum((Y - jax.vmap(module)(X)[:, 0]) ** 2)


def test_a_module_is_a_position():
    """The means are the exact ones within 4 standard errors: of 3 one is outside once in 5,000 seeds; it is fixed."""
    linear = eqx.nn.Linear(2, 1, key=jax.random.key(0))
    tree = gad.sample(regression, linear, num_draws=1_000, progress=False)
    draws = np.concatenate([tree["posterior"]["weight"].values[..., 0, :], tree["posterior"]["bias"].values], -1)
    design = np.column_stack([X, np.ones(4)])
    exact = np.linalg.solve(design.T @ design + np.eye(3), design.T @ Y)
    error = array_stats.mcse(draws, chain_axis=0, draw_axis=1, method="mean")
    np.testing.assert_array_less(np.abs(draws.mean((0, 1)) - exact), 4 * error)
    assert error.max() < 0.02
    again = gad.sample(regression, init_per_chain=jax.tree.map(lambda a: jnp.stack([a] * 16), linear), **SHORT)
    assert again["posterior"]["weight"].shape == (16, 20, 1, 2)


def test_the_arrays_of_a_network_are_a_position():
    network = eqx.nn.MLP(2, 1, 3, 1, key=jax.random.key(0))
    arrays, static = eqx.partition(network, eqx.is_inexact_array)
    tree = gad.sample(lambda arrays: regression(eqx.combine(arrays, static)), arrays, **SHORT)
    assert tree["posterior"]["layers.0.weight"].shape == (16, 20, 3, 2)
    with pytest.raises(TypeError, match=r"of a module pass the arrays alone, as of equinox\.partition"):
        gad.sample(regression, network, **SHORT)


@jax.tree_util.register_pytree_node_class
class Own:
    def __init__(self, w):
        self.w = w

    def tree_flatten(self):
        return (self.w,), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    def __call__(self, x):
        return self.w * x


class Moments(NamedTuple):
    mu: dict
    nu: list
    nothing: None = None


def normal(position):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(position))


@pytest.mark.parametrize("array", [np.zeros, jnp.zeros])
def test_other_trees_are_positions(array):
    assert gad.sample(normal, Own(array(3)), **SHORT)["posterior"]["0"].shape == (16, 20, 3)
    tree = gad.sample(normal, Moments({"a": array(2)}, [array(())]), **SHORT)
    assert {name: x.shape[2:] for name, x in tree["posterior"].data_vars.items()} == {"mu.a": (2,), "nu.0": ()}


class Sower(eqx.Module):
    scale: jax.Array

    def draw(self, key):
        return self.scale * jax.random.normal(key, (2,))


@pytest.mark.parametrize("init", [Sower(jnp.ones(2)).draw, Partial(Sower.draw, Sower(jnp.ones(2)))])
def test_functions_that_hold_arrays_are_functions_of_a_key(init):
    assert gad.sample(normal, init, **SHORT)["posterior"]["x"].shape == (16, 20, 2)


class Counted(eqx.Module):
    w: jax.Array
    steps: jax.Array

    def __call__(self, x):
        return self.w * x


@pytest.mark.parametrize(
    ("init", "name"),
    [({"a": 0}, "a"), (jnp.arange(3), "x"), (Counted(jnp.ones(2), jnp.zeros((), int)), "steps"), ({"a": True}, "a")],
)
def test_integers_in_a_position_are_refused_with_the_remedy(init, name):
    said = rf"init: '{name}' has the type .*jnp\.asarray\({name}, float\), or, if it is a constant, .* pass it as data"
    with pytest.raises(TypeError, match=said):
        gad.sample(normal, init, **SHORT)
