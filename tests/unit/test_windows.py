"""Windows of warm-up that end within a chunk: the same bits as chunks that end with them, and an early end."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations.estimators import Moments
from gadabout.adaptations.fitted_gaussian import AGREEMENT, _stretch, quick_windows
from gadabout.driver import loop
from gadabout.schedule import Warm

FIELDS = ("lp", loop.POSITION)
SAMPLERS = {"nuts": gad.nuts(), "split-hmc": gad.split_hmc()}


def begin(sampler, chains=8, n=3):
    widths = jnp.resize(jnp.array([0.1, 1.0, 10.0]), n)
    target = gad.Target(lambda x: -0.5 * jnp.sum((x / widths) ** 2) - 0.1 * jnp.sum(x**4))
    keys = jax.random.split(jax.random.key(7), chains)
    warm = Warm(keys, jnp.zeros((), jnp.uint32), jax.random.normal(jax.random.key(5), (chains, n)))
    return target, loop.start(sampler, target, warm, True)


def at_once(sampler, total):
    """One chunk of a stage, windows within: the run, its draws, what it tells."""
    target, run = begin(sampler)
    windows, last = loop.windows_within(sampler.adaptation, 0, total)
    run, buffer, tally = loop.advance(sampler, target, run, last, 1, True, FIELDS, windows=windows)
    return run, np.asarray(buffer[loop.POSITION])[: int(tally.made)], tally


def one_by_one(sampler, total, windows):
    """The same by chunks that end with windows, until what is learned has settled."""
    target, run = begin(sampler)
    draws, done = [], 0
    for end in sampler.adaptation.window_ends(total):
        run, buffer, _ = loop.advance(sampler, target, run, end - done, 1, True, FIELDS, windows=windows)
        draws.append(np.asarray(buffer[loop.POSITION])[: end - done].copy())
        run, done = loop.end_window(sampler, run, sampler.adaptation.ending(end, total)), end
        if np.all(sampler.adaptation.settled(run.pools.memory)):
            break
    return run, np.concatenate(draws)


@pytest.mark.parametrize("name", SAMPLERS)
def test_windows_within_a_chunk_are_those_of_chunks_that_end_with_them(name):
    """To the bit by the program that may end windows; to rounding, until it grows, by the one that several devices run.

    What is rounded otherwise there is an update of θ among other things to do, or alone in a branch.
    """
    sampler = SAMPLERS[name]
    together, draws, _ = at_once(sampler, 120)
    none_within = replace(loop.no_windows(sampler.adaptation), learns=np.asarray(True))
    apart, parts = one_by_one(sampler, 120, none_within)
    assert len(draws) == len(parts)
    assert np.array_equal(draws, parts)
    assert jax.tree.all(jax.tree.map(np.array_equal, together.pools, apart.pools))
    _, plain = one_by_one(sampler, 120, None)
    assert len(draws) == len(plain)
    beyond_a_window = sampler.adaptation.window_ends(120)[0] + 5
    np.testing.assert_allclose(plain[:beyond_a_window], draws[:beyond_a_window], rtol=1e-7, atol=1e-9)


def test_a_chunk_ends_where_what_is_learned_has_settled():
    run, draws, tally = at_once(SAMPLERS["split-hmc"], 500)
    assert bool(tally.settled)
    assert int(run.t) == int(tally.made) == len(draws) < 200
    assert int(tally.made) in SAMPLERS["split-hmc"].adaptation.window_ends(500)
    _, draws, tally = at_once(SAMPLERS["nuts"], 120)
    assert not bool(tally.settled)  # Stan's windows never settle
    assert len(draws) == 120


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_program_that_learns_looks_as_one_that_draws_does(name):
    """With θ standing still: the same draws, to the bit, and nothing learned from them."""
    sampler = SAMPLERS[name]
    target, run = begin(sampler)
    theta = jax.tree.map(np.array, (run.pools.kernel, run.pools.memory))
    windows = loop.no_windows(sampler.adaptation)
    looked, seen, tally = loop.advance(sampler, target, run, 30, 1, True, FIELDS, windows=windows)
    still = lambda a, b: jax.tree.all(jax.tree.map(np.array_equal, a, b))
    assert still(theta, (looked.pools.kernel, looked.pools.memory))
    _, run = begin(sampler)
    drawn, plain, _ = loop.advance(sampler.drawing(), target, run, 30, 1, False, FIELDS)
    for field in FIELDS:
        np.testing.assert_array_equal(seen[field][:30], plain[field][:30])
    assert still(looked.pools.chains, drawn.pools.chains)
    assert (int(tally.made), bool(tally.settled)) == (30, False)
    windows = loop.windows_within(sampler.adaptation, 0, 120)[0]
    learned, *_ = loop.advance(sampler, target, looked, 30, 1, True, FIELDS, windows=windows)
    assert not still(theta, (learned.pools.kernel, learned.pools.memory))


def test_a_chunk_goes_as_far_as_the_windows_it_is_told_of():
    """More than a chunk holds: the rest are told when they come."""
    adaptation = gad.nuts().adaptation
    many = type("Many", (type(adaptation),), {"window_ends": lambda self, length: tuple(range(1, length + 1))})
    many = many(adaptation.rule, adaptation.where)
    windows, last = loop.windows_within(many, 0, 40)
    assert last == loop.MOST_ENDS
    np.testing.assert_array_equal(windows.after, np.arange(1, loop.MOST_ENDS + 1))
    windows, last = loop.windows_within(many, 30, 40)
    assert last == 40
    np.testing.assert_array_equal(windows.after, [*range(1, 11), *[0] * (loop.MOST_ENDS - 10)])
    np.testing.assert_array_equal(windows.ending, windows.after > 0)


def test_quick_windows_add_up_and_grow():
    for length in (1, 19, 20, 60, 250, 500, 1_000):
        assert sum(quick_windows(length)) == length
    assert quick_windows(500)[:7] == (8, 8, 12, 16, 12, 12, 12)


def test_a_window_that_fits_nothing_is_a_part_of_the_next():
    """12 iterations after a window of 16 fit nothing; their draws are counted in the fit at the end of the window."""
    sampler = SAMPLERS["split-hmc"]
    target, run = begin(sampler, 1, 90)  # so few draws that fits cannot be said to agree
    counts, done = [], 0
    for end in sampler.adaptation.window_ends(500)[:6]:
        run, _, _ = loop.advance(sampler, target, run, end - done, 1, True, FIELDS)
        counts.append(int(run.pools.memory.moments.count[0]))
        run, done = loop.end_window(sampler, run, sampler.adaptation.ending(end, 500)), end
    assert counts == [8, 8, 12, 16, 12, 24]


def fitted_to(widths, n=60, draws=40):
    """The kernel and memory after windows of draws as of Gaussians of these widths, fewer draws than coordinates."""
    sampler = gad.split_hmc("diagonal")
    target = gad.Target(lambda x: -0.5 * x @ x)
    state = sampler.init(target, jnp.zeros((2, n)))
    adaptation, kernel, memory = sampler.adaptation, state.kernel, state.memory
    told = []
    for width in widths:
        here = kernel.proposal
        moments = lambda variances: Moments(jnp.asarray(draws), jnp.zeros(n), (draws - 1) * variances)
        z = (width / here.factor.scale) ** 2
        seen = moments(z), moments(1 / z)
        memory = eqx.tree_at(lambda memory: (memory.moments, memory.gradients), memory, seen)
        kernel, memory, _ = adaptation.finish(memory, kernel, state.chains)
        told.append((float(kernel.proposal.factor.scale[0]), int(memory.agreed), bool(memory.agrees)))
    return told


def test_fits_to_few_draws_agree_together():
    """60 coordinates, windows of 40 draws: two that agree, one after the other, have twenty more; a third fit is one.

    What a window says counts as much as its draws among those that agreed; one that says otherwise is believed.
    """
    scales, agreed, agrees = zip(*fitted_to([1.2, 1.2, 1.2]), strict=True)
    assert agreed == (0, 40, 80)
    assert agrees == (False, False, True)
    scales, agreed, agrees = zip(*fitted_to([1.2, 1.2, 4.0, 4.0, 4.0]), strict=True)
    np.testing.assert_allclose(scales, [1.2, 1.2, 4.0, 4.0, 4.0], rtol=1e-6)
    assert agreed == (0, 40, 0, 40, 80)
    assert agrees == (False, False, False, False, True)
    scales, _, _ = zip(*fitted_to([1.0, 1.0, 1.5]), strict=True)
    np.testing.assert_allclose(scales, [1.0, 1.0, np.sqrt((1 + 1.5**2) / 2)], rtol=1e-6)


@pytest.mark.parametrize(("widest", "asked"), [(1e-12, False), (0.03, False), (0.3, True), (1.0, True)])
def test_how_much_a_fit_changes_is_bounded_where_it_is_little(widest, asked):
    """By a bound no less than the largest change, which agrees; where fits are further apart, by eigenvalues."""
    random = np.random.default_rng(0)
    turn, _ = np.linalg.qr(random.normal(size=(20, 20)))
    changes = widest * np.r_[1.0, random.uniform(-1, 1, 19)]
    told = float(_stretch(jnp.asarray(turn * np.exp(2 * changes) @ turn.T)))
    if asked:
        np.testing.assert_allclose(told, widest)
    else:
        assert 0.999 * widest <= told < AGREEMENT
