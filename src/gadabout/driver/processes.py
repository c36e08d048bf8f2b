"""A run over several processes: all make the same calls, and what a clock, a disk or a signal decides is agreed on."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

LEADER = 0
"""the process that decides, and that writes"""


def several(mesh: Mesh | None) -> bool:
    """Whether devices of the mesh belong to other processes too."""
    return mesh is not None and len(mesh.local_devices) < mesh.size


def leads(mesh: Mesh | None) -> bool:
    """Whether this process decides and writes, as it does where there is no other."""
    return not several(mesh) or jax.process_index() == LEADER


def told(mesh: Mesh | None, *mine: int) -> np.ndarray:
    """What every process says, a row for each; all processes must call this, with as many numbers below 2³¹."""
    row = np.array(mine, np.int32)
    return np.reshape(multihost_utils.process_allgather(row), (-1, row.size)) if several(mesh) else row[None]


def in_step[T](mesh: Mesh | None, act: Callable[[], T]) -> T:
    """What `act` returns, once it has ended in every process; where it raised in one, it raises in all."""
    try:
        made = act()
    except BaseException:
        told(mesh, 1)
        raise
    if (failed := np.flatnonzero(told(mesh, 0))).size:
        raise RuntimeError(f"process {failed[0]} could not go on; its own error says why")
    return made


def check_alike(mesh: Mesh | None, digest: int) -> None:
    """Raises ValueError where processes do not say the same of their run."""
    if len(np.unique(told(mesh, digest & 0x7FFFFFFF))) > 1:
        raise ValueError("the processes of this run were called with different arguments: all must make the same call")


def spread(leaf: Any, sharding: NamedSharding) -> Any:
    """An array that every process has as a whole, laid over devices of all of them."""
    return jax.make_array_from_callback(leaf.shape, sharding, lambda index: leaf[index])


def whole(tree: PyTree, mesh: Mesh) -> PyTree:
    """Arrays that lie over devices of several processes, as a whole on each process's first: one communication."""
    leaves, form = jax.tree.flatten(tree)
    apart = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable]
    for i, leaf in zip(apart, _replicated(mesh)([leaves[i] for i in apart]), strict=True):
        leaves[i] = leaf.addressable_data(0)
    return jax.tree.unflatten(form, leaves)


@functools.cache
def _replicated(mesh: Mesh) -> Callable[[list], list]:
    return jax.jit(lambda leaves: leaves, out_shardings=NamedSharding(mesh, P()))
