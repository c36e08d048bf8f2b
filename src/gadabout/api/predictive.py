"""The posterior predictive: draws of y given draws of θ, and p(y | x, θ) averaged over draws of θ."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from gadabout.api.flat import check_result, flat_draws, layout_from
from gadabout.calls import numbers_from
from gadabout.checks import check_array, check_function, check_truth, check_whole, shown
from gadabout.diagnostics import positions
from gadabout.driver import Stream, stream_key
from gadabout.executables import edition, traced_as
from gadabout.model import AbstractModel
from gadabout.precision import whole_products

if TYPE_CHECKING:
    import xarray as xr

ROWS = 8_192
"""rows that are evaluated on the device at once"""


AT_ONCE = 1_024
"""draws of data, over all chains, that are made at once"""


def posterior_predictive(tree: "xr.DataTree", model: AbstractModel, *, seed: int = 0) -> "xr.DataTree":
    """One draw of data for each draw of a result, by the model's `predict`; `sample` adds it to its result itself.

    For new data pass a model with them: `tree["predictions"] = posterior_predictive(tree, new_model)`. The key of draw
    d of chain c is a function of the seed, c and d alone.

    Args:
        tree: a result of `sample`.
        model: the model of the result, or one with other data and the same variables.
        seed: an integer below 2³².

    Raises:
        ValueError, TypeError: if the model draws no data, or its variables differ from those of the result.
    """
    import arviz_base

    if not isinstance(model, AbstractModel):
        raise TypeError(f"model must be one that draws data, such as a Model with `predict`, got {shown(model)}")
    check_result(tree, "tree")
    model = model.predicting({str(name) for name in tree["posterior"].data_vars})
    layout = model.layout or layout_from(tree, model, "tree")
    model, x = model.laid_out(layout), flat_draws(tree, layout, "tree")
    chains, draws = x.shape[:2]
    key = stream_key(check_whole("seed", seed, 0, 2**32 - 1), Stream.PREDICTIONS)
    step, parts = min(draws, max(1, AT_ONCE // chains)), []
    for first in range(0, draws, step):
        rows = np.minimum(np.arange(first, first + step), draws - 1)  # a full last block needs no other program
        some = model.predictions(_keys(key, np.arange(chains), rows), jnp.asarray(x[:, rows]))
        parts.append({name: np.asarray(values)[:, : draws - first] for name, values in some.items()})
    values = {name: np.concatenate([part[name] for part in parts], 1) for name in parts[0]}
    dims = {name: list(dims) for name, dims in model.dims.items() if name in values}
    found = {"posterior_predictive": values}
    tree = arviz_base.from_dict(found, dims=dims or None, coords=dict(model.coords) or None)
    return tree.children["posterior_predictive"]


@jax.jit
def _keys(key: Array, chains: Array, draws: Array) -> Array:
    each = lambda c, d: jax.random.fold_in(jax.random.fold_in(key, c), d)
    return jax.vmap(lambda c: jax.vmap(lambda d: each(c, d))(draws))(chains)


def predictive(
    function: Callable[[Any, Any], Any],
    draws: "xr.DataTree | PyTree",
    rows: PyTree,
    *,
    log: bool = True,
    draws_at_once: int = 64,
) -> np.ndarray:
    r"""$\frac{1}{M}\sum_m p(y_i | x_i, \theta_m)$ of each row, or its logarithm.

    Logarithms are averaged as $\log\frac1M\sum_m e^{\ell_{mi}}$ with the largest factored out, block by block of draws.
    Thus nothing under- or overflows, even in float32, and memory depends on neither the number of draws nor of rows.

    Args:
        function: a JAX function of (position, rows): log p(y_i | x_i, θ) of each row, such as the `log_likelihood` of
            `Minibatches`. With `log=False` any value to be averaged as it is, such as p(y_i = 1 | x_i, θ). It returns
            one number, or one array, for each row.
        draws: a result of `sample`, or a pytree of arrays with leading axes (chain, draw), such as
            `{"w": tree["posterior"]["w"].values}`. Positions of a result are the dict of its variables, or the bare
            array if `x` is the only variable.
        rows: a pytree of arrays with a leading axis of rows; memory-mapped files are read in blocks.
        log: whether `function` returns logarithms; the result is then a logarithm too.
        draws_at_once: draws in a block.

    Returns:
        An array whose leading axis counts rows.

    Raises:
        ValueError, TypeError: if there are no draws or rows, or an argument has the wrong type or shape.
    """
    check_function("function", function)
    draws_at_once = check_whole("draws_at_once", draws_at_once)
    check_truth("log", log)
    positions = _positions(draws)
    num_draws = jax.tree.leaves(positions)[0].shape[0]
    num_rows = _num_rows(rows)
    draws_at_once, parts, now = min(draws_at_once, num_draws), [], None
    for start in range(0, num_rows, ROWS):
        block = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf[start : start + ROWS])), rows)  # noqa: B023
        total = None
        for first in range(0, num_draws, draws_at_once):
            some = jax.tree.map(lambda leaf: leaf[first : first + draws_at_once], positions)  # noqa: B023
            now = now or edition(_summed, function, None, some, block, log)
            part = _summed(function, now, some, block, log)
            total = part if total is None else jnp.logaddexp(total, part) if log else total + part
        parts.append(np.asarray(total - np.log(num_draws) if log else total / num_draws))
    return np.concatenate(parts)


@eqx.filter_jit
@whole_products()
def _summed(function: Callable, edition: int | None, positions: PyTree, rows: PyTree, log: bool) -> Array:
    """The sum of `function` over positions; `edition` is that of the function (see `executables.edition`)."""
    num_rows = len(jax.tree.leaves(rows)[0])

    def value(position):
        found = numbers_from("function", "(position, rows)", function, position, rows)
        if found.shape[:1] != (num_rows,):
            raise ValueError(
                f"function must return one number, or one array, for each of {num_rows} rows, got {found.shape}"
            )
        return found

    with traced_as(edition):
        values = jax.vmap(value)(positions)
    return jax.scipy.special.logsumexp(values, 0) if log else jnp.sum(values, 0)


def _num_rows(rows: PyTree) -> int:
    """The length of the leading axis that all rows share; raises ValueError if there is none."""
    leaves = jax.tree.leaves(rows)
    shapes = [np.shape(leaf) for leaf in leaves]
    if not shapes or any(not shape or shape[0] != shapes[0][0] for shape in shapes) or not shapes[0][0]:
        got = f"the shapes {shapes}" if any(shapes) else shown(rows)
        raise ValueError(f"rows must be arrays of numbers that share a leading axis of rows, got {got}")
    return shapes[0][0]


def _positions(draws: Any) -> PyTree:
    """The positions of all draws, along one leading axis."""
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
