"""Reads a run for the page: draws and statistics, in pieces, so that memory is bounded for any run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.diagnostics import mean_ess
from gadabout.findings.draws import KINDS, judge, names_of

if TYPE_CHECKING:
    import xarray as xr

MOST_ROWS = 40
"""Largest number of coordinates that are read and shown in the table."""
MOST_VALUES = 2**24
"""Largest number of values of these coordinates, over all chains, in memory at once."""
MOST_CHAINS = 16
"""Largest number of chains in a figure."""
MOST_POINTS = 1_000
"""Largest number of draws of a chain in a figure."""
PIECE_BYTES = 2**25


@dataclass(frozen=True)
class Draws:
    """Diagnostics of all n coordinates, and the draws of the shown ones: `values` (chain, draw, shown).

    One draw in `spacing` is read; one in `judged` enters ESS and R-hat.
    """

    names: list[str]
    bulk: np.ndarray
    tail: np.ndarray
    within: np.ndarray
    rhat: np.ndarray
    shown: np.ndarray
    values: np.ndarray
    mcse: np.ndarray
    """Monte Carlo standard errors of the shown coordinates."""
    num_draws: int
    spacing: int
    judged: int

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return len(self.values)

    def worst(self, count: int) -> np.ndarray:
        """Indices into `shown` of the shown coordinates with the smallest ESS, smallest first."""
        ess = np.minimum(self.bulk, self.tail)[self.shown]
        return np.argsort(np.where(np.isnan(ess), -np.inf, ess), kind="stable")[:count]


def draws_of_run(tree: "xr.DataTree") -> Draws | None:
    """The draws of a result, from memory or from its store; None if there are none."""
    posterior = tree["posterior"].to_dataset() if "posterior" in tree.children else None
    if posterior is None or not posterior.data_vars or not posterior.sizes.get("draw"):
        return None
    names = names_of(posterior)
    judged, (bulk, tail, rhat, within) = figures_of(tree, posterior)
    ess = np.where(np.isnan(bulk), -np.inf, np.fmin(bulk, tail))
    shown = np.sort(np.argsort(ess, kind="stable")[:MOST_ROWS])
    chains, num_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    spacing = -(-chains * num_draws * len(shown) // MOST_VALUES)
    values = _read(posterior, shown, spacing)
    rhat = rhat if chains > 1 else np.full(len(names), np.nan)
    return Draws(names, bulk, tail, within, rhat, shown, values, mcse(values), num_draws, spacing, judged)


def statistic(tree: "xr.DataTree", group: str, name: str) -> np.ndarray:
    """At most MOST_POINTS draws of at most MOST_CHAINS chains of a statistic, evenly spaced; shape (0, 0) for none."""
    variable = tree[group].data_vars.get(name) if group in tree.children else None
    if variable is None or variable.ndim != 2:
        return np.zeros((0, 0))
    chains, draws = variable.shape
    part = variable[:: every(chains, MOST_CHAINS), :: every(draws, MOST_POINTS)]
    return np.asarray(part.values, np.float64)


def means(tree: "xr.DataTree", group: str, name: str) -> np.ndarray | None:
    """Mean of a statistic over the draws of each chain, shape (chain,); None if it is not recorded."""
    variable = tree[group].data_vars.get(name) if group in tree.children else None
    if variable is None or variable.ndim != 2 or not variable.size:
        return None
    return np.sum([piece.sum((1, 2)) for piece in _pieces(variable, 1)], axis=0) / variable.shape[1]


def every(count: int, most: int) -> int:
    """Smallest spacing that keeps at most `most` of `count` items."""
    return max(1, -(-count // most))


def mcse(draws: np.ndarray) -> np.ndarray:
    """The Monte Carlo standard error of the mean of each coordinate, from draws (chain, draw, n); NaN where unknown."""
    with np.errstate(invalid="ignore"):
        deviation = draws.std((0, 1), ddof=1) if draws[:, :, 0].size > 1 else np.full(draws.shape[2], np.nan)
        return np.where(np.ptp(draws, (0, 1)) > 0, deviation / np.sqrt(mean_ess(draws)), np.nan)


def figures_of(tree: "xr.DataTree", posterior: "xr.Dataset") -> tuple[int, list[np.ndarray]]:
    """Spacing of the draws used, and KINDS of each coordinate: from the result, else computed from spaced draws."""
    if "diagnostics" in tree.children:
        groups = [tree[f"diagnostics/{kind}"].to_dataset() for kind in KINDS]
        parts = [np.concatenate([np.ravel(group[name].values) for name in posterior.data_vars]) for group in groups]
        return int(tree["diagnostics"].attrs.get("every", 1)), parts
    largest = max(variable.size for variable in posterior.data_vars.values())
    spacing = every(largest, MOST_VALUES)
    verdict = judge(posterior.isel(draw=slice(None, None, spacing)))
    return spacing * verdict.spacing, [getattr(verdict, kind) for kind in KINDS]


def _read(posterior: "xr.Dataset", shown: np.ndarray, spacing: int) -> np.ndarray:
    """Every `spacing`-th draw of some coordinates, (chain, draw, shown)."""
    parts, first = [], 0
    for variable in posterior.data_vars.values():
        size = int(np.prod(variable.shape[2:]))
        chosen = shown[(shown >= first) & (shown < first + size)] - first
        if len(chosen):
            parts.append(np.concatenate([piece[:, :, chosen] for piece in _pieces(variable, spacing)], axis=1))
        first += size
    return np.concatenate(parts, axis=2)


def _pieces(variable: "xr.DataArray", spacing: int) -> Iterator[np.ndarray]:
    """Every `spacing`-th draw as pieces of shape (chain, some draws, coordinate)."""
    chains, draws = variable.shape[:2]
    size = int(np.prod(variable.shape[2:]))
    length = max(1, PIECE_BYTES // max(8 * chains * size, 1)) * spacing
    for first in range(0, draws, length):
        piece = variable[:, first : first + length : spacing].values
        yield np.asarray(piece, np.float64).reshape(chains, -1, size)


def target_acceptance(facts: Mapping[Any, Any]) -> float | None:
    """The target acceptance rate of the sampler's adaptation: the first setting of that name, None without one."""
    settings = facts.get("sampler_settings")
    settings = settings.items() if isinstance(settings, Mapping) else ()
    return next((float(value) for name, value in settings if name.endswith(".target_acceptance")), None)
