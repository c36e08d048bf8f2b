"""Diagnostics of any function of the draws: an effective sample size belongs to a function, not to a chain."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from gadabout.calls import numbers_from
from gadabout.checks import check_function, check_whole, shown
from gadabout.executables import compiled
from gadabout.precision import whole_products

if TYPE_CHECKING:
    import xarray as xr


def diagnose(tree: "xr.DataTree", f: Callable[[Any], Any], *, superchains: int | None = None) -> "xr.Dataset":
    """Mean, spread, Monte Carlo error, ESS and R-hat of f(position) under the draws of `tree["posterior"]`.

    Args:
        tree: a result of `gadabout.sample`, or any tree with a `posterior` of dimensions (chain, draw, ...).
        f: a function, written in JAX, of one position: a dict of the posterior's variables, or the array itself where
            `x` is the only one. Returns a number or an array; each entry has diagnostics of its own.
        superchains: number of groups of chains, for many short chains. A group is a block of consecutive chains that
            started from the same position; all have equal size. Adds `rhat_nested` (Margossian et al. 2024).

    Returns:
        A dataset whose variables have the shape of f's value: `mean`, `sd`, `mcse_mean`, `mcse_sd`, `ess_mean`,
        `ess_bulk`, `ess_tail`, `rhat` (rank-normalised and split, Vehtari et al. 2021) and `rhat_classical` (Gelman &
        Rubin 1992, unsplit). All but `mean` and `sd` are NaN for fewer than four draws; R-hats also for one chain.

    Raises:
        TypeError: if an argument has the wrong type, or f returns something other than numbers.
        ValueError: if `superchains` does not divide the number of chains.
    """
    import xarray as xr
    from arviz_stats.base.array import array_stats  # imported here because the import takes a second

    values = evaluate(tree, f)
    num_chains, num_draws = values.shape[:2]
    table: dict[str, Any] = {"mean": values.mean((0, 1)), "sd": values.std((0, 1), ddof=1)}
    nothing = np.full(values.shape[2:], np.nan)
    enough = num_draws >= 4
    axes: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    for method in ("mean", "sd"):
        table[f"mcse_{method}"] = array_stats.mcse(values, method=method, **axes) if enough else nothing
    for method in ("mean", "bulk", "tail"):
        prob: dict[str, Any] = {"prob": (0.05, 0.95)} if method == "tail" else {}
        table[f"ess_{method}"] = array_stats.ess(values, method=method, **prob, **axes) if enough else nothing
    for name, method in (("rhat", "rank"), ("rhat_classical", "identity")):
        judged = enough and num_chains > 1
        with np.errstate(divide="ignore", invalid="ignore"):  # constant chains give infinity or NaN
            table[name] = array_stats.rhat(values, method=method, **axes) if judged else nothing
    if superchains is not None:
        if num_chains % check_whole("superchains", superchains):
            raise ValueError(f"superchains must divide the number of chains, {num_chains}; got {superchains}")
        groups = np.repeat(np.arange(superchains), num_chains // superchains)
        table["rhat_nested"] = array_stats.rhat_nested(values, groups, method="rank", **axes)
    dims = [f"f_dim_{i}" for i in range(values.ndim - 2)]
    return xr.Dataset({name: (dims, np.asarray(value)) for name, value in table.items()})


def evaluate(tree: "xr.DataTree", f: Callable[[Any], Any]) -> np.ndarray:
    """f at every draw, shape (chain, draw, ...)."""
    posterior = getattr(tree, "children", {}).get("posterior")
    if posterior is None:
        raise TypeError(f"tree must be a result of gadabout.sample, with the group posterior, got {shown(tree)}")
    check_function("f", f)
    value = lambda position: numbers_from("f", "of a position", f, position)
    draws = positions(posterior)
    with whole_products():
        return np.asarray(compiled(jax.vmap(jax.vmap(value)), draws)(draws), float)


def positions(posterior: "xr.DataTree") -> Any:
    """All draws as positions with leading axes (chain, draw): a dict by variable, or the array if only `x` exists."""
    draws = {str(name): np.asarray(variable.values) for name, variable in posterior.data_vars.items()}
    return draws["x"] if list(draws) == ["x"] else draws
