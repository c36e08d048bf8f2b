"""Flat, unconstrained positions and their layout, from a result."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.layout import Layout
from gadabout.model import AbstractModel

if TYPE_CHECKING:
    import xarray as xr

FREE = "unconstrained_posterior"


def layout_from(tree: Any, model: AbstractModel, argument: str = "warm_start") -> Layout:
    """The layout of a result's positions: a dict of its variables, or the bare array if `x` is the only variable.

    Raises TypeError if `tree` is not a result of `sample`.
    """
    check_result(tree, argument)
    variables = {str(name): values for name, values in tree["posterior"].data_vars.items()}
    position = {name: jax.ShapeDtypeStruct(values.shape[2:], values.dtype) for name, values in variables.items()}
    return model.layout_for(position["x"] if list(position) == ["x"] else position, argument)


def flat_draws(tree: Any, layout: Layout, argument: str = "warm_start") -> np.ndarray:
    """All draws of a result as flat positions, shape (chain, draw, n).

    Raises TypeError if `tree` is not a result of `sample`, ValueError if its variables are not those of the model.
    """
    check_result(tree, argument)
    if FREE in tree.children:
        return _read(tree[FREE], layout.free_names, layout.shapes, argument)
    if not layout.transforms:
        return _read(tree["posterior"], layout.names, layout.shapes, argument)
    pairs = zip(layout.names, layout.shapes, strict=True)
    shapes = {name: _own(layout.transforms.get(name), shape) for name, shape in pairs}
    _read(tree["posterior"], layout.names, tuple(shapes.values()), argument)
    position = layout.position({name: jnp.asarray(tree["posterior"][name].values) for name in layout.names})
    return np.asarray(jax.vmap(jax.vmap(layout.ravel))(position))


def check_result(tree: Any, argument: str) -> None:
    """Raises TypeError if `tree` is not a result of `sample` with draws."""
    import xarray as xr

    if not isinstance(tree, xr.DataTree) or not {"posterior", "learned"} <= set(tree.children):
        raise TypeError(f"{argument} must be a result of gadabout.sample, with its draws, got {type(tree).__name__}")


def _own(transform: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape if transform is None else tuple(transform.forward_shape(shape))


def _read(group: "xr.DataTree", names: Any, shapes: Any, argument: str) -> np.ndarray:
    parts = []
    for name, shape in zip(names, shapes, strict=True):
        values = group.data_vars.get(name)
        if values is None or values.shape[2:] != shape:
            found = {str(k): v.shape[2:] for k, v in group.data_vars.items()}
            raise ValueError(f"{argument} has the variables {found}, the model needs {name!r} of shape {shape}")
        parts.append(np.asarray(values.values, float).reshape(*values.shape[:2], int(np.prod(shape))))
    return np.concatenate(parts, -1)
