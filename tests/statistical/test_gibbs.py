"""Block Gibbs of a restricted Boltzmann machine, against the exact enumeration of its 1,024 states.

Means of all units and products of all pairs, 55 figures, within 4 MCSE (`arviz_stats`, 8 chains of 4,000 draws). A
figure that is right exceeds 4 MCSE once in 16,000: a false alarm in 280 suites. MCSE are below 0.006, so that a figure
that is wrong by 0.034 is found with 95 %.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad

VISIBLE, HIDDEN = 6, 4
_keys = jax.random.split(jax.random.key(4), 3)
MACHINE = {
    "W": jax.random.normal(_keys[0], (VISIBLE, HIDDEN)),
    "a": 0.5 * jax.random.normal(_keys[1], (VISIBLE,)),
    "b": 0.5 * jax.random.normal(_keys[2], (HIDDEN,)),
}


def log_density(position, machine):
    """log p(v, h) = aᵀv + bᵀh + vᵀWh up to a constant, v and h binary."""
    v, h = position["v"], position["h"]
    return machine["a"] @ v + machine["b"] @ h + v @ machine["W"] @ h


def draw_visible(key, position, machine):
    """All visible units at once, which are independent given the hidden ones."""
    return {"v": jax.random.bernoulli(key, jax.nn.sigmoid(machine["a"] + machine["W"] @ position["h"])).astype(int)}


def draw_hidden(key, position, machine):
    return {"h": jax.random.bernoulli(key, jax.nn.sigmoid(machine["b"] + position["v"] @ machine["W"])).astype(int)}


def draw_hidden_without_bias(key, position, machine):
    """Bug: the hidden units' bias is forgotten."""
    return {"h": jax.random.bernoulli(key, jax.nn.sigmoid(position["v"] @ machine["W"])).astype(int)}


def flip_one(key, position):
    """A symmetric proposal: one visible unit flipped."""
    unit = jax.random.randint(key, (), 0, VISIBLE)
    return {**position, "v": position["v"].at[unit].set(1 - position["v"][unit])}


def figures(units):
    """Units (..., 10) with all products of pairs, (..., 55)."""
    i, j = np.triu_indices(VISIBLE + HIDDEN, 1)
    return np.concatenate([units, units[..., i] * units[..., j]], -1)


def exact():
    states = (np.arange(2 ** (VISIBLE + HIDDEN))[:, None] >> np.arange(VISIBLE + HIDDEN)) & 1
    v, h = states[:, :VISIBLE], states[:, VISIBLE:]
    W, a, b = (np.asarray(MACHINE[name]) for name in "Wab")
    p = np.exp(v @ a + h @ b + np.sum((v @ W) * h, -1))
    return (p / p.sum()) @ figures(states)


def largest_z(sampler, num_draws=4_000):
    start = {"v": jnp.zeros((8, VISIBLE), int), "h": jnp.zeros((8, HIDDEN), int)}
    tree = gad.sample(
        log_density,
        init_per_chain=start,
        data=MACHINE,
        sampler=sampler,
        num_chains=8,
        num_warmup=200,
        num_draws=num_draws,
        progress=False,
        seed=5,
    )
    v, h = (tree["posterior"][name].values for name in "vh")
    assert np.issubdtype(v.dtype, np.integer)
    draws = np.moveaxis(figures(np.concatenate([v, h], -1).astype(float)), -1, 0)
    mcse = array_stats.mcse(draws, method="mean")
    assert mcse.max() < 0.006
    return np.max(np.abs(draws.mean((1, 2)) - exact()) / mcse)


@pytest.mark.parametrize("random_order", [False, True])
def test_block_gibbs_agrees_with_enumeration(random_order):
    assert largest_z(gad.gibbs(draw_visible, draw_hidden, random_order=random_order)) < 4


def test_gibbs_beside_metropolis_agrees_with_enumeration():
    """Hidden units by Gibbs, visible ones by single flips: eight times the draws for the same MCSE."""
    flips = gad.metropolis_hastings(flip_one, takes_discrete=True)
    sampler = gad.cycle(gad.gibbs(draw_hidden), *[flips] * 3)
    assert largest_z(sampler, 16_000) < 4


def test_a_planted_bug_is_found():
    assert largest_z(gad.gibbs(draw_visible, draw_hidden_without_bias)) > 4
