"""The posterior predictive: p(y | x, θ) averaged over draws of θ."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from gadabout.calls import numbers_from
from gadabout.checks import check_array, check_function, check_truth, check_whole, shown
from gadabout.diagnostics import positions

if TYPE_CHECKING:
    import xarray as xr

ROWS = 8_192
"""rows that go to the device at once"""


def predictive(
    function: Callable[[Any, Any], Any],
    draws: "xr.DataTree | PyTree",
    rows: PyTree,
    *,
    log: bool = True,
    draws_at_once: int = 64,
) -> np.ndarray:
    r"""$\frac{1}{M}\sum_m p(y_i | x_i, \theta_m)$ of each row, or its logarithm.

    Logarithms are averaged as $\log\frac1M\sum_m e^{\ell_{mi}}$ with the largest taken out, block by block of draws, so
    that nothing under- or overflows in float32 either, and memory depends on neither the number of draws nor of rows.

    Args:
        function: of (position, rows), in JAX: log p(y_i | x_i, θ) of each row, such as the `log_likelihood` of
            `Minibatches`; or with `log` off anything to be averaged as it stands, such as p(y_i = 1 | x_i, θ). One
            number, or one array, for each row.
        draws: a result of `sample`, or a pytree of arrays with leading axes (chain, draw), such as
            `{"w": tree["posterior"]["w"].values}`. Of a result, positions are the dict of its variables, or the bare
            array where `x` is the only one.
        rows: a pytree of arrays with a leading axis of rows; memory-mapped files are read in blocks.
        log: whether `function` returns logarithms, and the result is one.
        draws_at_once: draws of a block.

    Returns:
        An array whose leading axis counts rows.

    Raises:
        ValueError, TypeError: if there are no draws or rows, or arguments are not what they should be.
    """
    check_function("function", function)
    draws_at_once = check_whole("draws_at_once", draws_at_once)
    check_truth("log", log)
    positions = _positions(draws)
    num_draws = jax.tree.leaves(positions)[0].shape[0]
    num_rows = _num_rows(rows)
    draws_at_once, parts = min(draws_at_once, num_draws), []
    for start in range(0, num_rows, ROWS):
        block = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf[start : start + ROWS])), rows)  # noqa: B023
        total = None
        for first in range(0, num_draws, draws_at_once):
            some = jax.tree.map(lambda leaf: leaf[first : first + draws_at_once], positions)  # noqa: B023
            part = _summed(function, some, block, log)
            total = part if total is None else jnp.logaddexp(total, part) if log else total + part
        parts.append(np.asarray(total - np.log(num_draws) if log else total / num_draws))
    return np.concatenate(parts)


@eqx.filter_jit
def _summed(function: Callable, positions: PyTree, rows: PyTree, log: bool) -> Array:
    num_rows = len(jax.tree.leaves(rows)[0])

    def value(position):
        found = numbers_from("function", "(position, rows)", function, position, rows)
        if found.shape[:1] != (num_rows,):
            raise ValueError(
                f"function must return one number, or one array, for each of {num_rows} rows, got {found.shape}"
            )
        return found

    values = jax.vmap(value)(positions)
    return jax.scipy.special.logsumexp(values, 0) if log else jnp.sum(values, 0)


def _num_rows(rows: PyTree) -> int:
    """The leading axis that all rows share; raises TypeError or ValueError where there is none."""
    leaves = jax.tree.leaves(rows)
    shapes = [np.shape(leaf) for leaf in leaves]
    if not shapes or any(not shape or shape[0] != shapes[0][0] for shape in shapes) or not shapes[0][0]:
        got = f"the shapes {shapes}" if any(shapes) else shown(rows)
        raise ValueError(f"rows must be arrays of numbers that share a leading axis of rows, got {got}")
    return shapes[0][0]


def _positions(draws: Any) -> PyTree:
    """Positions along one leading axis."""
    import xarray as xr

    if isinstance(draws, xr.DataTree):
        draws = positions(draws.children.get("posterior", draws))
    leaves = jax.tree.leaves(draws)
    for leaf in leaves:
        if not hasattr(leaf, "dtype"):
            check_array("draws", leaf, "a result of gadabout.sample, or arrays with axes (chain, draw)", finite=False)
    if not leaves or any(np.ndim(leaf) < 2 or np.shape(leaf)[:2] != np.shape(leaves[0])[:2] for leaf in leaves):
        raise ValueError(
            f"draws must have leading axes (chain, draw), got the shapes {[np.shape(leaf) for leaf in leaves]}; "
            "for draws along one axis pass draws[None]"
        )
    if 0 in np.shape(leaves[0])[:2]:
        raise ValueError(f"draws holds no draw: its axes (chain, draw) have the lengths {np.shape(leaves[0])[:2]}")
    return jax.tree.map(lambda leaf: np.reshape(leaf, (-1, *np.shape(leaf)[2:])), draws)
