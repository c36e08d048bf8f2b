"""A run's devices, processes and threads.

Several processes all make the same calls. A decision that depends on one's clock, disk or signals is shared by all.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

import equinox as eqx
import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree
from threadpoolctl import threadpool_limits

CHAINS = "chains"
"""the mesh axis over which chains are distributed"""
LEADER = 0
"""the process that decides and writes"""


def several(mesh: Mesh | None) -> bool:
    """Whether devices of the mesh belong to other processes too."""
    return mesh is not None and len(mesh.local_devices) < mesh.size


def leads(mesh: Mesh | None) -> bool:
    """Whether this process decides and writes; True if there is no other."""
    return not several(mesh) or jax.process_index() == LEADER


def allgather(mesh: Mesh | None, *mine: int) -> np.ndarray:
    """The numbers of every process, one row each; all processes must call this, with equally many numbers below 2³¹."""
    row = np.array(mine, np.int32)
    return np.reshape(multihost_utils.process_allgather(row), (-1, row.size)) if several(mesh) else row[None]


def in_step[T](mesh: Mesh | None, act: Callable[[], T]) -> T:
    """The value of `act`, once it has ended in every process; if it raises in one, all of them raise."""
    try:
        made = act()
    except BaseException:
        allgather(mesh, 1)
        raise
    if (failed := np.flatnonzero(allgather(mesh, 0))).size:
        raise RuntimeError(f"process {failed[0]} could not go on; its own error says why")
    return made


def check_alike(mesh: Mesh | None, digest: int) -> None:
    """Raises ValueError if the digests of processes differ."""
    if len(np.unique(allgather(mesh, digest & 0x7FFFFFFF))) > 1:
        raise ValueError("the processes of this run were called with different arguments: all must make the same call")


def lay[T](tree: T, specs: PyTree, mesh: Mesh) -> T:
    """A tree with its arrays, complete in every process, distributed over the mesh according to `specs`."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    spread = lambda leaf, laid: jax.make_array_from_callback(leaf.shape, laid, lambda index: leaf[index])
    put = spread if several(mesh) else jax.device_put
    return eqx.combine(jax.tree.map(lambda leaf, spec: put(leaf, NamedSharding(mesh, spec)), arrays, specs), rest)


def gather[T](tree: T, mesh: Mesh | None) -> T:
    """A tree with its arrays whole on the first device of this process; all processes must call this.

    Rare computations are done there, so that their rounding does not depend on the number of devices.
    """
    if mesh is None:
        return tree
    leaves, form = jax.tree.flatten(tree)
    if several(mesh):  # one communication for all arrays
        apart = [i for i, leaf in enumerate(leaves) if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable]
        for i, leaf in zip(apart, _replicated(mesh)([leaves[i] for i in apart]), strict=True):
            leaves[i] = leaf.addressable_data(0)
    else:
        leaves = [jax.device_put(leaf, mesh.devices.flat[0]) if eqx.is_array(leaf) else leaf for leaf in leaves]
    return jax.tree.unflatten(form, leaves)


@functools.cache
def _replicated(mesh: Mesh) -> Callable[[list], list]:
    return jax.jit(lambda leaves: leaves, out_shardings=NamedSharding(mesh, P()))


_lock = threading.Lock()
_limits: list[threadpool_limits] = []
"""one for each run in progress; the first one holds the original limits"""


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits BLAS and LAPACK, SciPy's and XLA's too, to one thread in this process until the last of several runs ends.

    On two cores shared with other processes, a fit of 100 coordinates takes 3.6 ms on one thread of OpenBLAS and 440 ms
    on two, which wait for each other. On idle cores the second thread gains nothing.
    """
    import_module("scipy.linalg")  # XLA uses its BLAS; a library that is loaded later would not be limited
    with _lock:
        _limits.append(threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()
