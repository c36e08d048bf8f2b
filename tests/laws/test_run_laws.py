"""What a run promises: it goes on from any stop to the same bits, and its state is never copied on the way."""

import json
from dataclasses import replace
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.driver import (
    Checkpoint,
    Completed,
    Engine,
    Interrupted,
    MemorySink,
    Records,
    Settings,
    checkpoint,
)
from gadabout.driver.chunk import ChunkLength
from gadabout.driver.runner import Runner, Stream, stream_key
from gadabout.ensemble.split_hmc import SplitHMC
from gadabout.ensemble.stages import AbstractHostStage, DrawChosen, LearnGaussian, LearnNuts
from gadabout.layout import layout_of
from gadabout.schedule import Draw, Learn, plan_of
from gadabout.starts import Starts
from tests.conftest import by_name
from tests.laws import law_target
from tests.laws.registry import CAPABILITIES, ON_HOST, PLANS, SAMPLERS, SINGLE, UNADJUSTED, entry, every

WARMUP, DRAWS, CHAINS = 40, 41, 2


def given(positions, key, chain):
    return positions[chain]


class Keeping(MemorySink):
    """Keeps every checkpoint as plain arrays and JSON, with the number of draws that were stored before it."""

    durable = True

    def __init__(self):
        super().__init__()
        self.kept = []

    def commit(self, checkpoint):
        stored = {group: next(iter(self.read(group).values())).shape[1] for group in self.chunks}
        self.kept.append((checkpoint.to_json(), checkpoint.arrays, stored))


class Counted:
    """The laws' target, shifted, and how often it was traced."""

    traces = 0

    def __call__(self, x, data):
        self.traces += 1
        return law_target.log_density(x - data["shift"])

    def model(self, shift=0.0):
        return gad.Model(self, jnp.zeros(3), data={"shift": np.full(3, shift)})


PLAIN = gad.Model(law_target.log_density, jnp.zeros(3))


def engine(name, sink, interrupted=lambda: False, *, model=PLAIN, chains=range(CHAINS), seed=3, **settings):
    """A run of some chains from exact draws of the laws' target, in pieces of some iterations.

    Of a run in which chain c is the first, the start and the noise are those that c has in a run beside others.
    """
    positions = law_target.draws(jax.random.key(5), 8)[jnp.asarray(chains)]
    rows = lambda rng, count: np.asarray(positions)
    starts = Starts(jax.tree_util.Partial(given, positions), 1, layout_of(jnp.zeros(3)), rows)
    settings = Settings(len(chains), WARMUP, DRAWS, **settings)
    plan, records = plan_of(entry(name)), Records(model, sink)
    made = Engine(model, plan, settings, seed, records, starts, interrupted=interrupted)
    if not plan.on_host:
        noise = stream_key(seed, Stream.CHAINS)
        made.runner.chain_keys = jax.vmap(lambda c: jax.random.fold_in(noise, c))(jnp.asarray(chains))
    return made


def in_pieces(monkeypatch, longest):
    """Chunks of so many iterations or less, whatever the clock says: windows end within them or between."""
    monkeypatch.setattr(ChunkLength, "SECONDS", 1e9)
    monkeypatch.setattr(ChunkLength, "LONGEST", longest)


@pytest.fixture(autouse=True)
def _pieces_of_five(monkeypatch):
    in_pieces(monkeypatch, 5)


def same_bits(a, b):
    if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
        a, b = jax.random.key_data(a), jax.random.key_data(b)
    return np.array_equal(a, b, equal_nan=jnp.issubdtype(a.dtype, jnp.floating))


def same_state(one, other):
    return jax.tree.all(jax.tree.map(np.array_equal, one.bit_generator.state, other.bit_generator.state))


