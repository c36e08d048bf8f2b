"""Host functions inside JAX's programs, by `jax.pure_callback`: values and gradients that are not written in JAX."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from gadabout.density.host import HostDensity, Rows

__all__ = ["HostDensity", "Rows", "host_values", "unflattened"]


def host_values(rows: Callable[[np.ndarray], np.ndarray], x: Float[Array, "*draws n"], size: int) -> Array:
    """The values (..., size) of a host function, from rows (m, n) to (m, size), at flat positions (..., n)."""
    if not isinstance(x, Tracer):
        return _flattened(rows, size, x)  # pyright: ignore[reportReturnType]
    like = jax.ShapeDtypeStruct((*x.shape[:-1], size), x.dtype)
    return jax.pure_callback(partial(_flattened, rows, size), like, x, vmap_method="expand_dims")


def _flattened(rows: Callable[[np.ndarray], np.ndarray], size: int, x: Any) -> np.ndarray:
    """The values for any leading axes. Successive equal rows are evaluated once: buffers end in unused rows."""
    x = np.asarray(x)
    flat = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
    new = np.ones(len(flat), bool)
    new[1:] = np.any(flat[1:] != flat[:-1], 1)
    values = np.asarray(rows(flat[new]), x.dtype) if len(flat) else np.empty((0, size), x.dtype)
    return values[np.cumsum(new) - 1].reshape(*x.shape[:-1], size)


def unflattened(like: PyTree) -> Callable[[np.ndarray], PyTree]:
    """A function from rows (m, n) to positions: their leaves are NumPy arrays with a leading axis of length m."""
    leaves, structure = jax.tree.flatten(like)
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def positions(x):
        parts = np.split(x, ends[:-1], -1)
        return jax.tree.unflatten(
            structure, [part.reshape(len(x), *shape) for part, shape in zip(parts, shapes, strict=True)]
        )

    return positions
