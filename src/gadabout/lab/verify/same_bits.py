"""The same seed makes the same draws, bit by bit: in chunks of any length, resumed or not, with progress or not."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from gadabout.algorithms import default
from gadabout.driver import Checkpoint, Engine, MemorySink, Records, Settings
from gadabout.driver.chunk import ChunkLength
from gadabout.lab.verify.exact import SKEW
from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.samplers import exact_samplers
from gadabout.lab.verify.sampling import sample
from gadabout.layout import layout_of
from gadabout.model import Model
from gadabout.programs import forget
from gadabout.sampler import Sampler
from gadabout.schedule import Plan, plan_of
from gadabout.starts import Starts

CHAINS, WARMUP, DRAWS = 3, 60, 80
CHUNKS = (1, 7, 1_000)
QUICK = ("gad-mala", "default")


@contextlib.contextmanager
def in_chunks(longest: int) -> Iterator[None]:
    """Limits the chunks of runs to `longest` iterations, independent of the clock."""
    with mock.patch.object(ChunkLength, "SECONDS", 1e9), mock.patch.object(ChunkLength, "LONGEST", longest):
        yield


class _Keeping(MemorySink):
    """A sink that keeps the checkpoint which follows `after` others."""

    durable = True

    def __init__(self, after: int):
        super().__init__()
        self.after, self.kept = after, None

    def commit(self, checkpoint):
        if self.after == 0:
            drawn = {group: next(iter(self.read(group).values())).shape[1] for group in self.chunks}
            self.kept = (checkpoint.to_json(), checkpoint.arrays, drawn.get("posterior", 0))
        self.after -= 1


def _given(positions, key, chain):
    return positions[chain]


def _engine(sampler: Sampler | Plan, sink: MemorySink) -> Engine:
    positions = SKEW.draws(jax.random.key(5), CHAINS)
    starts = Starts(Partial(_given, positions), 1, layout_of(jnp.zeros(3)), lambda rng, chains: np.asarray(positions))
    model, settings = Model(SKEW.log_density, jnp.zeros(3)), Settings(CHAINS, WARMUP, DRAWS)
    return Engine(model, plan_of(sampler), settings, 3, Records(model, sink), starts)


def goes_on(sampler: Sampler | Plan) -> bool:
    """Whether a run resumes from checkpoints in warm-up and among the draws to the bits of an uninterrupted run."""
    same = []
    with in_chunks(10):
        for pieces in (4, 10):
            sink, rest = _Keeping(pieces), MemorySink()
            _engine(sampler, sink).drive()
            assert sink.kept is not None
            text, arrays, drawn = sink.kept
            _engine(sampler, rest).drive(Checkpoint.from_json(text, arrays))
            whole = sink.read("posterior")["x"][:, drawn:]
            same.append(np.array_equal(rest.read("posterior")["x"], whole))
    return all(same)


def _draws(sampler: Sampler | Plan, **arguments: Any) -> np.ndarray:
    arguments = {"num_chains": CHAINS, "num_warmup": WARMUP, "num_draws": DRAWS, "progress": False} | arguments
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore", UserWarning)
        tree = sample(SKEW.log_density, jnp.zeros(3), sampler=sampler, seed=1, **arguments)
    return np.concatenate([tree[name].to_dataset()["x"].values for name in ("warmup_posterior", "posterior")], 1)


def chunks_agree(sampler: Sampler | Plan) -> bool:
    """Whether draws are the same in chunks of 1, 7 and 1,000 iterations."""
    made = []
    for longest in CHUNKS:
        with in_chunks(longest):
            made.append(_draws(sampler))
    return all(np.array_equal(made[0], other) for other in made[1:])


def watching_changes_nothing(sampler: Sampler | Plan) -> bool:
    """Whether draws are the same with progress shown and a callback called, and without."""
    return np.array_equal(_draws(sampler), _draws(sampler, progress=True, callback=lambda progress: None))


CHECKS: dict[str, Callable[[Sampler | Plan], bool]] = {
    "chunks of 1, 7 and 1,000 iterations": chunks_agree,
    "progress shown or not": watching_changes_nothing,
    "stopped and gone on, in warm-up and among the draws": goes_on,
}


def _checked(name: str) -> dict[str, bool]:
    sampler = default() if name == "default" else exact_samplers(SKEW)[name]
    found = {what: check(sampler) for what, check in CHECKS.items()}
    forget()
    return found


def run(full: bool, store: Parts) -> Found:
    """Every exact sampler and the default in the full version, one sampler and the default in the quick one."""
    names = [*exact_samplers(SKEW), "default"] if full else QUICK
    settings = {"chains": CHAINS, "warmup": WARMUP, "draws": DRAWS, "chunks": CHUNKS}
    found = {name: store.part(f"same-bits-{name}", settings, lambda name=name: _checked(name)) for name in names}
    figures = []
    for what in CHECKS:
        differing = [name for name in names if not found[name][what]]
        value = f"{len(names) - len(differing)} of {len(names)} samplers" + (f", not {differing}" if differing else "")
        figures.append(Figure(f"same bits: {what}", value, "all", not differing))
    return Found(figures, "; ".join(f"{what}: {figure.value}" for what, figure in zip(CHECKS, figures, strict=True)))


SAME_BITS = Item(
    "same-bits",
    "The same seed makes the same draws",
    "randomness or rounding that depends on chunks, on the clock or on who watches; a state that a checkpoint misses",
    run,
)