def records(sink):
    return {(group, name): rows for group in sink.chunks for name, rows in sink.read(group).items()}


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
    """The names of the stages that made a piece of work, after each of which the arrays it began with must be gone.

    Those of NumPy, of which a result or a checkpoint may hold some, must be as they were.
    """
    seen = []

    def watched(kind):
        advance = kind.advance

        def watching(self, engine, progress, done):
            before = jax.tree.leaves(progress)
            copies = [np.copy(leaf) for leaf in before if isinstance(leaf, np.ndarray)]
            after = advance(self, engine, progress, done)
            assert all(leaf.is_deleted() for leaf in before if isinstance(leaf, jax.Array)), (
                "a copy of the state was made"
            )
            for leaf, copy in zip((leaf for leaf in before if isinstance(leaf, np.ndarray)), copies, strict=True):
                np.testing.assert_array_equal(leaf, copy, "the state was written over")
            seen.append(type(self).__name__)
            return after

        return watching

    for kind in (Learn, Draw, AbstractHostStage, LearnGaussian, LearnNuts, DrawChosen):
        monkeypatch.setattr(kind, "advance", watched(kind))
    return seen


@every(SAMPLERS, UNADJUSTED, PLANS, ON_HOST, only=CAPABILITIES, single=SINGLE)
def test_a_run_goes_on_from_any_stop_to_the_same_bits(name, pieces, compilations):
    """Every fourth checkpoint, mid-warm-up, at the ends of windows and among the draws; and two interruptions.

    Of the default, whose stages hand on different things, every checkpoint.

    All along the state is donated to the next piece of work, whether or not a checkpoint was taken of it. The log
    density is traced a few times in each run, and no run of another seed or of other data compiles anything.
    """
    sink, counted = Keeping(), Counted()
    whole = engine(name, sink, model=counted.model())
    assert isinstance(whole.drive(), Completed)
    assert ({"LearnGaussian", "DrawChosen"} if name in ON_HOST else {"Learn", "Draw"}) <= set(pieces)
    assert len(pieces) > 5
    first = counted.traces
    assert 1 <= first <= max(6 * len(whole.plan.samplers), 3)
    expected = records(sink)
    assert len(sink.kept) >= 10
    for text, arrays, stored in sink.kept[1 :: 1 if name in ON_HOST else 4]:
        json.loads(text)
        assert all(type(array) is np.ndarray and array.dtype != object for array in arrays.values())
        later = MemorySink()
        resumed = engine(name, later, model=counted.model())
        assert isinstance(resumed.drive(Checkpoint.from_json(text, arrays)), Completed)
        for key, rows in records(later).items():
            np.testing.assert_array_equal(rows, expected[key][:, stored.get(key[0], 0) :])
        for key in expected.keys() - records(later).keys():  # nothing more, or what only an earlier stage records
            assert not np.nan_to_num(expected[key][:, stored.get(key[0], 0) :]).any()
        assert jax.tree.all(jax.tree.map(same_bits, whole.progress, resumed.progress))
        assert not whole.plan.on_host or same_state(whole.rng, resumed.rng)
        assert resumed.pipeline.account.gradient_evaluations == whole.pipeline.account.gradient_evaluations

    # interrupted twice, its result settled in a copy in between, a run makes the draws of the one that was left alone
    later, asked = MemorySink(), []

    def interrupted():
        asked.append(None)
        return len(asked) in (4, 8)

    broken, endings = engine(name, later, interrupted, model=counted.model()), []
    while not endings or isinstance(endings[-1], Interrupted):
        endings.append(broken.drive())
        broken.theta()
    assert [type(ending) for ending in endings] == [Interrupted, Interrupted, Completed]
    for key, rows in expected.items():
        np.testing.assert_array_equal(records(later)[key], rows)

    compilations.clear()
    counted.traces = 0
    engine(name, MemorySink(), model=counted.model(shift=0.5), seed=4).drive()
    assert counted.traces <= first
    assert not compilations


def funnel(x):
    """x₀ ~ N(0, 3²), the others N(0, e^{x₀}): coordinates with a layer are learned."""
    return -(x[0] ** 2) / 18 - x[0] - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0])


