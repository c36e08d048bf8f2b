"""What is kept of a run: which records, under which names, and in which sink."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.driver import loop
from gadabout.driver.memory import check_memory
from gadabout.driver.sink import AbstractSink
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
        self._known: dict[Any, dict[str, jax.ShapeDtypeStruct]] = {}

    def shapes(
        self, sampler: Sampler, target: Target, run: Any, adapt: bool, warmup: bool
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """What is kept of a compiled iteration, among all that it offers."""
        kind = (jax.tree.structure(sampler), adapt)
        if kind not in self._known:
            self._known[kind] = loop.shapes(sampler, target, run, adapt)
        offered = self._known[kind]
        return {name: offered[name] for name in sorted(offered) if self.select(name, warmup)}

    def nothing(self, offered: dict[str, jax.ShapeDtypeStruct], num_chains: int) -> dict[str, dict[str, np.ndarray]]:
        """The groups of draws and their statistics without a draw in them, of what draws offer (as `loop.shapes`)."""
        specs = {name: spec for name, spec in offered.items() if self.select(name, False)}
        x = specs.pop(loop.POSITION, None)
        empty = lambda spec: np.empty((num_chains, 0, *spec.shape[2:]), spec.dtype)
        posterior = {} if x is None else dict(self.model.constrain(empty(x)))
        groups = {"posterior": posterior, "sample_stats": {name: empty(spec) for name, spec in specs.items()}}
        return {name: group for name, group in groups.items() if group}

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
        chains = lambda values: values[:count].reshape(count, math.prod(values.shape[1:3]), *values.shape[3:])
        own = {name: chains(values) for name, values in rows.items()}
        self._append(own, warmup)
        return count

    def keep(self, rows: dict[str, np.ndarray], warmup: bool) -> int:
        """Stores draws of a host stage, (draws, chains, ...) each, in JAX's precision; returns how many they are."""
        count, dtype = len(next(iter(rows.values()))), jnp.result_type(float)
        kept = {name: values for name, values in rows.items() if self.select(name, warmup)}
        self._append({name: v.astype(dtype) if v.dtype.kind == "f" else v for name, v in kept.items()}, warmup)
        return count

    def _append(self, rows: dict[str, np.ndarray], warmup: bool) -> None:
        """Hands draws (draws, chains, ...) to the sink, positions as the model's variables."""
        prefix, groups = "warmup_" if warmup else "", {}
        if loop.POSITION in rows:
            x = rows.pop(loop.POSITION)
            groups = self._groups(x, warmup)
        groups["sample_stats"] = rows
        for group, values in groups.items():
            own = {name: np.array(value) for name, value in values.items()}
            if own and len(next(iter(own.values()))):
                self.sink.append(prefix + group, own)

    def _groups(self, x: np.ndarray, warmup: bool) -> dict[str, dict[str, Any]]:
        """The model's variables, and what else it computes, of positions (draws, chains, n).

        Where that is a program, rows are filled up to a power of two, so that few sizes are compiled.
        """
        count, size = len(x), 1 << max(len(x) - 1, 0).bit_length()
        if count and not self.model.plain:
            x = np.concatenate([x, np.broadcast_to(x[:1], (size - count, *x.shape[1:]))])
        groups: dict[str, dict[str, Any]] = {"posterior": dict(self.model.constrain(x))}
        for group, values in ({} if warmup else self.model.outputs(x)).items():
            groups.setdefault(group, {}).update(values)
        cut = lambda values: {name: np.asarray(value)[:count] for name, value in values.items()}
        return {group: cut(values) for group, values in groups.items()}

    def draws(self, spacing: int = 1) -> np.ndarray:
        """Every `spacing`-th draw kept so far, of all variables, shape (num_chains, draws, coordinates)."""
        kept = self.sink.read("posterior", spacing).values()
        return np.concatenate([values.reshape(*values.shape[:2], -1) for values in kept], -1)
