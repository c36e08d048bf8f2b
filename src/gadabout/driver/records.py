"""What is kept of a run: which records, under which names, and in which sink."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gadabout.driver import loop
from gadabout.driver.sink import AbstractSink, check_memory
from gadabout.model import AbstractModel
from gadabout.sampler import Sampler
from gadabout.target import Target


class Records:
    """Turns the buffers of chunks into draws of the model's variables, and hands them to a sink.

    Args:
        model: gives the variables' names and values.
        sink: where they go.
        select: tells of a record's name, and of whether it is of warm-up, whether to keep it; all by default.
    """

    def __init__(self, model: AbstractModel, sink: AbstractSink, select: Callable[[str, bool], bool] = lambda *_: True):
        self.model, self.sink, self.select = model, sink, select
        self.judged: tuple[str, ...] = ()
        """what chunks that learn record besides, because iterations are looked at by the same program"""
        self._known: dict[Any, dict[str, jax.ShapeDtypeStruct]] = {}
        self._drawn: dict[str, jax.ShapeDtypeStruct] = {}

    def shapes(
        self, sampler: Sampler, target: Target, run: Any, adapt: bool, warmup: bool
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """What is kept of an iteration, among all that it offers."""
        offered = self._offers(sampler, target, run, adapt)
        kept = {name: offered[name] for name in sorted(offered) if self.select(name, warmup)}
        self._drawn = self._drawn if warmup else kept
        return kept

    def buffered(
        self, sampler: Sampler, target: Target, run: Any, adapt: bool, warmup: bool
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """The same, and what is recorded besides."""
        kept = self.shapes(sampler, target, run, adapt, warmup)
        if not (adapt and self.judged):
            return kept
        offered = self._offers(sampler, target, run, adapt)
        return {name: offered[name] for name in sorted(offered) if name in kept or name in self.judged}

    def nothing(self, num_chains: int) -> dict[str, dict[str, np.ndarray]]:
        """The groups of draws and their statistics without a draw in them."""
        specs = dict(self._drawn)
        x = specs.pop(loop.POSITION, None)
        empty = lambda spec: np.empty((num_chains, 0, *spec.shape[2:]), spec.dtype)
        posterior = {} if x is None else dict(self.model.constrain(empty(x)))
        groups = {"posterior": posterior, "sample_stats": {name: empty(spec) for name, spec in specs.items()}}
        return {name: group for name, group in groups.items() if group}

    def offered(
        self, sampler: Sampler, target: Target, run: Any, adapt: bool, names: tuple[str, ...]
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """Shape and type of some of an iteration's records."""
        offered = self._offers(sampler, target, run, adapt)
        return {name: offered[name] for name in names}

    def _offers(self, sampler: Sampler, target: Target, run: Any, adapt: bool) -> dict[str, jax.ShapeDtypeStruct]:
        """All records of an iteration; told once for each kind of sampler."""
        kind = (jax.tree.structure(sampler), adapt)
        if kind not in self._known:
            self._known[kind] = loop.shapes(sampler, target, run, adapt)
        return self._known[kind]

    def check_memory(self, shapes: dict[str, jax.ShapeDtypeStruct], draws: int, argument: str) -> None:
        """Raises MemoryError where a sink that keeps everything in memory would need more than the machine has."""
        if not self.sink.durable:
            draw = sum(spec.size * spec.dtype.itemsize for spec in shapes.values())
            remedy = "use thinning, fewer draws or chains, or record=[...] to keep less"
            check_memory(draw, draws, f"{argument} = {draws:,} draws", remedy)

    def store(
        self, buffer: dict[str, jax.Array], warmup: bool, done: int, length: int, total: int, thinning: int
    ) -> int:
        """Stores the draws of a chunk, `done` iterations being made with it; returns how many they are.

        From the first on of which a position is not finite, none is kept.
        """
        count = (-(-done // thinning) if done == total else done // thinning) - (done - length) // thinning
        rows = {name: np.asarray(values) for name, values in buffer.items() if self.select(name, warmup)}
        if loop.POSITION in rows:
            finite = np.isfinite(rows[loop.POSITION][:count]).all((1, 2, 3))
            count = count if finite.all() else int(np.argmin(finite))
        prefix = "warmup_" if warmup else ""
        groups: dict[str, dict[str, Any]] = {}
        if loop.POSITION in rows:
            x = rows.pop(loop.POSITION)
            groups["posterior"] = dict(self.model.constrain(x))
            for group, values in ({} if warmup else self.model.outputs(x)).items():
                groups.setdefault(group, {}).update(values)
        groups["sample_stats"] = rows
        for group, values in groups.items():
            own = {name: _own(np.asarray(value), count) for name, value in values.items()}
            if count and own:
                self.sink.append(prefix + group, own)
        return count

    def draws(self, spacing: int = 1) -> np.ndarray:
        """Every `spacing`-th draw kept so far, of all variables, shape (num_chains, draws, coordinates)."""
        kept = self.sink.read("posterior", spacing).values()
        return np.concatenate([values.reshape(*values.shape[:2], -1) for values in kept], -1)


def _own(values: np.ndarray, count: int) -> np.ndarray:
    """A copy of the first rows of (capacity, pools, chains, ...), with one axis of chains."""
    return np.array(values[:count]).reshape(count, values.shape[1] * values.shape[2], *values.shape[3:])
