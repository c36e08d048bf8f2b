"""Records of a run: which are stored, under which names, and in which sink."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.driver import loop
from gadabout.driver.checkpoint import Checkpoint
from gadabout.model import AbstractModel
from gadabout.sampler import Sampler
from gadabout.target import Target


class AbstractSink(ABC):
    """Stores records chunk by chunk, in groups named as in the ArviZ schema, and checkpoints if it is durable."""

    durable = False
    """whether it stores checkpoints, and stores records outside of memory"""

    @abstractmethod
    def append(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Adds draws to a group: arrays of shape (draws, num_chains, ...), which the sink owns from then on."""

    @abstractmethod
    def read(self, group: str, spacing: int = 1) -> dict[str, np.ndarray]:
        """Every `spacing`-th draw of a group, with the shape (num_chains, draws, ...); empty if there is none.

        The draws between them need not fit into memory.
        """

    def due(self) -> bool:
        """Whether a checkpoint is due before the next piece of work."""
        return self.durable

    def started(  # noqa: B027
        self, positions: np.ndarray, log_densities: np.ndarray, gradients: np.ndarray | None
    ) -> None:
        """Takes the start positions, shape (num_chains, n), log π there, and its gradient if the run uses gradients."""

    def reserve(self, disk: int, memory: int) -> None:  # noqa: B027
        """Takes the most bytes of all records on disk and of the run in memory; raises OSError for too many."""

    def commit(self, checkpoint: Checkpoint) -> None:  # noqa: B027
        """Stores a checkpoint; all records made before it are appended by then."""


class MemorySink(AbstractSink):
    """Keeps everything in memory, which grows with every chunk.

    A variable that a stage does not record is NaN in its rows, or 0 or False if it is not a float.
    """

    def __init__(self):
        self.chunks: dict[str, list[dict[str, np.ndarray]]] = {}

    def append(self, group, rows):
        self.chunks.setdefault(group, []).append(dict(rows))

    def read(self, group, spacing=1):
        chunks = self.chunks.get(group, [])
        if len(chunks) > 1:
            specimens = {name: values for chunk in chunks for name, values in chunk.items()}
            lengths = [len(next(iter(chunk.values()))) for chunk in chunks]
            missing = lambda like, n: np.full((n, *like.shape[1:]), np.nan if like.dtype.kind == "f" else 0, like.dtype)
            whole = {}
            for name, like in specimens.items():  # one by one: the chunks' own arrays are freed meanwhile
                parts = [chunk.pop(name, None) for chunk in chunks]
                filled = [missing(like, n) if part is None else part for part, n in zip(parts, lengths, strict=True)]
                whole[name] = np.concatenate(filled)
            chunks[:] = [whole]
        return {name: np.moveaxis(values[::spacing], 0, 1) for chunk in chunks for name, values in chunk.items()}


class Records:
    """Turns the buffers of chunks into draws of the model's variables, and passes them to a sink.

    Args:
        model: gives the variables' names and values.
        sink: where the draws are stored.
        select: a function of a record's name, and of whether it is of warm-up: whether to keep it; all by default.
    """

    def __init__(self, model: AbstractModel, sink: AbstractSink, select: Callable[[str, bool], bool] = lambda *_: True):
        self.model, self.sink, self.select = model, sink, select
        self._known: dict[Any, dict[str, jax.ShapeDtypeStruct]] = {}

    def shapes(
        self, sampler: Sampler, target: Target, run: loop.Run, adapt: bool, warmup: bool
    ) -> dict[str, jax.ShapeDtypeStruct]:
        """The records of a compiled iteration that are kept, with their shapes and types."""
        kind = (jax.tree.structure(sampler), adapt)
        if kind not in self._known:
            self._known[kind] = loop.shapes(sampler, target, run, adapt)
        offered = self._known[kind]
        return {name: offered[name] for name in sorted(offered) if self.select(name, warmup)}

    def nothing(self, offered: dict[str, jax.ShapeDtypeStruct], num_chains: int) -> dict[str, dict[str, np.ndarray]]:
        """The groups of draws and of their statistics without any draw; `offered` is as from `loop.shapes`."""
        empty = lambda spec: np.empty((num_chains, 0, *spec.shape[2:]), spec.dtype)
        rows = {name: empty(spec) for name, spec in offered.items() if self.select(name, False)}
        x = rows.pop(loop.POSITION, None)
        groups = {"posterior": {} if x is None else dict(self.model.constrain(x)), "sample_stats": rows}
        return {name: group for name, group in groups.items() if group}

    def store(
        self, buffer: dict[str, jax.Array], warmup: bool, done: int, length: int, total: int, thinning: int
    ) -> int:
        """Stores the draws of a chunk, after which `done` iterations are made; returns their number.

        The first draw with a position that is not finite, and those after it, are not stored.
        """
        count = (-(-done // thinning) if done == total else done // thinning) - (done - length) // thinning
        rows = {name: np.asarray(values) for name, values in buffer.items() if self.select(name, warmup)}
        if loop.POSITION in rows:
            finite = np.isfinite(rows[loop.POSITION][:count]).all((1, 2, 3))
            count = count if finite.all() else int(np.argmin(finite))
        chains = lambda values: values[:count].reshape(count, math.prod(values.shape[1:3]), *values.shape[3:])
        self._append({name: chains(values) for name, values in rows.items()}, warmup)
        return count

    def keep(self, rows: dict[str, np.ndarray], warmup: bool) -> int:
        """Stores draws of a host stage, (draws, chains, ...) each, in JAX's precision; returns their number."""
        count, dtype = len(next(iter(rows.values()))), jnp.result_type(float)
        kept = {name: values for name, values in rows.items() if self.select(name, warmup)}
        self._append({name: v.astype(dtype) if v.dtype.kind == "f" else v for name, v in kept.items()}, warmup)
        return count

    def _append(self, rows: dict[str, np.ndarray], warmup: bool) -> None:
        """Passes draws (draws, chains, ...) to the sink, with positions as the model's variables."""
        x = rows.pop(loop.POSITION, None)
        groups = ({} if x is None else self._groups(x, warmup)) | {"sample_stats": rows}
        for group, values in groups.items():
            own = {name: np.array(value) for name, value in values.items()}
            if own and len(next(iter(own.values()))):
                self.sink.append(("warmup_" if warmup else "") + group, own)

    def _groups(self, x: np.ndarray, warmup: bool) -> dict[str, dict[str, Any]]:
        """The model's variables and its other outputs at positions (draws, chains, n).

        If a program computes these, rows are padded to a power of two, so that few sizes are compiled.
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
        """Every `spacing`-th stored draw, of all variables, shape (num_chains, draws, coordinates)."""
        kept = self.sink.read("posterior", spacing).values()
        return np.concatenate([values.reshape(*values.shape[:2], -1) for values in kept], -1)
