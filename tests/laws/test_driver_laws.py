"""What the driver promises of every sampler: chunks, keys, pooling, rejections, traces, transformations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import NoAdaptation
from gadabout.driver import loop
from gadabout.schedule import Handover
from tests.laws import law_target
from tests.laws.registry import (
    ADAPTATIONS,
    CAPABILITIES,
    SAMPLERS,
    SINGLE,
    UNADJUSTED,
    VARIANTS,
    StudentWalk,
    entry,
    every,
)

every_sampler = every(SAMPLERS, UNADJUSTED, marked=VARIANTS)  # of laws that trace and compile nothing
every_adaptation = every(SAMPLERS, UNADJUSTED, only=ADAPTATIONS, single=SINGLE)
every_capability = every(SAMPLERS, UNADJUSTED, only=CAPABILITIES, single=SINGLE)
every_exact_capability = every(SAMPLERS, only=CAPABILITIES, single=SINGLE)
CACHES = (*CAPABILITIES, "barker", "mixture-independence-for-ever", "mixture-walk")
every_cache = every(SAMPLERS, UNADJUSTED, only=CACHES, single=SINGLE)
FIELDS = ("accepted", "lp", loop.POSITION)
TO_ROUNDING = {"float64": {"rtol": 1e-9}, "float32": {"rtol": 1e-3, "atol": 1e-4}}


def curved(x, data):
    """The laws' target, or a flat one where `data` is zero: one program for both."""
    return law_target.log_density(data * x)


def begin(sampler, chains=8, pooled=True, flat=False):
    """A target, and a run of some chains on it that stand at exact draws. Laws with as many chains share programs."""
    target = gad.Target(curved, jnp.asarray(0.0 if flat else 1.0))
    keys = jax.vmap(lambda c: jax.random.fold_in(jax.random.key(7), c))(jnp.arange(chains))
    warm = Handover(keys, jnp.zeros((), jnp.uint32), law_target.draws(jax.random.key(5), chains))
    return target, loop.start(sampler, target, warm, pooled)