def islands(x):
    """Two Gaussians, both of which chains ascend to: a mixture is fitted."""
    centre = jnp.array([3.0, -1.0, 5.0])
    return jnp.logaddexp(-2 * jnp.sum((x - centre) ** 2), jnp.log(2.0) - 2 * jnp.sum((x + centre) ** 2))


@pytest.mark.parametrize(
    ("log_density", "name", "chains", "learned"),
    [
        (funnel, "default", 2, "layers"),
        (funnel, "default-nuts", 2, "layers"),
        (islands, "default", 7, "component_means"),
    ],
)
def test_a_run_with_layers_or_a_mixture_goes_on_from_any_stop_to_the_same_bits(
    log_density, name, chains, learned, monkeypatch
):
    """Of every fifth checkpoint; and its draws do not depend on the length of pieces."""
    model, sink = gad.Model(log_density, jnp.zeros(3)), Keeping()
    made = lambda sink: engine(name, sink, model=model, chains=range(chains))
    whole = made(sink)
    assert isinstance(whole.drive(), Completed)
    expected = records(sink)
    assert sum(f"progress/handover/{learned}" in arrays for _, arrays, _ in sink.kept) > 5
    for text, arrays, stored in sink.kept[::5]:
        later = MemorySink()
        resumed = made(later)
        assert isinstance(resumed.drive(Checkpoint.from_json(text, arrays)), Completed)
        for key, rows in records(later).items():
            np.testing.assert_array_equal(rows, expected[key][:, stored.get(key[0], 0) :])
        assert jax.tree.all(jax.tree.map(same_bits, whole.progress, resumed.progress))
        assert same_state(whole.rng, resumed.rng)
        assert resumed.evidence == whole.evidence
    in_pieces(monkeypatch, 1_000)
    other = MemorySink()
    made(other).drive()
    for key, rows in expected.items():
        np.testing.assert_array_equal(records(other)[key], rows)


@pytest.mark.parametrize("name", ["mala", "default"])
@pytest.mark.parametrize("again", [False, True], ids=["stopped", "stopped once more"])
def test_a_run_that_is_stopped_in_warm_up_has_draws_of_which_there_is_none(name, again):
    whole, sink, asked = MemorySink(), Keeping(), []
    engine(name, whole).drive()
    checkpoint = None
    stop = lambda: asked.append(None) or len(asked) == 5
    if again:
        engine(name, sink, stop).drive()
        text, arrays, _ = sink.kept[-1]
        checkpoint, stop = Checkpoint.from_json(text, arrays), lambda: True
    stopped = engine(name, MemorySink(), stop)
    assert isinstance(stopped.drive(checkpoint), Interrupted)
    nothing = stopped.nothing()
    assert nothing.keys() == {"posterior", "sample_stats"}
    for group, values in nothing.items():
        made = whole.read(group)
        assert made.keys() <= values.keys()
        for key, rows in made.items():
            assert (values[key].dtype, values[key].shape) == (rows.dtype, rows[:, :0].shape)


def test_a_view_of_the_state_is_found_to_keep_it_alive(monkeypatch):
    """The planted bug: a checkpoint that holds views in place of copies."""
    engine("gad-mala", Keeping()).drive()
    views = SimpleNamespace(**vars(np) | {"array": lambda leaf, **_: np.asarray(leaf)})
    monkeypatch.setattr(checkpoint, "np", views)
    with pytest.raises(AssertionError, match="a copy of the state was made"):
        engine("gad-mala", Keeping()).drive()


def draws_of(name, chains):
    sink = MemorySink()
    assert isinstance(engine(name, sink, chains=chains, pooled=False).drive(), Completed)
    return sink.read("posterior")["x"]


@by_name(["gad-mala", "haario", "psgld"], {"gad-mala", "psgld"})
def test_adapted_per_chain_each_draws_with_its_own_theta(name):
    """From start to draws, chains beside others go where each goes alone.

    What other adaptations learn alone and beside others is compared in `test_driver_laws`.
    """
    together = draws_of(name, [0, 1, 2])
    for c in (1, 2):
        np.testing.assert_allclose(together[c], draws_of(name, [c])[0], rtol=1e-6)


