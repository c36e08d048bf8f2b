"""The figures of a run, computed once from its result: what the table, the JSON file and the plot speak of."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from gadabout.diagnostics import ess_table, rhat, spread
from gadabout.files import json_value

ESS_KINDS = ("paper", "bulk", "tail", "square")


@dataclass(frozen=True)
class Summary:
    """Draws (chain, draw, n) of the sampling stage, and figures of shape (n,) of each coordinate; NaN where unknown."""

    names: list[str]
    draws: np.ndarray
    ess: dict[str, np.ndarray]
    mcse: np.ndarray
    """standard error of the mean that comes from a finite number of dependent draws"""
    rhat: np.ndarray
    acceptance_rate: float

    def worst(self, count: int) -> np.ndarray:
        """The coordinates with the smallest bulk ESS, smallest first; those without one come first of all."""
        bulk = self.ess["bulk"]
        return np.argsort(np.where(np.isnan(bulk), -np.inf, bulk), kind="stable")[:count]

    @property
    def rhat_max(self) -> float:
        """The largest R-hat, NaN where one of them is."""
        return float(np.max(self.rhat))


def summarise(tree: xr.DataTree) -> Summary:
    """The summary of a result of `gadabout.sample`."""
    posterior = tree["posterior"].to_dataset()
    arrays = {str(name): np.asarray(values, np.float64) for name, values in posterior.data_vars.items()}
    names = [name for variable, values in arrays.items() for name in _names(variable, values.shape[2:])]
    draws = np.concatenate([_flat(values) for values in arrays.values()], axis=2)
    acceptance = np.asarray(tree["sample_stats"]["acceptance_rate"])
    if draws.shape[1] == 0:
        unknown = np.full(len(names), np.nan)
        return Summary(names, draws, dict.fromkeys(ESS_KINDS, unknown), unknown, unknown, float("nan"))
    return Summary(names, draws, ess_table(draws), _mcse(draws), rhat(draws), float(acceptance.mean()))


def _mcse(draws: np.ndarray) -> np.ndarray:
    """The Monte Carlo standard error of each coordinate's mean; NaN for fewer than 4 draws, or any not finite."""
    from arviz_stats.base.array import array_stats

    mcse = np.full(draws.shape[2], np.nan)
    known = np.isfinite(draws).all((0, 1)) & (np.ptp(draws, (0, 1)) > 0) & (draws.shape[1] >= 4)
    if known.any():
        mcse[known] = array_stats.mcse(draws[:, :, known], method="mean", chain_axis=0, draw_axis=1)
    return mcse


def _flat(values: np.ndarray) -> np.ndarray:
    """Draws (chain, draw, ...) as (chain, draw, coordinate)."""
    return values.reshape(*values.shape[:2], int(np.prod(values.shape[2:])))


def _names(variable: str, shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [variable]
    return [f"{variable}[{','.join(map(str, index))}]" for index in product(*map(range, shape))]


def figures(tree: xr.DataTree, summary: Summary, target: str) -> dict[str, Any]:
    """The object that --json writes, with None in place of what is not a finite number."""
    attributes = tree.attrs
    found = {
        "target": target,
        "sampler": attributes["sampler"],
        "num_chains": attributes["num_chains"],
        "num_warmup": _iterations_of_warmup(tree),
        "num_draws": summary.draws.shape[1],
        "seed": attributes["seed"],
        "acceptance_rate": summary.acceptance_rate,
        "rhat_max": summary.rhat_max,
        "ess": {kind: spread(summary.ess[kind]) for kind in ESS_KINDS},
        "seconds": {name: attributes[f"seconds_{name}"] for name in ("compile", "warmup", "sampling", "total")},
        "gradient_evaluations": attributes["gradient_evaluations"],
    }
    return json_value(found)


def _iterations_of_warmup(tree: xr.DataTree) -> int:
    """The warm-up's iterations, fewer than asked for where the run was interrupted."""
    kept = tree["warmup_sample_stats"].sizes["draw"] if "warmup_sample_stats" in tree else 0
    return min(tree.attrs["num_warmup"], kept * tree.attrs["thinning"])
