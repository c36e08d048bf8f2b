"""Detection of indices beyond the end of an axis: JAX raises no error for them, and reads the last place instead."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal  # pyright: ignore[reportPrivateImportUsage]

MOST_INDICES = 2**20
"""largest size of an index array that is checked"""
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "lt": lambda a, b, **_: np.less(a, b),
    "ge": lambda a, b, **_: np.greater_equal(a, b),
    "add": lambda a, b, **_: np.add(a, b),
    "sub": lambda a, b, **_: np.subtract(a, b),
    "mul": lambda a, b, **_: np.multiply(a, b),
    "select_n": lambda which, *cases, **_: np.choose(np.asarray(which, int), cases),
    "convert_element_type": lambda a, *, new_dtype, **_: np.asarray(a).astype(new_dtype),
    "reshape": lambda a, *, new_sizes, **_: np.reshape(a, new_sizes),
    "squeeze": lambda a, *, dimensions, **_: np.squeeze(a, tuple(dimensions)),
    "concatenate": lambda *parts, dimension, **_: np.concatenate(parts, dimension),
    "broadcast_in_dim": lambda a, *, shape, broadcast_dimensions, **_: np.broadcast_to(
        np.reshape(a, _spread(np.shape(a), len(shape), broadcast_dimensions)), shape
    ),
    "iota": lambda *, dtype, shape, dimension, **_: np.broadcast_to(
        np.arange(shape[dimension], dtype=dtype).reshape(_spread((shape[dimension],), len(shape), (dimension,))), shape
    ),
}
"""operations on indices before their use, in NumPy, by the name of JAX's primitive"""

type Known = dict[Any, np.ndarray]


def beyond_an_axis(function: Callable[..., Any], *arguments: Any) -> tuple[int, int] | None:
    """The first index beyond an axis that a function in JAX uses, and the axis's length; None if there is none.

    The function is traced. Checked are indices that it holds itself, and those from arrays of whole numbers, NumPy's or
    JAX's, in `arguments`; not checked are all others, and those that are clipped or filled on purpose.

    Args:
        function: a function of pytrees.
        arguments: arrays, or their shapes (`jax.ShapeDtypeStruct`).
    """
    closed = jax.make_jaxpr(function)(*arguments)
    known = dict(zip(closed.jaxpr.invars, jax.tree.leaves(arguments), strict=True))
    known |= dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return _search(closed.jaxpr, {variable: np.asarray(value) for variable, value in known.items() if _usable(value)})


def _usable(value: Any) -> bool:
    """Whether a value can be an index array, and is small enough to be checked."""
    if isinstance(value, int):
        return True
    kind = getattr(value, "dtype", None) if isinstance(value, np.ndarray | np.generic | jax.Array) else None
    whole = kind is not None and (jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.bool_))
    return whole and np.size(value) <= MOST_INDICES


def _small(variable: Any) -> bool:
    return np.prod(variable.aval.shape) <= MOST_INDICES


def _search(jaxpr: Jaxpr, known: Known) -> tuple[int, int] | None:
    """`beyond_an_axis` of a traced program, some of whose variables are known; adds those computed from them."""
    for equation in jaxpr.eqns:
        values = [_value(variable, known) for variable in equation.invars]
        name, params = equation.primitive.name, equation.params
        if found := _beyond(name, params, equation.invars, values):
            return found
        if name in OPERATIONS and all(value is not None for value in values) and _small(equation.outvars[0]):
            known[equation.outvars[0]] = np.asarray(OPERATIONS[name](*values, **params))
        for inner in () if name == "cond" else _programs(params):
            called = len(inner.invars) == len(values)
            own = {v: value for v, value in zip(inner.invars, values, strict=False) if called and value is not None}
            if name in ("while", "scan"):  # their variables change from one iteration to the next
                own = {}
            if found := _search(inner, own):
                return found
            outs = zip(equation.outvars, inner.outvars, strict=False) if called else ()
            known |= {out: value for out, result in outs if (value := _value(result, own)) is not None}
    return None


def _programs(params: Mapping[str, Any]) -> list[Jaxpr]:
    """The jaxprs that an operation calls."""
    held = [part for value in params.values() for part in (value if isinstance(value, tuple | list) else [value])]
    return [part.jaxpr if isinstance(part, ClosedJaxpr) else part for part in held
            if isinstance(part, ClosedJaxpr | Jaxpr)]  # fmt: skip


def _value(variable: Any, known: Known) -> np.ndarray | None:
    if isinstance(variable, Literal):
        return np.asarray(variable.val) if _usable(variable.val) else None
    return known.get(variable)


def _beyond(name: str, params: Mapping[str, Any], operands: Sequence[Any], values: Sequence[Any]) -> Any:
    """An index beyond an axis and the axis's length, if the operation reads with such an index; else None."""
    if name == "dynamic_slice":
        axes, indices = range(len(values) - 1), values[1:]
    elif name == "gather" and params["mode"] == jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS and values[1] is not None:
        axes = params["dimension_numbers"].start_index_map
        indices = [values[1][..., i] for i in range(len(axes))]
    else:
        return None
    for axis, index in zip(axes, indices, strict=True):
        length, each = operands[0].aval.shape[axis], params["slice_sizes"][axis]
        if index is not None and np.size(index):
            wrong = np.ravel(index)[(np.ravel(index) < 0) | (np.ravel(index) > length - each)]
            if wrong.size:
                return int(wrong[0]) - (length if wrong[0] < 0 else 0), length
    return None


def _spread(shape: Sequence[int], ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The shape with `ndim` axes that has the sizes `shape` along `axes`, and length one along all others."""
    spread = [1] * ndim
    for size, axis in zip(shape, axes, strict=True):
        spread[axis] = size
    return tuple(spread)
