"""Log densities in plain Python or NumPy, with gradients of their own."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from gadabout.checks import check_function, check_truth, shown
from gadabout.model import Model
from gadabout.models.callback import HostDensity, unflattened


def python(
    function: Callable[[Any], Any],
    position: PyTree,
    *,
    vectorized: bool = False,
    gradient: bool = True,
    **settings: Any,
) -> Model:
    """A model whose log density is not written in JAX and is evaluated on the host.

    The default calls the function directly and compiles no program for it, unless there are `transforms`. The compiled
    program of a recipe calls back to the host in every evaluation, which is far slower than JAX. Chains are evaluated
    one after another unless the function is `vectorized`. The function must not call JAX, and cannot be sharded over
    devices.

    Args:
        function: function of a position, as NumPy arrays in float64, that returns log π and its gradient, a tree like
            the position. Where the density is zero it returns −∞ and any gradient.
        position: an example of a position, a pytree of arrays.
        vectorized: whether the function takes all chains at once. Leaves then have a leading axis of chains, and so do
            the returned gradients; values have the shape (chains,).
        gradient: whether the function returns a gradient. If not, it returns log π alone, and only samplers that need
            no gradient, such as `rwm`, can be used.
        settings: further arguments of `Model` by name: `transforms`, `dims`, `coords`, `start`, `outputs` (in JAX), …

    Raises:
        TypeError, ValueError: as in `Model`, or if the function, which is called once here, returns anything else.
    """
    check_function("function", function)
    check_truth("vectorized", vectorized)
    check_truth("gradient", gradient)
    positions = unflattened(position)

    def rows(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if vectorized:
            return _checked(function(positions(x)), gradient, x, (len(x),))
        one = lambda row: jax.tree.map(lambda leaf: leaf[0], positions(row[None]))
        each = [_checked(function(one(row)), gradient, row, ()) for row in x]
        return np.array([value for value, _ in each]), np.array([grad for _, grad in each])

    model = Model(HostDensity(rows, gradient), position, **settings)
    if all(isinstance(leaf, np.ndarray | jax.Array | float | int) for leaf in jax.tree.leaves(position)):
        rows(np.asarray(ravel_pytree(position)[0], np.float64)[None])
    return model


def _checked(found: Any, gradient: bool, x: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Values and flat gradients; raises TypeError or ValueError if `found` is not of the required form and shape."""
    value, slope = found, x
    if gradient:
        if not (isinstance(found, tuple) and len(found) == 2):
            raise TypeError(f"function must return (log_density, gradient), got {shown(found)}; or pass gradient=False")
        value, slope = found
        leaves = [np.asarray(leaf, np.float64).reshape(*shape, -1) for leaf in jax.tree.leaves(slope)]
        slope = np.concatenate(leaves, -1)
    value = np.asarray(value, np.float64)
    if value.shape != shape or slope.shape != x.shape:
        raise ValueError(
            f"function must return values of shape {shape} and gradients like the position, got {value.shape} and "
            f"{slope.shape[len(shape) :]} for {x.shape[len(shape) :]} coordinates"
        )
    return value, slope
