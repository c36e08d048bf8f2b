"""Densities that JAX evaluates, by exactly two compiled programs."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, SingleDeviceSharding

from gadabout import executables
from gadabout.density.base import AbstractDensity
from gadabout.target import Target

GRADIENT_COST = 6
"""cost of a row with its gradient, in rows of a full block of values (7 on ripley, 3 on german)"""


class JaxDensity(AbstractDensity):
    """log π of a `Target`: one program for value and gradient of `chains` rows, one for the value of `block` rows.

    The constructor traces the target's function and raises its errors. Threads then compile both programs in parallel;
    the first use of a program waits for it. Data and other arrays of the target are arguments of the programs: a target
    with other arrays of the same shape compiles nothing (`gadabout.executables`). A small batch is padded with copies
    of its first row, a large batch is split. The precision is JAX's default at construction.

    Args:
        target: log density of flat positions.
        dim: number n of coordinates of a position.
        chains: usual number of rows in a batch of gradients.
        block: usual number of rows in a batch of values.
        mesh: devices among which rows are divided; each has its own copy of the programs. Each process evaluates the
            rows of its devices and receives the results of all: all processes must make the same calls.
        chain_block: rows that a device evaluates at a time. Results then have the same bits for any number of devices:
            the programs are the same, one loop over blocks whose number is an argument. (Partitioned programs are not:
            XLA simplifies them in another order and rounds the gradient of Neal's funnel differently.)
    """

    def __init__(
        self,
        target: Target,
        dim: int,
        chains: int,
        block: int,
        mesh: Mesh | None = None,
        chain_block: int | None = None,
    ):
        super().__init__(dim)
        self.dtype = np.dtype(jnp.result_type(float))
        self._devices = [None] if mesh is None else list(mesh.devices.flat)
        self._own = [i for i, device in enumerate(self._devices) if _process(device) == jax.process_index()]
        self._chain_block = chain_block
        leaves, structure = jax.tree.flatten(replace(target, edition=None))
        is_array = [eqx.is_array(leaf) for leaf in leaves]
        arrays = [leaf for leaf, is_one in zip(leaves, is_array, strict=True) if is_one]  # a list is passed quickly
        self._arrays = {i: jax.device_put(arrays, self._devices[i]) for i in self._own}

        @jax.jit  # traced once for both programs
        def log_density(x, arrays):
            given = iter(arrays)
            now = [next(given) if is_one else leaf for leaf, is_one in zip(leaves, is_array, strict=True)]
            return jax.tree.unflatten(structure, now).log_density(x)

        functions = self._gradient, _ = jax.value_and_grad(log_density), log_density
        self._sizes = self._size(chains), self._size(block)
        programs = [
            (self._batched(function), *self._specs(i, size))
            for function, size in zip(functions, self._sizes, strict=True)
            for i in self._own
        ]
        futures = executables.side_by_side(*programs, options=self._options())
        first = len(self._own)
        self._gradient_programs = dict(zip(self._own, futures[:first], strict=True))
        self._value_programs = dict(zip(self._own, futures[first:], strict=True))

    @cached_property
    def operations(self) -> float:
        """Number of floating-point operations of one gradient (`executables.operations`)."""
        x = jax.ShapeDtypeStruct((self.dim,), self.dtype)
        return executables.operations(self._gradient, x, self._arrays[self._own[0]])

    def _value(self, x):
        chains, block = (size * len(self._devices) for size in self._sizes)
        rest = len(x) % block
        if self._chain_block or GRADIENT_COST * (rest + -rest % chains) > block:  # the padded block costs less
            rest = 0
        tables = [self._evaluated(self._value_programs, self._sizes[1], 1, x[: len(x) - rest])]
        tables += [self._evaluated(self._gradient_programs, self._sizes[0], 1, x[len(x) - rest :])] if rest else []
        return np.concatenate(tables)[:, 0]

    def _value_and_grad(self, x):
        table = self._evaluated(self._gradient_programs, self._sizes[0], 1 + self.dim, x)
        return table[:, 0].copy(), table[:, 1:].copy()

    def _evaluated(self, programs: dict[int, Any], size: int, columns: int, x: np.ndarray) -> np.ndarray:
        """The first `columns` columns of the programs' results for rows (m, n), which are divided among the devices."""
        rows, least = len(x), self._chain_block or 1
        if len(self._own) == len(self._devices) == 1 and 0 < rows <= size:
            return np.asarray(self._call(programs[0], 0, size, x))[:rows, :columns].astype(np.float64)
        share = least * -(-rows // (least * len(self._devices)))
        parts = [
            (i, slice(start, min(start + size, (i + 1) * share, rows)))
            for i in range(len(self._devices))
            for start in range(i * share, min((i + 1) * share, rows), size)
        ]
        begun = [(part, self._call(programs[i], i, size, x[part])) for i, part in parts if i in programs]
        table = np.zeros((rows, columns), self.dtype)
        for part, found in begun:
            table[part] = np.asarray(found)[: part.stop - part.start, :columns]
        if len(self._own) < len(self._devices):
            owners = [_process(self._devices[i]) for i, part in parts for _ in range(part.start, part.stop)]
            table = _whole(table, np.array(owners))
        return table.astype(np.float64)

    def _call(self, program: Any, i: int, size: int, x: np.ndarray) -> jax.Array:
        """The result of a program for rows that are padded here; waits until the program is compiled."""
        blocks = np.array(-(-len(x) // (self._chain_block or size)), np.int32)
        padded = x if len(x) == size else np.concatenate([x, np.repeat(x[:1], size - len(x), 0)])
        return program.result()(padded.astype(self.dtype), self._arrays[i], blocks)

    def _batched(self, function: Callable) -> Callable:
        """A program of rows (m, n), arrays and the number of blocks, which returns columns (m, 1) or (m, 1 + n)."""

        def each(x, arrays):
            found = jax.vmap(function, (0, None))(x, arrays)
            return jnp.column_stack(jax.tree.leaves(found))

        def in_blocks(size, x, arrays, blocks):
            def step(i, table):
                made = each(jax.lax.dynamic_slice_in_dim(x, i * size, size), arrays)
                return jax.lax.dynamic_update_slice_in_dim(table, made, i * size, 0)

            like = jax.eval_shape(each, x, arrays)
            return jax.lax.fori_loop(0, blocks, step, jnp.zeros(like.shape, like.dtype))

        return partial(in_blocks, self._chain_block) if self._chain_block else lambda x, arrays, _: each(x, arrays)

    def _specs(self, i: int, rows: int) -> tuple:
        sharding = None if self._devices[i] is None else SingleDeviceSharding(self._devices[i])
        x = jax.ShapeDtypeStruct((rows, self.dim), self.dtype, sharding=sharding)
        return x, self._arrays[i], jax.ShapeDtypeStruct((), np.int32, sharding=sharding)

    def _size(self, rows: int) -> int:
        """Number of rows of a program: a device's share, or with `chain_block` all rows, rounded up to whole blocks."""
        return (
            -(-rows // self._chain_block) * self._chain_block if self._chain_block else -(-rows // len(self._devices))
        )

    def _options(self) -> dict[str, Any] | None:
        platform = jax.default_backend() if self._devices[0] is None else self._devices[0].platform
        return None if platform != "cpu" or jax.config.read("jax_disable_most_optimizations") else executables.QUICK


def _process(device: Any) -> int:
    return jax.process_index() if device is None else device.process_index


def _whole(table: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """Rows (m, k), each from the process that owns it, by one exchange of bits in either precision."""
    from jax.experimental.multihost_utils import process_allgather

    tables = np.asarray(process_allgather(table.view(np.uint32)))
    return tables[owners, np.arange(len(table))].view(table.dtype)
