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
from tests.laws.registry import SAMPLERS, VARIANTS, entry, every

PARTS = [name for name, sampler in SAMPLERS.items() if sampler.state_is_point and name != "gibbs"]
CHAINS = 3
LENGTHS = {"float64": (40, 20), "float32": (24, 6)}
"""iterations of warm-up and of draws: in float32 rounding grows to the size of the law after some 40"""
TARGET = gad.Target(law_target.log_density)
TO_ROUNDING = {
    "float64": ({"rtol": 1e-7, "atol": 1e-9}, {"rtol": 1e-6, "atol": 1e-9}),
    "float32": ({"rtol": 1e-4, "atol": 1e-5}, {"rtol": 1e-4, "atol": 1e-5}),
}
"""of positions, and of θ"""


@eqx.filter_jit
def advance(sampler, state, positions, keys, begin, end, adapt):
    """The iterations from `begin` to `end`, and where chains stand after each."""

    def body(t, carry):
        state, _ = sampler.step(keys[t], carry[0], TARGET, adapt)
        return state, carry[1].at[t].set(state.position)

    return jax.lax.fori_loop(begin, end, body, (state, positions))


def path(sampler, keys, adapting):
    """Where chains go and what is learned, over a warm-up with its windows and over draws; keys are (t, chains)."""
    starts = law_target.draws(jax.random.key(5), CHAINS)
    state = sampler.init(TARGET, starts)
    positions, begin, adaptation = jnp.zeros((len(keys), *starts.shape)), 0, sampler.adaptation
    for end in adaptation.window_ends(adapting):
        state, positions = advance(sampler, state, positions, keys, jnp.asarray(begin), jnp.asarray(end), True)
        state, begin = sampler.end_window(state, adaptation.ending(end, adapting)), end
    warm, state = theta_by_name(state.kernel), sampler.settle(state)
    total, goes_on = jnp.asarray(len(keys)), adaptation.continues
    state, positions = advance(sampler.drawing(), state, positions, keys, jnp.asarray(begin), total, goes_on)
    return positions, warm, theta_by_name(state.kernel)


def keys_of(precision):
    keys = jax.random.split(jax.random.key(4), (sum(LENGTHS[precision]), CHAINS))
    inner = jax.vmap(jax.vmap(lambda key: jax.random.split(key, 2)[1]))(keys)  # what a cycle gives its only part
    return keys, inner


def learns_as_alone(name, composed, keys, inner, within, precision):
    sampler, adapting = entry(name), LENGTHS[precision][0]
    facts = lambda sampler: (sampler.adaptation.window_ends(adapting), sampler.adaptation.continues)
    assert facts(composed) == facts(sampler)
    (x, *thetas), (own_x, *own) = path(composed, keys, adapting), path(sampler, inner, adapting)
    near, theta_near = TO_ROUNDING[precision]
    np.testing.assert_allclose(x, own_x, **near)
    for theta, alone in zip(thetas, own, strict=True):
        assert theta.keys() == {f"{within}{leaf}" for leaf in alone}
        for leaf, values in alone.items():
            np.testing.assert_allclose(theta[f"{within}{leaf}"], values, **theta_near)


@every(PARTS, marked=VARIANTS)
def test_inside_a_block_inside_a_cycle_it_learns_what_it_learns_alone(name, precision):
    """To rounding, over 40 iterations of warm-up with the ends of its windows, and 20 of draws; fewer in float32."""
    keys, inner = keys_of(precision)
    both = gad.cycle(gad.block(entry(name), range(3)))
    learns_as_alone(name, both, keys, inner, "kernels[0].kernels[0].", precision)


@pytest.mark.parametrize("name", ["gad-mala", "am", "nuts", "haario-for-ever"])
def test_inside_a_cycle_or_a_block_it_learns_what_it_learns_alone(name):
    keys, inner = keys_of("float64")
    learns_as_alone(name, gad.cycle(entry(name)), keys, inner, "kernels[0].", "float64")
    learns_as_alone(name, gad.block(entry(name), range(3)), inner, inner, "kernels[0].", "float64")


def test_a_part_that_forgets_its_windows_is_found(monkeypatch):
    """The planted bug of old: a composite that ends no window of its parts."""
    monkeypatch.setattr(OfPart, "end", lambda self, memory, kernel, states, ending: (kernel, memory, states))
    with pytest.raises(AssertionError):
        test_inside_a_block_inside_a_cycle_it_learns_what_it_learns_alone("nuts", "float64")


def test_a_part_that_stops_learning_for_ever_is_found(monkeypatch):
    monkeypatch.setattr(OfPart, "while_drawing", gad.AbstractAdaptation.while_drawing)
    monkeypatch.setattr(OfPart, "continues", False)
    with pytest.raises(AssertionError):
        test_inside_a_block_inside_a_cycle_it_learns_what_it_learns_alone("haario-for-ever", "float64")


def test_nuts_in_a_block_learns_its_metric_and_spends_no_more_than_alone():
    """On scales 0.01, 1 and 100: it kept the unit metric without a word, and spent fifteen times the gradients."""
    log_density = lambda x: -0.5 * jnp.sum((x / jnp.array([0.01, 1.0, 100.0])) ** 2)
    run = lambda sampler: gad.sample(log_density, jnp.zeros(3), sampler=sampler, num_draws=500, progress=False, seed=1)
    alone, block = run(gad.nuts()), run(gad.block(gad.nuts(), range(3)))
    scale = block["learned"]["kernels[0].factor.scale"].values
    np.testing.assert_allclose(np.log(scale), np.log([0.01, 1.0, 100.0]), atol=0.5)
    assert block.attrs["gradient_evaluations"] < 3 * alone.attrs["gradient_evaluations"]
