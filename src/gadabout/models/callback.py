"""Functions of the host inside JAX's programs: values and gradients that JAX did not write, by `jax.pure_callback`."""

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
    """A host function of rows (m, n) that returns (m, size), on flat positions (..., n)."""
    if not isinstance(x, Tracer):
        return _flattened(rows, size, x)  # pyright: ignore[reportReturnType]
    like = jax.ShapeDtypeStruct((*x.shape[:-1], size), x.dtype)
    return jax.pure_callback(partial(_flattened, rows, size), like, x, vmap_method="expand_dims")


def _flattened(rows: Callable[[np.ndarray], np.ndarray], size: int, x: Any) -> np.ndarray:
    """Values of rows of any leading axes; a row that repeats the one before once, as buffers end in rows not in use."""
    x = np.asarray(x)
    flat = np.asarray(x, np.float64).reshape(-1, x.shape[-1])
    new = np.ones(len(flat), bool)
    new[1:] = np.any(flat[1:] != flat[:-1], 1)
    values = np.asarray(rows(flat[new]), x.dtype) if len(flat) else np.empty((0, size), x.dtype)
    return values[np.cumsum(new) - 1].reshape(*x.shape[:-1], size)


def unflattened(like: PyTree) -> Callable[[np.ndarray], PyTree]:
    """The function from rows (m, n) to positions whose leaves have the axis m in front, as NumPy arrays."""
    leaves, structure = jax.tree.flatten(like)
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def positions(x):
        parts = np.split(x, ends[:-1], -1)
        return jax.tree.unflatten(
            structure, [part.reshape(len(x), *shape) for part, shape in zip(parts, shapes, strict=True)]
        )

    return positions
