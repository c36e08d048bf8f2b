"""A sampler inside a cycle or a block is the sampler alone: it makes its moves and learns what it learns."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_batching import custom_vmap

import gadabout as gad
from gadabout.adaptations import OfPart, Together, WindowedFactor
from gadabout.sampler import Learned, theta_by_name
from tests.laws import law_target
from tests.laws.registry import ADAPTATIONS, SAMPLERS, VARIANTS, entry, every

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
    """Where chains go, what the adaptation says of its end, and θ, over a warm-up with its windows and over draws.

    Keys are (t, chains).
    """
    starts = law_target.draws(jax.random.key(5), CHAINS)
    state = sampler.init(TARGET, starts)
    positions, begin, adaptation = jnp.zeros((len(keys), *starts.shape)), 0, sampler.adaptation
    for end in adaptation.window_ends(adapting):
        state, positions = advance(sampler, state, positions, keys, jnp.asarray(begin), jnp.asarray(end), True)
        state, begin = sampler.end_window(state, adaptation.ending(end, adapting)), end
    found, warm = adaptation.verdict(state.memory, state.kernel), theta_by_name(state.kernel)
    state = sampler.settle(state)
    total, goes_on = jnp.asarray(len(keys)), adaptation.continues
    state, positions = advance(sampler.drawing(), state, positions, keys, jnp.asarray(begin), total, goes_on)
    return positions, found, warm, theta_by_name(state.kernel)


def keys_of(precision):
    keys = jax.random.split(jax.random.key(4), (sum(LENGTHS[precision]), CHAINS))
    inner = jax.vmap(jax.vmap(lambda key: jax.random.split(key, 2)[1]))(keys)  # what a cycle gives its only part
    return keys, inner


def facts(sampler, adapting):
    """What the driver reads off a sampler to carry it out."""
    adaptation, kernel = sampler.adaptation, sampler.kernel(3)
    own = ("continues", "diminishing", "finishes", "moves_chains")
    return adaptation.window_ends(adapting), [getattr(adaptation, fact) for fact in own], kernel.settles, kernel.uneven


def learns_as_alone(name, composed, keys, inner, within, precision):
    suffix = "_0" * within.count("kernels")
    sampler, adapting = entry(name), LENGTHS[precision][0]
    assert facts(composed, adapting) == facts(sampler, adapting)
    (x, found, *thetas), (own_x, own_found, *own) = path(composed, keys, adapting), path(sampler, inner, adapting)
    near, theta_near = TO_ROUNDING[precision]
    np.testing.assert_allclose(x, own_x, **near)
    assert found.keys() == {f"{said}{suffix}" for said in own_found}
    for said, value in own_found.items():
        np.testing.assert_allclose(found[f"{said}{suffix}"], value, **theta_near)
    for theta, alone in zip(thetas, own, strict=True):
        assert theta.keys() == {f"{within}{leaf}" for leaf in alone}
        for leaf, values in alone.items():
            np.testing.assert_allclose(theta[f"{within}{leaf}"], values, **theta_near)


@every(PARTS, only=ADAPTATIONS)
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


def test_a_part_that_does_not_settle_is_found(monkeypatch):
    """The planted bug: draws are made with the depth of warm-up."""
    monkeypatch.setattr(gad.kernels.Cycle, "settled", gad.kernels.AbstractKernel.settled)
    with pytest.raises(AssertionError):
        test_inside_a_block_inside_a_cycle_it_learns_what_it_learns_alone("nuts", "float64")


def test_a_part_that_says_nothing_of_its_end_is_found(monkeypatch):
    monkeypatch.setattr(OfPart, "verdict", gad.AbstractAdaptation.verdict)
    with pytest.raises(AssertionError):
        test_inside_a_block_inside_a_cycle_it_learns_what_it_learns_alone("gad-mala", "float64")


RULES = {type(SAMPLERS[name].adaptation): name for name in reversed(PARTS)}
"""a sampler of each kind of adaptation"""


@every(RULES.values())
def test_a_rule_of_several_is_each_of_them(name, precision):
    """Together with nothing else, an adaptation learns what it learns alone; so does the rule of a windowed factor."""
    sampler, (keys, _) = entry(name), keys_of(precision)
    made = dataclasses.replace(sampler, adaptation=together(sampler.adaptation))
    learns_as_alone(name, made, keys, keys, "", precision)


def together(adaptation):
    if isinstance(adaptation, WindowedFactor):
        return dataclasses.replace(adaptation, rule=Together((adaptation.rule,)))
    return Together((adaptation,))


def test_a_window_that_does_not_end_its_rule_is_found(monkeypatch):
    """The planted bug of old: the step size that several rules settle on is not the one that draws are made with."""
    monkeypatch.setattr(Together, "end", lambda self, memory, kernel, states, ending: (kernel, memory, states))
    with pytest.raises(AssertionError):
        test_a_rule_of_several_is_each_of_them("nuts", "float64")


KNOWN = {
    "dense": gad.factors.Cholesky(jnp.array([[2.0, 0, 0, 0], [1, 1, 0, 0], [-0.5, 2, 0.3, 0], [0.2, 0.1, 0.4, 3]])),
    "diagonal": gad.factors.Diagonal(jnp.array([2.0, 0.1, 5.0, 0.7])),
}


def of_float(tree):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float), tree)


def begins_with(name, composed, within, indices, factor):
    """The kernel of the part of a composition begins with what is known of its coordinates, where it uses that."""
    mean, factor = of_float((jnp.arange(1.0, 5.0), factor))
    covariance = np.asarray(factor.dense() @ factor.dense().T)[np.ix_(indices, indices)]
    own = (
        gad.factors.Diagonal(jnp.sqrt(jnp.diagonal(covariance)))
        if isinstance(factor, gad.factors.Diagonal)
        else gad.factors.Cholesky(jnp.asarray(np.linalg.cholesky(covariance)))
    )
    alone = theta_by_name(entry(name).kernel(len(indices), Learned(mean[jnp.asarray(indices)], of_float(own))))
    theta = theta_by_name(composed.kernel(4, Learned(mean, factor)))
    assert theta.keys() == {f"{within}{path}" for path in alone}
    for path, leaf in alone.items():
        np.testing.assert_allclose(theta[f"{within}{path}"], leaf, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KNOWN)
@every(PARTS, marked=VARIANTS)
def test_a_part_begins_with_what_is_known(name, precision, kind):
    """A warm start: the mean and the covariance of the draws, of the block's coordinates in the block's order."""
    sampler, factor = entry(name), KNOWN[kind]
    begins_with(name, gad.block(sampler, [3, 0, 1]), "kernels[0].", [3, 0, 1], factor)
    begins_with(name, gad.cycle(gad.block(sampler, [0, 1, 2])), "kernels[0].kernels[0].", [0, 1, 2], factor)


def nothing(self, indices):
    """Bug of old: a block begins as if nothing were known."""
    return Learned()


def in_order(self, indices, part=Learned.part):
    """Bug: what is known is of the block's coordinates in another order."""
    return part(self, sorted(indices))