def advance(sampler, target, run, *lengths, adapt=True, thinning=1):
    """The records of consecutive chunks, one after another."""
    parts = []
    for length in lengths:
        run, buffer, _ = loop.advance(sampler, target, run, length, thinning, adapt, FIELDS)
        parts.append({name: np.asarray(rows)[: -(-length // thinning)].copy() for name, rows in buffer.items()})
    return run, {name: np.concatenate([part[name] for part in parts]) for name in FIELDS}


def same_bits(a, b):
    return jax.tree.all(jax.tree.map(lambda x, y: np.array_equal(x, y), a, b))


@every_capability
def test_draws_do_not_depend_on_chunk_length(name):
    sampler = entry(name)
    target, run = begin(sampler)
    one, one_records = advance(sampler, target, run, 120)
    target, run = begin(sampler)
    many, many_records = advance(sampler, target, run, 1, 50, 0, 69)
    assert same_bits(one_records, many_records)
    assert same_bits(one.pools, many.pools)
    assert one.t == 120


def kept_beside_renewed(sampler):
    """What chains keep of where they stand after 30 iterations that learn, and the same worked out from θ then."""
    pools = advance(sampler, *begin(sampler), 30)[0].pools
    rebased = jax.vmap(jax.vmap(lambda kernel, state: kernel.rebase(state), (None, 0)))(pools.kernel, pools.chains)
    return jax.tree.leaves(eqx.filter(pools.chains, eqx.is_inexact_array)), jax.tree.leaves(
        eqx.filter(rebased, eqx.is_inexact_array)
    )


@every_cache
def test_what_chains_keep_is_of_the_theta_at_hand(name, precision):
    """Whether an update wrote it anew, or left alone what it depends on. The checks run one of each kind of cache."""
    for kept, renewed in zip(*kept_beside_renewed(entry(name)), strict=True):
        np.testing.assert_allclose(
            kept, renewed, **TO_ROUNDING[precision] | {"atol": 1e-4 if precision == "float32" else 1e-9}
        )


def test_states_that_are_not_renewed_are_found():
    """The planted bug: a proposal that says its cache depends on no θ."""

    class Forgetful(StudentWalk):
        cached_by = ()

        def cache(self, here):
            return self.log_scale + here.x

        def move(self, noise, here, target):
            return self.arrive(here.x + jnp.exp(self.log_scale) * noise, target), 0.0

    pairs = zip(*kept_beside_renewed(gad.gad(Forgetful(jnp.full(3, -0.3)))), strict=True)
    assert not all(np.allclose(kept, renewed, rtol=1e-3) for kept, renewed in pairs)


@every_adaptation
def test_pooled_with_one_chain_is_unpooled(name):
    sampler = entry(name)
    runs = [advance(sampler, *begin(sampler, chains=1, pooled=pooled), 200) for pooled in (True, False)]
    assert same_bits(runs[0][1], runs[1][1])
    assert same_bits(runs[0][0].pools, runs[1][0].pools)


@every_adaptation
def test_a_chain_alone_learns_what_it_learns_beside_others(name, precision):
    """Adaptation per chain: another chain's presence changes rounding only, which grows from iteration to iteration."""
    sampler, iterations = entry(name), 30 if precision == "float64" else 20
    together = advance(sampler, *begin(sampler, chains=2, pooled=False), iterations)[1][loop.POSITION]
    target, run = begin(sampler, chains=2, pooled=False)
    alone = jax.tree.map(lambda leaf: leaf[1:] if leaf.ndim else leaf, run)
    alone = advance(sampler, target, alone, iterations)[1][loop.POSITION]
    np.testing.assert_allclose(
        together[:, 1], alone[:, 0], rtol=1e-6 if precision == "float64" else 1e-3, atol=1e-4 * (precision == "float32")
    )


@every_exact_capability
def test_rejected_states_are_repeated(name):
    sampler = entry(name)
    _, records = advance(sampler, *begin(sampler), 100, adapt=False)
    moved = np.any(np.diff(records[loop.POSITION], axis=0) != 0, axis=-1)
    np.testing.assert_array_equal(moved, records["accepted"][1:])
    assert 0 < moved.mean() < 1


@every_capability
def test_noise_differs_for_every_chain_and_iteration(name):
    """On a flat target a move's displacement is a function of its noise alone, and a random walk's are all taken.

    Independence proposals, whose weights are unbounded there, take some hundred of a thousand.
    """
    sampler = entry(name)
    _, records = advance(sampler, *begin(sampler, flat=True), 125, adapt=False)
    places = np.round(records[loop.POSITION], 9).reshape(125, -1, 3)
    before = np.stack([np.any(np.all(places[:t] == places[t], -1), 0) for t in range(1, 125)])
    steps = np.diff(records[loop.POSITION], axis=0).reshape(124, -1, 3)[~before]
    assert len(steps) > (60 if "independence" in name else 600)
    assert len(np.unique(np.round(steps[:, 0], 9))) == len(steps)


def trace_where_keys_are_watched(sampler):
    """Traces a step, and a chunk of iterations, where JAX looks for keys that are used twice; nothing is compiled."""
    target, run = begin(sampler)
    with jax.debug_key_reuse(True):
        state = jax.eval_shape(lambda x: sampler.init(target, x), jnp.zeros((2, 3)))
        jax.eval_shape(jax.jit(lambda key, state: sampler.step(key, state, target)), jax.random.key(1), state)
        eqx.filter_eval_shape(lambda run: loop.advance(sampler, target, run, 2, 1, True, FIELDS), run)


@every_sampler
def test_no_key_is_used_twice(name):
    trace_where_keys_are_watched(entry(name))


def test_the_key_reuse_check_finds_a_planted_reuse():
    class Reusing(gad.proposals.RandomWalk):
        def noise(self, key, here):
            return jax.random.normal(key, here.x.shape) + jax.random.uniform(key, here.x.shape)

    kernel = lambda n, learned: gad.kernels.Metropolis(Reusing(gad.factors.Diagonal(jnp.ones(3))))
    with pytest.raises(jax.errors.KeyReuseError, match="consumed"):
        trace_where_keys_are_watched(gad.Sampler("reusing", kernel, NoAdaptation()))


@every_capability
def test_thinning_keeps_every_third(name):
    sampler = entry(name)
    _, every = advance(sampler, *begin(sampler), 30)
    _, thinned = advance(sampler, *begin(sampler), 30, thinning=3)
    assert same_bits({k: v[2::3] for k, v in every.items()}, thinned)


@every_capability
def test_step_jits_vmaps_and_scans(name, precision):
    """The user's own loop: a scan of `step` under jit makes the same moves as the driver, to rounding."""
    sampler = entry(name)
    target, run = begin(sampler)
    keys = jax.vmap(lambda t: jax.vmap(lambda chain: jax.random.fold_in(chain, t))(run.chain_keys[0]))(jnp.arange(20))

    @jax.jit
    def own_loop(positions, keys):
        state = sampler.init(target, positions)

        def body(state, key):
            state, record = sampler.step(key, state, target)
            return state, (state.position, record["lp"])

        return jax.lax.scan(body, state, keys)[1]

    position, lp = own_loop(law_target.draws(jax.random.key(5), 8), keys)
    _, records = advance(sampler, target, run, 20)
    np.testing.assert_allclose(position, records[loop.POSITION][:, 0], **TO_ROUNDING[precision])
    np.testing.assert_allclose(lp, records["lp"][:, 0], **TO_ROUNDING[precision])

    def several(keys, starts):
        state = jax.vmap(lambda x: sampler.init(target, x))(starts)
        return jax.vmap(lambda key, state: sampler.step(key, state, target)[0].position)(keys, state)

    assert jax.eval_shape(several, keys[:5], jnp.zeros((5, 8, 3))).shape == (5, 8, 3)


@every_sampler
def test_every_kernel_jits_vmaps_and_scans(name):
    kernel, target = entry(name).kernel(3), gad.Target(law_target.log_density)
    keys = jax.random.split(jax.random.key(0), 4)

    def one(key, x):
        state, info = kernel.step(key, kernel.init(x, target), target)
        return kernel.position(state), info.record["lp"], info.acceptance_rate

    def several(keys, x):
        last, _ = jax.lax.scan(lambda s, k: (kernel.step(k, s, target)[0], None), kernel.init(x, target), keys)
        return kernel.position(last)

    shapes = lambda tree: tuple(leaf.shape for leaf in tree)
    assert shapes(jax.eval_shape(jax.jit(one), keys[0], jnp.zeros(3))) == ((3,), (), ())
    assert shapes(jax.eval_shape(jax.vmap(one), keys, jnp.zeros((4, 3)))) == ((4, 3), (4,), (4,))
    assert jax.eval_shape(several, keys, jnp.zeros(3)).shape == (3,)


TRACED = ("gad-mala", "psgld", "default")


@pytest.mark.filterwarnings("ignore::UserWarning")  # so short a run may well leave a chain where it was
@pytest.mark.parametrize("name", TRACED)
def test_the_log_density_is_traced_a_few_times_and_compiled_once(name, compilations):
    """From the front door; `test_run_laws` counts the same for every sampler from the engine on."""
    traces = 0

    def log_density(x, data):
        nonlocal traces
        traces += 1
        return law_target.log_density(x - data["shift"])

    def run(seed, shift, sampler):
        arguments = {"num_chains": 3, "num_warmup": 20, "num_draws": 100, "progress": False}
        data = {"shift": np.full(3, shift)}
        gad.sample(log_density, jnp.zeros(3), data=data, seed=seed, sampler=sampler, **arguments)

    run(0, 0.0, entry(name))
    assert 1 <= traces <= 6
    first, traces = traces, 0
    run(1, 0.0, entry(name))
    compilations.clear()
    run(1, 0.5, entry(name))
    assert traces <= 2 * first
    assert not compilations


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_new_settings_compile_nothing(compilations):
    log_density = law_target.log_density

    def run(sampler, num_draws=100, num_warmup=20, thinning=1):
        arguments = {"num_warmup": num_warmup, "num_draws": num_draws, "thinning": thinning, "progress": False}
        gad.sample(log_density, jnp.zeros(3), sampler=sampler, **arguments)

    for before, after in [
        (gad.rwm(step_size=0.1), gad.rwm(step_size=0.2)),
        (gad.hmc(3, step_size=0.1), gad.hmc(3, step_size=0.2, target_acceptance=0.7)),
        (gad.gad_mala(), gad.gad_mala(target_acceptance=0.6, learning_rate=1e-3, beta_rate=0.01)),
    ]:
        run(before)
        compilations.clear()
        run(after)
        run(after, num_draws=333, num_warmup=77, thinning=2)
        assert not compilations
