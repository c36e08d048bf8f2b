"""A log density whose rows are divided among devices, for data too large or likelihoods too slow for one."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from gadabout.checks import check_devices, check_function
from gadabout.model import Model

ROWS = "rows"
"""the mesh axis over which rows are divided"""


def sharded(
    log_prior: Callable[[Any], Any],
    log_likelihood: Callable[[Any, Any], Any],
    rows: PyTree,
    position: PyTree,
    *,
    devices: int | Sequence[Any] | None = None,
    **settings: Any,
) -> Model:
    r"""$\log p(\theta) + \sum_i \log p(y_i \mid \theta)$, each device summing over its own share of the rows.

    Devices exchange sums once for each evaluation, and once for its gradient; all chains are on every device. Rows that
    fill up the last share count nothing. Not for `devices=` of `sample`, which divides chains.

    Args:
        log_prior: log p(θ) of a position, a scalar, in JAX.
        log_likelihood: log p(y_i | θ) of (position, rows): one number for each row, in JAX.
        rows: a pytree of arrays whose leading axis counts rows. Each device holds only its share.
        position: an example of a position.
        devices: number of JAX's devices, or a list of devices; all by default.
        settings: further arguments of `gadabout.Model`, such as `start`, `dims` or `transforms`.

    Raises:
        TypeError, ValueError: if an argument has the wrong type, or leaves do not have the same number of rows.
    """
    check_function("log_prior", log_prior)
    check_function("log_likelihood", log_likelihood)
    mesh = Mesh(np.array(jax.devices() if devices is None else check_devices(devices)), (ROWS,))
    data = _laid(rows, mesh)

    def log_density(position, data):
        def share(position, rows, inside):
            each = log_likelihood(position, rows)
            if jnp.shape(each) != inside.shape:
                raise TypeError(
                    f"log_likelihood must return one number for each of the {len(inside)} rows, got the shape "
                    f"{jnp.shape(each)}"
                )
            return jax.lax.psum(jnp.sum(jnp.where(inside, each, 0)), ROWS)

        total = jax.shard_map(share, mesh=mesh, in_specs=(P(), P(ROWS), P(ROWS)), out_specs=P())(position, *data)
        return log_prior(position) + total

    return Model(log_density, position, data=data, **settings)


def _laid(rows: PyTree, mesh: Mesh) -> tuple[PyTree, jax.Array]:
    """The rows in equal shares over the devices, filled up with copies of the first, and a mask of the given rows."""
    leaves = jax.tree.leaves(rows)
    counts = {np.shape(leaf)[:1] for leaf in leaves}
    if len(counts) != 1 or counts in ({()}, {(0,)}):
        shapes = [np.shape(leaf) for leaf in leaves]
        raise ValueError(
            f"rows must be arrays with the same number of rows along the leading axis, got shapes {shapes}"
        )
    ((count,),) = counts
    whole = mesh.size * -(-count // mesh.size)
    over = NamedSharding(mesh, P(ROWS))

    def part(leaf, index):
        chosen = np.arange(whole)[index[0]]
        return np.asarray(leaf[np.where(chosen < count, chosen, 0)])

    def lay(leaf):
        leaf = leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)
        dtype = jnp.zeros(0, leaf.dtype).dtype
        return jax.make_array_from_callback(
            (whole, *leaf.shape[1:]), over, lambda index: part(leaf, index).astype(dtype)
        )

    return jax.tree.map(lay, rows), jax.device_put(np.arange(whole) < count, over)