@pytest.mark.parametrize("bug", [nothing, in_order])
def test_parts_that_begin_with_something_else_are_found(monkeypatch, bug):
    monkeypatch.setattr(Learned, "part", bug)
    with pytest.raises(AssertionError):
        test_a_part_begins_with_what_is_known("nuts", "float64", "dense")


CONSTANT = jnp.array([0.5, 1.0, 2.0])


@every(PARTS, marked=VARIANTS)
def test_any_part_may_be_chosen_at_random(name, precision):
    """Whatever the log density holds, here an array; traced with one chain and with several, and not run."""
    constant = jnp.asarray(CONSTANT, float)
    target = gad.Target(lambda x: law_target.log_density(x / constant))
    sampler, other = entry(name), gad.rwm()
    for chosen in (gad.mix(sampler, other), gad.cycle(sampler, other, random_order=True), gad.mix(gad.cycle(sampler))):
        for chains in (1, 2):

            def one(key, x, chosen=chosen):
                state, record = chosen.step(key, chosen.init(target, x), target, False)
                return state.position, record["lp"]

            position, lp = jax.eval_shape(jax.jit(one), jax.random.key(0), jnp.zeros((chains, 3)))
            assert (position.shape, lp.shape) == ((chains, 3), (chains,))


def as_its_own_batch(self, key, state, target, step=gad.kernels.NoUTurn.step):
    """Bug of old: the transition has a rule of its own for batches, which a choice cannot batch."""
    bits, impl = jax.random.key_data(key), jax.random.key_impl(key)
    call = custom_vmap(lambda bits, state: step(self, jax.random.wrap_key_data(bits, impl=impl), state, target)[0])

    @call.def_vmap
    def _(size, batched, bits, state):
        axes = jax.tree.map(lambda of: 0 if of else None, batched)
        moved = jax.vmap(call, axes)(bits, state)
        return moved, jax.tree.map(lambda _: True, moved)

    return call(bits, state), step(self, key, state, target)[1]


def as_the_part_has_it(self, there, target):
    """Bug: a part leaves its own state behind, which is not that of another."""
    return there


@pytest.mark.parametrize(
    ("owner", "method", "bug"),
    [(gad.kernels.NoUTurn, "step", as_its_own_batch), (gad.kernels.AbstractComposite, "leave", as_the_part_has_it)],
)
def test_parts_that_cannot_be_chosen_are_found(monkeypatch, owner, method, bug):
    monkeypatch.setattr(owner, method, bug)
    with pytest.raises((AssertionError, TypeError)):
        test_any_part_may_be_chosen_at_random("nuts", "float64")


def test_nuts_in_a_block_learns_its_metric_and_spends_no_more_than_alone():
    """On scales 0.01, 1 and 100: it kept the unit metric without a word, and spent fifteen times the gradients."""
    log_density = lambda x: -0.5 * jnp.sum((x / jnp.array([0.01, 1.0, 100.0])) ** 2)
    run = lambda sampler: gad.sample(log_density, jnp.zeros(3), sampler=sampler, num_draws=500, progress=False, seed=1)
    alone, block = run(gad.nuts()), run(gad.block(gad.nuts(), range(3)))
    scale = block["learned"]["kernels[0].factor.scale"].values
    np.testing.assert_allclose(np.log(scale), np.log([0.01, 1.0, 100.0]), atol=0.5)
    assert block.attrs["gradient_evaluations"] < 3 * alone.attrs["gradient_evaluations"]
