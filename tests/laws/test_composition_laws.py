"""A sampler inside a cycle or a block is the sampler alone: it makes its moves and learns what it learns."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import OfPart
from gadabout.sampler import theta_by_name
from tests.laws import law_target
from tests.laws.registry import SAMPLERS

PARTS = {name: sampler for name, sampler in SAMPLERS.items() if sampler.state_is_point and name != "gibbs"}
ADAPTING, DRAWING, CHAINS = 40, 20, 3
TARGET = gad.Target(law_target.log_density)


def path(sampler, keys, ends):
    """Where chains go and what is learned, over a warm-up with its windows and over draws; keys are (t, chains)."""

    @jax.jit
    def advance(state, keys, adapt):
        body = lambda state, key: (lambda after: (after[0], after[0].position))(acting.step(key, state, TARGET, adapt))
        return jax.lax.scan(body, state, keys)

    advance = eqx.filter_jit(advance.__wrapped__)
    acting = sampler
    state = sampler.init(TARGET, law_target.draws(jax.random.key(5), CHAINS))
    positions, begin = [], 0
    for end in ends:
        state, x = advance(state, keys[begin:end], True)
        positions.append(x)
        state, begin = sampler.end_window(state, sampler.adaptation.ending(end, ADAPTING)), end
    warm, state = theta_by_name(state.kernel), sampler.settle(state)
    acting = sampler.drawing()
    state, x = advance(state, keys[begin:], sampler.adaptation.continues)
    return np.concatenate([*positions, x]), warm, theta_by_name(state.kernel)


def keys_of(iterations):
    keys = jax.random.split(jax.random.key(4), (iterations, CHAINS))
    inner = jax.vmap(jax.vmap(lambda key: jax.random.split(key, 2)[1]))(keys)  # what a cycle gives its only part
    return keys, inner


@pytest.mark.parametrize("name", PARTS)
def test_inside_a_cycle_and_a_block_it_learns_what_it_learns_alone(name):
    """To rounding, over 40 iterations of warm-up with the ends of its windows, and 20 of draws."""
    sampler = PARTS[name]
    cycle, block = gad.cycle(sampler), gad.block(sampler, range(3))
    ends = sampler.adaptation.window_ends(ADAPTING)
    assert cycle.adaptation.window_ends(ADAPTING) == block.adaptation.window_ends(ADAPTING) == ends
    assert cycle.adaptation.continues == block.adaptation.continues == sampler.adaptation.continues
    keys, inner = keys_of(ADAPTING + DRAWING)
    alone = path(sampler, inner, ends)
    for composed, given in ((cycle, keys), (block, inner)):
        positions, *thetas = path(composed, given, ends)
        np.testing.assert_allclose(positions, alone[0], rtol=1e-7, atol=1e-9)
        for theta, own in zip(thetas, alone[1:], strict=True):
            assert theta.keys() == {f"kernels[0].{leaf}" for leaf in own}
            for leaf, values in own.items():
                np.testing.assert_allclose(theta[f"kernels[0].{leaf}"], values, rtol=1e-6, atol=1e-9)


def test_a_part_that_forgets_its_windows_is_found(monkeypatch):
    """The planted bug of old: a composite that ends no window of its parts."""
    monkeypatch.setattr(OfPart, "end", lambda self, memory, kernel, states, ending: (kernel, memory, states))
    with pytest.raises(AssertionError):
        test_inside_a_cycle_and_a_block_it_learns_what_it_learns_alone("nuts")


def test_a_part_that_stops_learning_for_ever_is_found(monkeypatch):
    monkeypatch.setattr(OfPart, "while_drawing", gad.AbstractAdaptation.while_drawing)
    monkeypatch.setattr(OfPart, "continues", False)
    with pytest.raises(AssertionError):
        test_inside_a_cycle_and_a_block_it_learns_what_it_learns_alone("haario-for-ever")


def test_nuts_in_a_block_learns_its_metric_and_spends_no_more_than_alone():
    """On scales 0.01, 1 and 100: it kept the unit metric without a word, and spent fifteen times the gradients."""
    log_density = lambda x: -0.5 * jnp.sum((x / jnp.array([0.01, 1.0, 100.0])) ** 2)
    run = lambda sampler: gad.sample(log_density, jnp.zeros(3), sampler=sampler, num_draws=500, progress=False, seed=1)
    alone, block = run(gad.nuts()), run(gad.block(gad.nuts(), range(3)))
    scale = block["learned"]["kernels[0].factor.scale"].values
    np.testing.assert_allclose(np.log(scale), np.log([0.01, 1.0, 100.0]), atol=0.5)
    assert block.attrs["gradient_evaluations"] < 3 * alone.attrs["gradient_evaluations"]