def test_chains_that_draw_with_the_first_ones_theta_are_found(monkeypatch):
    """The planted bug: where warm-up ends, all chains are given the θ of chain 0."""
    hand_over = Runner.hand_over

    def of_the_first(self, run):
        warm, kernel = hand_over(self, run), run.pools.kernel
        first = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), kernel)
        return replace(warm, pools=eqx.tree_at(lambda pools: pools.kernel, warm.pools, first))

    monkeypatch.setattr(Runner, "hand_over", of_the_first)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_adapted_per_chain_each_draws_with_its_own_theta("gad-mala")


@pytest.mark.parametrize("name", ON_HOST)
def test_draws_of_the_host_do_not_depend_on_the_length_of_pieces(name, monkeypatch):
    made = []
    for longest in (1, 7, 1_000):
        in_pieces(monkeypatch, longest)
        sink = MemorySink()
        engine(name, sink).drive()
        made.append(records(sink))
    for other in made[1:]:
        assert other.keys() == made[0].keys()
        for key, rows in made[0].items():
            np.testing.assert_array_equal(other[key], rows)


def test_a_generator_that_begins_anew_after_a_stop_is_found(monkeypatch, pieces, compilations):
    """The planted bug: its state is not that of the checkpoint."""
    nested = Checkpoint.nested
    monkeypatch.setattr(Checkpoint, "nested", lambda self: nested(self) | {"rng": np.random.Philox(0).state})
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        test_a_run_goes_on_from_any_stop_to_the_same_bits("default-split-hmc", pieces, compilations)


def test_a_state_that_is_written_over_is_found(monkeypatch):
    """The planted bug: what an earlier checkpoint may hold changes."""
    advance = SplitHMC.advance

    def in_place(self, state, rng, iterations):
        after, drawn = advance(self, state, rng, iterations)
        for name, values in state.items():
            values[...] = after[name]
        return after, drawn

    monkeypatch.setattr(SplitHMC, "advance", in_place)
    with pytest.raises(AssertionError, match="the state was written over"):
        engine("default-split-hmc", MemorySink()).drive()


@pytest.mark.parametrize("name", ["mala", "default"])
@pytest.mark.parametrize("every", [5, 12])
def test_stop_rules_are_asked_at_absolute_draws(every, name):
    """Whatever the chunks: the run ends at a multiple of `every`, and its draws are the first of the longer run."""
    alone, sink = MemorySink(), MemorySink()
    engine(name, alone).drive()
    stopped = engine(name, sink, until=gad.Until(seconds=1e-9, every=every))
    assert type(stopped.drive()).__name__ == "Satisfied"
    draws = sink.read("posterior")["x"]
    assert draws.shape[1] == every
    np.testing.assert_array_equal(draws, alone.read("posterior")["x"][:, :every])


def test_a_checkpoint_of_another_run_is_refused():
    sink = Keeping()
    engine("mala", sink).drive()
    text, arrays, _ = sink.kept[3]
    with pytest.raises(ValueError, match="the checkpoint is of mala"):
        engine("rwm", MemorySink()).drive(Checkpoint.from_json(text, arrays))
    short = {path: array[None] for path, array in arrays.items()}
    with pytest.raises(ValueError, match="other settings"):
        engine("mala", MemorySink()).drive(Checkpoint.from_json(text, short))
    with pytest.raises(ValueError, match="format 99"):
        Checkpoint.from_json(json.dumps(json.loads(text) | {"format": 99}), arrays)


def test_draws_leave_theta_alone():
    tree = gad.sample(law_target.log_density, jnp.zeros(3), sampler=gad.gad_mala(scale=0.8), num_warmup=0,
                      num_draws=50, progress=False)  # fmt: skip
    np.testing.assert_array_equal(tree["learned"]["proposal.factor.matrix"], 0.8 * np.eye(3))
    assert "warmup_posterior" not in tree
