"""The length of chunks: by the pace of the last one, restored by a checkpoint."""

import jax.numpy as jnp
import pytest

import gadabout as gad
from gadabout.api.positions import starts_of
from gadabout.driver import Checkpoint, Engine, MemorySink, Records, Settings
from gadabout.driver.chunk import ChunkLength, Pipeline, Segment
from gadabout.schedule import plan_of


@pytest.mark.parametrize(
    ("before", "iterations", "seconds", "after"),
    [
        (1, 1, 1e-6, 8),  # eight times as long, at most
        (64, 64, ChunkLength.SECONDS, 64),
        (64, 64, 2 * ChunkLength.SECONDS, 32),
        (64, 64, 100.0, 1),  # never empty
        (2**29, 2**29, 1e-9, ChunkLength.LONGEST),
        (512, 10, ChunkLength.SECONDS, 10),  # of a chunk that was cut short, its pace
    ],
)
def test_a_chunk_takes_as_long_as_it_should_by_the_pace_of_the_last(before, iterations, seconds, after):
    length = ChunkLength(before)
    length.update(iterations, seconds)
    assert length.iterations == after


def test_chunks_are_short_where_the_pace_is_unknown():
    for before, after in ((1, 1), (10**6, ChunkLength.UNKNOWN)):
        length = ChunkLength(before)
        length.forget_pace()
        assert length.iterations == after


@pytest.mark.parametrize(
    ("done", "end", "warmup", "expected"),
    [
        (0, 1_000, False, 30),  # to the evaluation at draw 10, of three iterations each
        (7, 1_000, False, 23),
        (7, 20, False, 13),
        (0, 1_000, True, 40),  # there is none in warm-up
        (970, 1_000, True, 30),
    ],
)
def test_a_chunk_ends_with_its_segment_and_where_until_is_evaluated(done, end, warmup, expected):
    settings = Settings(2, 1_000, 1_000, thinning=3, until=gad.Until(ess=10, every=10))
    pipeline = Pipeline(settings, Records(gad.Model(lambda x: -x @ x, jnp.zeros(2)), MemorySink()), (), 0.0)
    pipeline.chunk_length = ChunkLength(40)
    assert pipeline.length(Segment("sampling", done, end, 1_000, adapt=warmup, warmup=warmup)) == expected


class Keeping(MemorySink):
    """Keeps the last checkpoint."""

    durable = True
    last = None

    def commit(self, checkpoint):
        self.last = (checkpoint.to_json(), checkpoint.arrays)


@pytest.mark.parametrize("sampler", [gad.rwm(), gad.default()], ids=["compiled", "host"])
def test_a_checkpoint_restores_the_length_of_the_next_chunk(sampler, monkeypatch):
    monkeypatch.setattr(ChunkLength, "SECONDS", 1e9)
    monkeypatch.setattr(ChunkLength, "LONGEST", 5)
    model, sink = gad.Model(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2)), Keeping()

    def engine(sink, interrupted):
        starts = starts_of(None, None, model, 2, False)
        return Engine(
            model, plan_of(sampler), Settings(2, 20, 20), 0, Records(model, sink), starts, interrupted=interrupted
        )

    engine(sink, lambda: False).drive()
    assert sink.last is not None
    again = engine(MemorySink(), lambda: True)
    again.drive(Checkpoint.from_json(*sink.last))
    assert again.pipeline.chunk_length.iterations == 5
