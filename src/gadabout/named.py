"""Checks of arguments by name: data, dimensions of variables, coordinates along dimensions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gadabout.checks import shown

OWN = ("chain", "draw")
"""dimensions that every result has"""


def checked_data(data: PyTree) -> PyTree:
    """The data as JAX arrays; raises TypeError for a leaf that is not made of numbers."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if isinstance(leaf, jax.Array):
            continue
        dtype = np.asarray(leaf).dtype
        if dtype.kind not in "biufc" and not jnp.issubdtype(dtype, jnp.inexact):
            name = f"data{jax.tree_util.keystr(path)}"
            raise TypeError(f"{name} has the type {dtype}; pass arrays of numbers, got {shown(leaf)}")
    return jax.tree.map(jnp.asarray, data)


def by_name(argument: str, value: Any) -> dict[str, Any]:
    """A dict whose keys are strings, or an empty one for None; raises TypeError for anything else."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise TypeError(f"{argument} must be a dict by name, got {shown(value)}")
    return dict(value)


def checked_dims(dims: Any) -> dict[str, Sequence[str]]:
    """The names of dimensions by variable; raises TypeError or ValueError if they are not lists of names."""
    for variable, names in (found := by_name("dims", dims)).items():
        listed = isinstance(names, Collection) and not isinstance(names, str | bytes)
        if not listed or not all(isinstance(name, str) for name in names):
            remedy = f"; write {[names]!r}" if isinstance(names, str) else ""
            raise TypeError(f"dims[{variable!r}] must be a list of names, got {shown(names)}{remedy}")
        if taken := [name for name in names if name in OWN]:
            raise ValueError(
                f"dims[{variable!r}] has {taken[0]!r}, which the result puts in front itself; leave it out"
            )
    return found


def checked_coords(coords: Any) -> dict[str, Any]:
    """The coordinates by dimension; raises TypeError or ValueError if they are not one-dimensional."""
    for dimension, values in (found := by_name("coords", coords)).items():
        if dimension in OWN:
            raise ValueError(f"coords has {dimension!r}, a dimension that the result numbers itself; leave it out")
        if np.ndim(values) != 1:
            raise ValueError(f"coords[{dimension!r}] must be one value for each place along it, got {shown(values)}")
    return found


def checked_observed(observed: Any) -> dict[str, Any]:
    """The observed data by name; raises TypeError for values that are not numbers."""
    for name, values in (found := by_name("observed", observed)).items():
        dtype = np.asarray(values).dtype
        if dtype.kind not in "biufc" and not jnp.issubdtype(dtype, jnp.inexact):
            raise TypeError(f"observed[{name!r}] must be an array of numbers, got {shown(values)}")
    return found


def check_coords(coords: Mapping[str, Any], dims: Mapping[str, Sequence[str]], shapes: Mapping[str, tuple]) -> None:
    """Raises ValueError for coordinates along a dimension that no variable has.

    The dimensions of a variable x without `dims` are named `x_dim_0`, `x_dim_1` and so on.
    """
    there = {dimension for names in dims.values() for dimension in names}
    there |= {f"{name}_dim_{i}" for name, shape in shapes.items() if name not in dims for i in range(len(shape))}
    for dimension in coords:
        if dimension not in there:
            has = f"they have {', '.join(map(repr, sorted(there)))}" if there else "they have none"
            raise ValueError(
                f"coords has {dimension!r}, a dimension of no variable ({has}); name it in dims, such as "
                f"dims={{'x': [{dimension!r}]}}, or leave it out"
            )


def check_names(dims: Mapping[str, Sequence[str]], coords: Mapping[str, Any], shapes: Mapping[str, tuple]) -> None:
    """Raises ValueError if dims or coords do not fit variables of these shapes."""
    for variable, names in dims.items():
        if variable not in shapes:
            raise ValueError(f"dims: there is no variable {variable!r}; there are {', '.join(map(repr, shapes))}")
        shape = shapes[variable]
        if len(names) != len(shape):
            raise ValueError(
                f"dims[{variable!r}] must name the {len(shape)} dimensions of shape {shape}, got {names!r}"
            )
        for name, size in zip(names, shape, strict=True):
            if name in coords and len(coords[name]) != size:
                raise ValueError(
                    f"coords[{name!r}] has {len(coords[name])} values, but {variable!r} has the length {size} there; "
                    "give one for each place"
                )
