"""What a run promises: it goes on from any stop to the same bits, and its state is never copied on the way."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.driver import Checkpoint, Completed, Engine, Interrupted, MemorySink, Records, Settings, pipeline
from gadabout.driver.loop import Run
from gadabout.driver.search import Starts
from gadabout.layout import layout_of
from gadabout.schedule import plan_of
from tests.laws import law_target
from tests.laws.registry import PLANS, SAMPLERS, UNADJUSTED

ALL = SAMPLERS | UNADJUSTED | PLANS
every_plan = pytest.mark.parametrize("name", ALL)
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


def engine(name, sink, interrupted=lambda: False, **settings):
    """A run of two chains from exact draws of the laws' target, in pieces of some iterations."""
    layout = layout_of(jnp.zeros(3))
    model = gad.Model(law_target.log_density, jnp.zeros(3))
    starts = Starts(jax.tree_util.Partial(given, law_target.draws(jax.random.key(5), CHAINS)), 1, layout)
    settings = Settings(CHAINS, WARMUP, DRAWS, **settings)
    plan = plan_of(ALL[name])
    return Engine(model, plan, settings, jax.random.key(3), Records(model, sink), starts, interrupted=interrupted)


@pytest.fixture(autouse=True)
def _pieces_of_seven(monkeypatch):
    """Chunks of seven iterations or less, whatever the clock says."""

    def wait(self):
        self.account = pipeline.replace(self.account, chunk=7)

    monkeypatch.setattr(pipeline.Pipeline, "wait", wait)


def records(sink):
    return {(group, name): rows for group in sink.chunks for name, rows in sink.read(group).items()}


@every_plan
def test_a_run_goes_on_from_any_stop_to_the_same_bits(name):
    """Every fourth checkpoint, mid-warm-up, at the ends of windows and among the draws; and two interruptions."""
    sink = Keeping()
    whole = engine(name, sink)
    assert isinstance(whole.drive(), Completed)
    expected = records(sink)
    assert len(sink.kept) >= 10
    for text, arrays, stored in sink.kept[1::4]:
        json.loads(text)
        assert all(type(array) is np.ndarray and array.dtype != object for array in arrays.values())
        later = MemorySink()
        resumed = engine(name, later)
        assert isinstance(resumed.drive(Checkpoint.from_json(text, arrays)), Completed)
        for key, rows in records(later).items():
            np.testing.assert_array_equal(rows, expected[key][:, stored.get(key[0], 0) :])
        assert {key for key, rows in expected.items() if rows.shape[1] > stored.get(key[0], 0)} == set(records(later))
        same = jax.tree.map(lambda a, b: bool((jax.random.key_data(a) == jax.random.key_data(b)).all())
                            if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else bool((a == b).all()),
                            whole.progress, resumed.progress)  # fmt: skip
        assert jax.tree.all(same)
        assert resumed.pipeline.account.gradient_evaluations == whole.pipeline.account.gradient_evaluations

    # interrupted twice, its result settled in a copy in between, a run makes the draws of the one that was left alone
    later, asked = MemorySink(), []

    def interrupted():
        asked.append(None)
        return len(asked) in (4, 8)

    broken, endings = engine(name, later, interrupted), []
    while not endings or isinstance(endings[-1], Interrupted):
        endings.append(broken.drive())
        broken.settled()
    assert [type(ending) for ending in endings] == [Interrupted, Interrupted, Completed]
    for key, rows in expected.items():
        np.testing.assert_array_equal(records(later)[key], rows)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("name", ["gad-mala", "nuts", "cycle", "reprojected-haario", "haario-for-ever", "psgld"])
def test_the_state_is_donated(name, durable):
    """After each piece of work the arrays that it began with are gone: no copy of the state was made."""
    run, pieces = engine(name, Keeping() if durable else MemorySink()), 0
    for stage in run.plan.stages:
        advance = type(stage).advance

        def watched(self, engine, progress, done, advance=advance):
            nonlocal pieces
            before = [leaf for leaf in jax.tree.leaves(progress) if isinstance(leaf, jax.Array)]
            after = advance(self, engine, progress, done)
            if isinstance(progress, Run):
                assert all(leaf.is_deleted() for leaf in before)
                pieces += 1
            return after

        object.__setattr__(stage, "advance", watched.__get__(stage))
    run.drive()
    assert pieces > 5


def test_a_view_of_the_state_is_found_to_keep_it_alive(monkeypatch):
    """The planted bug: a checkpoint that holds views in place of copies."""
    monkeypatch.setattr(np, "array", lambda leaf, copy=None, **kw: np.asarray(leaf, **kw))
    with pytest.raises(AssertionError):
        test_the_state_is_donated("gad-mala", True)


@pytest.mark.parametrize("every", [5, 12])
def test_stop_rules_are_asked_at_absolute_draws(every):
    """Whatever the chunks: the run ends at a multiple of `every`, and its draws are the first of the longer run."""
    alone, sink = MemorySink(), MemorySink()
    engine("mala", alone).drive()
    stopped = engine("mala", sink, until=gad.Until(seconds=1e-9, every=every))
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
        Checkpoint.from_json(text.replace('"format": 1', '"format": 99'), arrays)


def test_draws_leave_theta_alone():
    tree = gad.sample(law_target.log_density, jnp.zeros(3), sampler=gad.gad_mala(scale=0.8), num_warmup=0,
                      num_draws=50, progress=False)  # fmt: skip
    np.testing.assert_array_equal(tree["learned"]["proposal.factor.matrix"], 0.8 * np.eye(3))
    assert "warmup_posterior" not in tree
