"""No key is used twice in a run: neither for two draws, nor for a draw and other keys; starts and data included."""

import sys
from collections import Counter

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.driver import runner
from tests.laws import law_target
from tests.laws.registry import CAPABILITIES, ON_HOST, PLANS, SAMPLERS, UNADJUSTED, entry, every

THREEFRY = jax.extend.random.threefry_prng_impl
NEW_KEY = jax.random.key
CHAINS, WARMUP, DRAWS = 2, 2, 2


class Watch:
    """A generator of random bits that notes, while programs run, which keys bits and which keys others are made of."""

    def __init__(self):
        self.drawn, self.parents = Counter(), Counter()
        noted = lambda seen, make: lambda key, *how: (self.note(seen, key), make(key, *how))[1]
        self.generator = jax.extend.random.define_prng_impl(
            key_shape=THREEFRY.key_shape,
            seed=THREEFRY.seed,
            split=noted(self.parents, THREEFRY.split),
            random_bits=noted(self.drawn, THREEFRY.random_bits),
            fold_in=noted(self.parents, THREEFRY.fold_in),
            name="watched",
        )

    def note(self, seen, key):
        jax.debug.callback(lambda key: seen.update([tuple(np.asarray(key).tolist())]), key)


def start(key):
    """A start that every chain finds at the first try: in a batch, those that are done go on trying for nothing."""
    return jax.random.normal(key, (3,))


def predict(key, x):
    return {"y": x[0] + jax.random.normal(key)}


def watched_run(monkeypatch, sampler, log_density=law_target.log_density, num_chains=CHAINS):
    """The keys of a short run, one chain after another: where several are a batch, what is not kept is made as well."""
    watch = Watch()
    monkeypatch.setattr(jax.random, "key", lambda seed: NEW_KEY(seed, impl=watch.generator))
    chains = {} if sampler in ON_HOST.values() else {"chain_block": 1}
    gad.sample(
        gad.Model(log_density, start=start, predict=predict),
        sampler=sampler, num_chains=num_chains, num_warmup=WARMUP, num_draws=DRAWS, progress=False, **chains,
    )  # fmt: skip
    jax.effects_barrier()
    return watch


def check(watch, fewest):
    assert watch.drawn.total() >= fewest
    assert [key for key, times in watch.drawn.items() if times > 1] == []
    assert watch.drawn.keys() & watch.parents.keys() == set()


@pytest.mark.filterwarnings("ignore::UserWarning")  # so short a run is told of much
@every(SAMPLERS, UNADJUSTED, PLANS, ON_HOST, only=CAPABILITIES, marked=["two-stages"], single=())
def test_no_key_is_used_twice_in_a_run(name, precision, monkeypatch):
    """Starts, moves and predictions of a run: all draws come from keys of their own, which have no precision.

    A plan of two stages has the marker: one of two samplers has two stages too.
    """
    moves = 0 if name in ON_HOST else CHAINS * (WARMUP + DRAWS)
    check(watched_run(monkeypatch, entry(name)), CHAINS * (1 + DRAWS) + moves)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_key_is_used_twice_where_starts_are_searched(monkeypatch):
    """Of one chain, which finds a start after several tries with this seed."""
    tail = lambda x: jnp.where(x[0] > 1.5, law_target.log_density(x), -jnp.inf)
    check(watched_run(monkeypatch, entry("rwm"), tail, num_chains=1), 2 * (WARMUP + DRAWS) + DRAWS + 3)


def starts_of_the_chains(monkeypatch):
    """Bug of old: starts are searched with the keys of the chains' moves."""
    find = runner.find_start
    own = lambda *parts: find(*parts[:-1], runner.stream_key(0, runner.Stream.CHAINS))
    monkeypatch.setattr(runner, "find_start", own)


def one_key_for_noise_and_acceptance(monkeypatch):
    """Bug: whether a move is accepted depends on its noise."""
    wait = lambda key, dtype: -jnp.log1p(-jax.random.uniform(key, dtype=dtype))
    used = []
    monkeypatch.setattr(gad.proposals.RandomWalk, "noise", lambda self, key, here: (
        used.append(key), jax.random.normal(key, here.x.shape, here.x.dtype))[1])  # fmt: skip
    monkeypatch.setattr(jax.random, "exponential", lambda key, dtype: wait(used[-1], dtype))


def predictions_of_the_starts(monkeypatch):
    """Bug: two streams have one number."""
    number = lambda seed, stream: jax.random.fold_in(jax.random.key(seed), 0)
    monkeypatch.setattr(sys.modules["gadabout.api.predictive"], "stream_key", number)


def tries_of_one_key(monkeypatch):
    """Bug: chains, tries and iterations have one key."""
    fold_in = jax.random.fold_in
    monkeypatch.setattr(jax.random, "fold_in", lambda key, i: fold_in(key, 0 * i))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "bug", [starts_of_the_chains, one_key_for_noise_and_acceptance, predictions_of_the_starts, tries_of_one_key]
)
def test_keys_that_are_used_twice_are_found(bug, monkeypatch):
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        check(watched_run(monkeypatch, gad.rwm(step_size=0.9)), 0)
