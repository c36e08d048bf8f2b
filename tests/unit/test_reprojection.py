"""Reprojection: κ, ν, gains that move on, the reset map; and the basic sampler, which ends in its cemetery."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gadabout as gad
from gadabout.adaptations import AbstractAdaptation, Cemetery, extent
from tests.laws import law_target

TARGET = gad.Target(law_target.log_density)
STARTS = law_target.draws(jax.random.key(1), 3)


def states(sampler, count, starts=STARTS, target=TARGET):
    """The states of a run, first to last, and its records."""
    state = sampler.init(target, starts)
    step = jax.jit(lambda key, state: sampler.step(key, state, target))
    run, records = [state], []
    for t in range(count):
        state, record = step(jax.random.key(t), state)
        run.append(state)
        records.append(record)
    return run, records


GAIN = gad.adaptations.PowerGain(0.5, 0.6, 1.0)
GROWTH = 1.05


def factor_extent(kernel, memory):
    factor = kernel.proposal.factor
    return extent(factor.base if isinstance(factor, gad.factors.Scaled) else factor, ())


def tight(inner, **settings):
    """K_0 reaches no further than the first θ, K_κ hardly further: many resets."""
    return gad.reprojected(inner, bound=1e-3, growth=GROWTH, level=factor_extent, **settings)


def count_of(wrapped):
    return (wrapped[0] if isinstance(wrapped, tuple) else wrapped).count


@pytest.mark.parametrize(
    "inner", [gad.haario(gain=GAIN), gad.haario_scaled(), gad.ram(), gad.am("as-written", scale=1.0)]
)
def test_kappa_nu_and_the_gain_sequence(inner):
    run, records = states(tight(inner), 60)
    home = run[0]
    for before, record, after in zip(run, records, run[1:], strict=False):
        was, now = before.memory, after.memory
        np.testing.assert_array_equal(record["kappa"], was.kappa)
        np.testing.assert_array_equal(record["nu"], was.nu)
        np.testing.assert_array_equal(record["resets"], (was.nu == 0) & (was.kappa > 0))
        assert count_of(now.wrapped) == now.kappa + now.nu  # the next gain is γ_{κ + ν}, counted from 0
        if now.nu == 0:
            assert now.kappa == was.kappa + 1
            assert eqx.tree_equal(after.kernel, home.kernel)
            np.testing.assert_array_equal(after.position, STARTS)
        else:
            assert (now.kappa, now.nu) == (was.kappa, was.nu + 1)
            assert factor_extent(after.kernel, ()) <= factor_extent(home.kernel, ()) * GROWTH**now.kappa
    assert 1 <= now.kappa < 60
    assert sum(int(record["resets"][0]) for record in records) + int(now.nu == 0) == now.kappa


def test_after_a_reset_the_gains_are_smaller():
    run, _ = states(tight(gad.haario(gain=GAIN)), 60)
    seen = 0
    for before, after in itertools.pairwise(run):
        if after.memory.nu == 1 and after.memory.kappa > 0:
            was = before.memory.wrapped.mean
            gamma = GAIN(after.memory.kappa + 1.0)
            np.testing.assert_allclose(
                after.memory.wrapped.mean, was + gamma * (after.position.mean(0) - was), rtol=1e-10
            )
            seen += 1
    assert seen


@pytest.mark.parametrize("inner", [gad.gad_mala(scale=0.8), gad.gad_mala(scale=0.8, optimiser=optax.adam(0.3))])
def test_algorithm_1_begins_anew(inner):
    run, _ = states(tight(inner), 60)
    resets = [s for s in run[1:] if s.memory.nu == 0]
    assert resets
    for state in resets:
        assert eqx.tree_equal(state.kernel, run[0].kernel)
        wrapped, first = state.memory.wrapped, run[0].memory.wrapped
        assert wrapped.count == state.memory.kappa  # the gain sequence goes on further out
        assert eqx.tree_equal((wrapped.beta, wrapped.optimiser), (first.beta, first.optimiser))


def test_chains_that_stay_at_a_reset_are_rebased():
    """What a chain keeps of θ, here Lᵀ∇ at its place, is that of the θ it is brought back to, and of every θ."""
    run, _ = states(tight(gad.gad_mala(scale=0.8), reset=gad.adaptations.stay_within(1.5)), 30)
    stayed = 0
    for state in run[1:]:
        fresh = jax.vmap(lambda x, kernel=state.kernel: kernel.init(x, TARGET))(state.position)
        np.testing.assert_allclose(state.chains.cache, fresh.cache, rtol=1e-9)
        stayed += int(state.memory.nu == 0) * (np.asarray(state.position) != np.asarray(STARTS)).any(1).sum()
    assert stayed


def test_chains_that_are_not_rebased_are_found(monkeypatch):
    """The planted bug: `rebase` removed."""
    monkeypatch.setattr(gad.kernels.Metropolis, "rebase", lambda self, state: state)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_chains_that_stay_at_a_reset_are_rebased()


def test_without_a_reset_nothing_changes():
    plain, _ = states(gad.haario(), 40)
    wrapped, records = states(gad.reprojected(gad.haario(), bound=1e6), 40)
    np.testing.assert_array_equal(plain[-1].position, wrapped[-1].position)
    assert not any(record["resets"].any() for record in records)


class Poison(AbstractAdaptation):
    """θ becomes NaN at the third update."""

    def init(self, kernel, states):
        return jnp.asarray(0)

    def observe(self, memory, kernel, transition):
        return None, {}

    def update(self, memory, kernel, states, pooled):
        bad = jnp.where(memory == 2, jnp.nan, 1.0)
        return jax.tree.map(lambda leaf: leaf * bad, kernel), memory + 1, states


def test_a_theta_that_is_not_finite_is_outside():
    sampler = dataclasses.replace(gad.haario(), adaptation=Poison())
    run, _ = states(gad.reprojected(sampler), 8)
    assert run[-1].memory.kappa == 2
    assert all(jnp.isfinite(s.kernel.proposal.factor.base.matrix).all() for s in run)


def test_the_reset_map_is_an_argument():
    """`stay_within`: θ goes home; chains within the radius stay where they are, the others go home."""
    radius = 1.5
    run, _ = states(tight(gad.haario(gain=GAIN), reset=gad.adaptations.stay_within(radius)), 80)
    stayed, returned = 0, 0
    for after in run[1:]:
        if after.memory.nu == 0:
            assert eqx.tree_equal(after.kernel, run[0].kernel)
            home = (np.asarray(after.position) == np.asarray(STARTS)).all(1)
            assert (home | (np.linalg.norm(after.position, axis=1) <= radius)).all()
            stayed, returned = stayed + (~home).sum(), returned + home.sum()
            np.testing.assert_allclose(after.chains.logp, jax.vmap(law_target.log_density)(after.position))
    assert stayed
    assert returned


def test_settings_out_of_range_raise():
    with pytest.raises(ValueError, match="growth must be"):
        gad.reprojected(growth=1.0)
    with pytest.raises(ValueError, match="bound must be"):
        gad.reprojected(bound=0.0)


def test_a_schedule_that_goes_on_needs_diminishing_gains_inside():
    assert "for ever" in gad.reprojected(gad.haario(adapt_for_ever=True)).adaptation_ends
    assert not gad.reprojected(gad.gad_mala(gain=None)).adaptation.diminishing


def test_the_basic_sampler_is_stuck_in_its_cemetery_and_the_reprojected_one_is_not():
    """From a start 100 standard deviations out: the mean of θ leaves |μ| ≤ 60, or Γ becomes as wide."""
    target, start = gad.Target(lambda x: -0.5 * x @ x), jnp.full((2, 3), 57.0)
    inner = gad.haario(gain=gad.adaptations.PowerGain(1.0, 1.0, 1.0))
    basic = dataclasses.replace(inner, adaptation=Cemetery(inner.adaptation, 57.1))
    run, records = states(basic, 400, start, target)
    dead = ~np.array([record["alive"][0] for record in records])
    assert dead.any()
    assert not dead[0]
    grave = np.flatnonzero(dead)[0]
    for state in run[grave:]:
        np.testing.assert_array_equal(state.position, run[grave].position)
        assert eqx.tree_equal(state.kernel, run[grave].kernel)
    assert np.linalg.norm(run[-1].position, axis=1).min() > 10
    run, records = states(
        gad.reprojected(inner, bound=57.1, growth=1.2, reset=gad.adaptations.stay_within(200.0)), 400, start, target
    )
    assert 1 <= run[-1].memory.kappa < 30
    assert np.linalg.norm(run[-1].position, axis=1).max() < 6
