"""Cycle, Mix, Block and Gibbs: what they hand on, learn and refuse. Their invariance is a law."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.kernels import Gibbs
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)
X = jnp.array([0.3, -0.2, 0.5])


def walk(scale, n=3):
    return gad.kernels.Metropolis(gad.proposals.RandomWalk(gad.factors.Diagonal(scale * jnp.ones(n))))


def langevin(scale, n=3):
    return gad.kernels.Metropolis(gad.proposals.Langevin(gad.factors.Diagonal(scale * jnp.ones(n))))


def test_a_cycle_is_its_parts_one_after_another():
    """To the bit, gradients included where a part leaves none behind."""
    cycle, key = gad.kernels.Cycle((walk(0.5), langevin(0.6))), jax.random.key(3)
    after, info = cycle.step(key, cycle.init(X, TARGET), TARGET)
    keys = jax.random.split(key, 3)
    one, _ = walk(0.5).step(keys[1], walk(0.5).init(X, TARGET), TARGET)
    two, last = langevin(0.6).step(keys[2], langevin(0.6).init(one.x, TARGET), TARGET)
    np.testing.assert_allclose(after.x, two.x, rtol=1e-12)
    np.testing.assert_allclose(after.grad, jax.grad(law_target.log_density)(after.x), rtol=1e-12)
    assert len(info.parts) == 2
    np.testing.assert_allclose(info.parts[1].info.acceptance_rate, last.acceptance_rate)
    np.testing.assert_allclose(info.record["acceptance_rate_1"], last.acceptance_rate)
    assert cycle.gradient_evaluations(False) == 2  # MALA's own, and one after the walk


def test_a_block_moves_its_coordinates_alone_and_knows_the_whole_density():
    block = gad.kernels.Block(langevin(0.5, 2), [2, 0])
    state = block.init(X, TARGET)
    for key in jax.random.split(jax.random.key(0), 10):
        state, info = block.step(key, state, TARGET)
        assert state.x[1] == X[1]
        np.testing.assert_allclose(state.logp, law_target.log_density(state.x), rtol=1e-12)
        np.testing.assert_allclose(state.grad, jax.grad(law_target.log_density)(state.x), rtol=1e-10)
    assert info.parts[0].after.x.shape == (2,)


def test_orders_come_from_the_key_and_parts_from_their_weights():
    """Parts that stamp their number: every permutation and every part turn up as often as they should.

    Counts of 6,000 are binomial: 5 standard deviations are exceeded once in 2 million; a probability that is wrong by
    0.03 is found with a chance above 97 %.
    """

    class Stamp(gad.AbstractProposal):
        digit: jax.Array

        def noise(self, key, here):
            return key

        def move(self, noise, here, target):
            return target.at(10 * here.x + self.digit), 0.0

    stamps = tuple(gad.kernels.Metropolis(Stamp(jnp.asarray(float(d)))) for d in (1, 2, 3))
    flat = gad.Target(lambda x: 0.0 * x.sum())
    keys = jax.random.split(jax.random.key(8), 6_000)

    def ends(kernel):
        run = jax.vmap(lambda key: kernel.step(key, kernel.init(jnp.zeros(1), flat), flat)[0].x[0])
        return np.unique(np.asarray(jax.jit(run)(keys)), return_counts=True)

    def check(counts, p):
        assert np.all(np.abs(counts - 6_000 * p) < 5 * np.sqrt(6_000 * p * (1 - p)))

    digits, counts = ends(gad.kernels.Cycle(stamps, random_order=True))
    assert digits.tolist() == [123, 132, 213, 231, 312, 321]
    check(counts, np.full(6, 1 / 6))
    assert ends(gad.kernels.Cycle(stamps))[0].tolist() == [123]
    digits, counts = ends(gad.kernels.Mix(stamps, [1.0, 2.0, 3.0]))
    assert digits.tolist() == [1, 2, 3]
    check(counts, np.array([1, 2, 3]) / 6)


def test_parts_of_a_cycle_learn_as_they_do_alone():
    """Each control holds the warm-up's mean acceptance at its own target, and traces carry the part's number.

    The rule moves log δ by 0.01 (α_t/α* − 1): the mean of α over m iterations misses α* by what log δ moved in
    them over 0.01 m/α*. With log δ wandering by 0.3, as it does alone, and m = 2,000 that is below 0.01.
    """
    sampler = gad.cycle(
        gad.mala(target_acceptance=0.55), gad.block(gad.rwm(target_acceptance=0.3), [0, 1]), gad.gad_rwm(scale=0.5)
    )
    tree = gad.sample(
        law_target.log_density, X, sampler=sampler, num_warmup=3_000, num_draws=1_000, progress=False, seed=1
    )
    stats, warmup = tree["sample_stats"], tree["warmup_sample_stats"]
    for part, target in ((0, 0.55), (1, 0.3)):
        assert abs(float(warmup[f"acceptance_rate_{part}"][:, 1_000:].mean()) - target) < 0.03
    assert {"step_size_0", "step_size_0_1", "beta_2"} <= set(tree["warmup_sample_stats"].data_vars)
    assert int(stats["gradient_evaluations"][0, 0]) == 4 - 1  # MALA's; one after each of the others


def test_an_adaptation_in_a_cycle_is_the_adaptation_alone():
    alone, composed = gad.rwm(step_size=0.5**0.5), gad.cycle(gad.rwm(step_size=0.5**0.5))
    key = jax.random.key(4)

    def learned(sampler, keys):
        state = sampler.init(TARGET, jnp.zeros((3, 3)))
        for k in keys:
            state, _ = sampler.step(k, state, TARGET)
        return eqx.filter(state.kernel, eqx.is_inexact_array), state.position

    keys = jax.vmap(lambda k: jax.random.split(k, 3))(jax.random.split(key, 5))
    inner = jax.vmap(jax.vmap(lambda k: jax.random.split(k, 2)[1]))(keys)  # what Cycle gives its only part
    one, x = learned(alone, inner)
    two, z = learned(composed, keys)
    np.testing.assert_allclose(x, z, rtol=1e-12)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_what_is_chosen_at_random_cannot_be_learned():
    sampler = gad.Sampler(
        "mixed",
        lambda n, learned: gad.kernels.Mix((walk(0.5), walk(0.1)), [1.0, 1.0]),
        gad.adaptations.OfPart(0, gad.rwm().adaptation),
    )
    with pytest.raises(TypeError, match="chosen at random"):
        gad.sample(law_target.log_density, X, sampler=sampler, num_warmup=5, num_draws=5, progress=False)


@pytest.mark.parametrize("random_order", [False, True])
def test_gibbs_merges_what_a_conditional_returns(random_order):
    def log_density(position, data):
        return -0.5 * jnp.sum(position["a"] ** 2) - 0.5 * (position["b"] - data) ** 2

    def draw_a(key, position, data):
        return {"a": jax.random.normal(key, (2,))}

    def draw_b(key, position, data):
        return {**position, "b": data + jax.random.normal(key)}

    start = {"a": jnp.zeros(2), "b": 0.0}
    tree = gad.sample(
        log_density, start, data=5.0, sampler=gad.gibbs(draw_a, draw_b, random_order=random_order), progress=False
    )
    assert tree["posterior"]["a"].shape == (4, 1_000, 2)
    # 4,000 independent draws: 5 standard errors are exceeded once in 2 million, errors of 0.1 found with 90 %
    assert abs(float(tree["posterior"]["b"].mean()) - 5) < 5 / np.sqrt(4_000)
    assert abs(float((tree["posterior"]["a"] ** 2).mean()) - 1) < 5 * np.sqrt(2 / 8_000)
    assert tree["sample_stats"]["accepted"].values.all()


def test_a_draw_without_density_is_taken_back():
    kernel = Gibbs((lambda key, x: jnp.full_like(x, jnp.nan),))
    state, info = kernel.step(jax.random.key(0), kernel.init(X, TARGET), TARGET)
    np.testing.assert_array_equal(state.x, X)
    assert info.record["nonfinite"]
    assert not info.accepted


def test_errors():
    with pytest.raises(ValueError, match="weights must"):
        gad.mix(gad.rwm(), gad.mala(), weights=[1.0, 0.0])
    with pytest.raises(ValueError, match="weights must"):
        gad.kernels.Mix((walk(1.0),), [1.0, 2.0])
    with pytest.raises(ValueError, match="at least one sampler"):
        gad.cycle()
    with pytest.raises(ValueError, match="at least one conditional"):
        gad.gibbs()
    with pytest.raises(ValueError, match="different coordinates"):
        gad.kernels.Block(walk(1.0), [0, 0])
    with pytest.raises(ValueError, match="below the position's 3"):
        gad.kernels.Block(walk(1.0, 1), [3]).init(X, TARGET)
    kernel = Gibbs((lambda key, x: x[:1],))
    with pytest.raises(ValueError, match="conditional must return"):
        kernel.step(jax.random.key(0), kernel.init(X, TARGET), TARGET)
    with pytest.raises(TypeError, match="moves real numbers"):
        gad.sample(
            lambda p: -0.5 * p["x"] ** 2 + 0.0 * p["k"],
            {"x": 0.0, "k": 1},
            sampler=gad.cycle(gad.gibbs(lambda key, p: {"k": 1}), gad.rwm()),
        )
