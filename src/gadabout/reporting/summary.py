"""Summary figures of a run, computed once from its result, for the table, the JSON file and the plot."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from gadabout.diagnostics import initial_monotone_ess, spacing_of, spread, square_ess
from gadabout.files import json_value
from gadabout.findings.draws import draws_of, names_of
from gadabout.reporting.reading import figures_of, mcse

ESS_KINDS = ("paper", "bulk", "tail", "square")


@dataclass(frozen=True)
class Summary:
    """Draws (chain, draw, n) of the sampling stage, and figures of shape (n,) of each coordinate; NaN where unknown.

    One draw in `spacing` is used; `num_draws` counts all.
    """

    names: list[str]
    draws: np.ndarray
    ess: dict[str, np.ndarray]
    mcse: np.ndarray
    """Monte Carlo standard error of the mean, from a finite number of dependent draws."""
    rhat: np.ndarray
    within: np.ndarray
    """ESS without the differences between chains."""
    acceptance_rate: float
    num_draws: int
    spacing: int

    def worst(self, count: int) -> np.ndarray:
        """The coordinates with the smallest bulk ESS, smallest first; NaN counts as smallest."""
        bulk = self.ess["bulk"]
        return np.argsort(np.where(np.isnan(bulk), -np.inf, bulk), kind="stable")[:count]

    @property
    def rhat_max(self) -> float:
        """The largest R-hat; NaN if one of them is NaN."""
        return float(np.max(self.rhat))


def summarise(tree: xr.DataTree) -> Summary:
    """The summary of a result of `gadabout.sample`; reuses the diagnostics in the result."""
    posterior = tree["posterior"].to_dataset()
    names = names_of(posterior)
    spacing = spacing_of(posterior.sizes["chain"], posterior.sizes["draw"])
    draws = np.concatenate([np.asarray(draws_of(x, spacing), np.float64) for x in posterior.data_vars.values()], axis=2)
    acceptance = np.asarray(tree["sample_stats"]["acceptance_rate"])
    if draws.shape[1] == 0:
        unknown = np.full(len(names), np.nan)
        return Summary(names, draws, dict.fromkeys(ESS_KINDS, unknown), unknown, unknown, unknown, float("nan"), 0, 1)
    _, (bulk, tail, rhat, within) = figures_of(tree, posterior)
    ess = {"paper": initial_monotone_ess(draws), "bulk": bulk, "tail": tail, "square": square_ess(draws)}
    rhat = rhat if len(draws) > 1 else np.full(len(names), np.nan)
    return Summary(
        names, draws, ess, mcse(draws), rhat, within, float(acceptance.mean()), posterior.sizes["draw"], spacing
    )


def figures(tree: xr.DataTree, summary: Summary, target: str) -> dict[str, Any]:
    """The object that --json writes, with None in place of numbers that are not finite."""
    attributes = tree.attrs
    found = {
        "target": target,
        "sampler": attributes["sampler"],
        "num_chains": attributes["num_chains"],
        "num_warmup": _iterations_of_warmup(tree),
        "num_draws": summary.num_draws,
        "seed": attributes["seed"],
        "acceptance_rate": summary.acceptance_rate,
        "rhat_max": summary.rhat_max,
        "ess": {kind: spread(summary.ess[kind]) for kind in ESS_KINDS},
        "seconds": {name: attributes[f"seconds_{name}"] for name in ("compile", "warmup", "sampling", "total")},
        "gradient_evaluations": attributes["gradient_evaluations"],
        "findings": attributes["findings"],
    }
    return json_value(found)


def _iterations_of_warmup(tree: xr.DataTree) -> int:
    """Number of warm-up iterations; fewer than requested if the run was interrupted."""
    kept = tree["warmup_sample_stats"].sizes["draw"] if "warmup_sample_stats" in tree else 0
    return min(tree.attrs["num_warmup"], kept * tree.attrs["thinning"])
