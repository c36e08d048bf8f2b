"""Log densities that the host evaluates, as functions that JAX's programs can call by `jax.pure_callback`."""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

type Rows = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""function of float64 rows (m, n) that returns log densities (m,) and their gradients (m, n)"""


class HostDensity(eqx.Module):
    """A log density whose value and gradient the host computes, for all chains in one call.

    A row holds the leaves of a position one after another: in the order of `names`, or in JAX's order without names.
    `value_rows` returns the values alone, for functions where this is cheaper.
    """

    rows: Rows = eqx.field(static=True)
    differentiable: bool = eqx.field(static=True, default=True)
    names: tuple[str, ...] | None = eqx.field(static=True, default=None)
    value_rows: Callable[[np.ndarray], np.ndarray] | None = eqx.field(static=True, default=None)
    on_host: ClassVar[bool] = True

    def __call__(self, position: PyTree, data: Any = None) -> Float[Array, ""]:
        x = ravel_pytree(position if self.names is None else [position[name] for name in self.names])[0]
        return _value(self.rows, x) if self.differentiable else _both(self.rows, x)[0]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _value(rows: Rows, x: Float[Array, " n"]) -> Float[Array, ""]:
    return _both(rows, x)[0]


@_value.defjvp
def _(rows, primals, tangents):
    value, gradient = _both(rows, primals[0])
    return value, gradient @ tangents[0]


def _both(rows: Rows, x: Float[Array, " n"]) -> tuple[Array, Array]:
    like = jax.ShapeDtypeStruct((), x.dtype), jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(partial(_pair, rows), like, x, vmap_method="expand_dims")


def _pair(rows: Rows, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Value and gradient of rows with any leading axes."""
    x = np.asarray(x)
    value, gradient = rows(np.asarray(x, np.float64).reshape(-1, x.shape[-1]))
    return np.asarray(value, x.dtype).reshape(x.shape[:-1]), np.asarray(gradient, x.dtype).reshape(x.shape)
