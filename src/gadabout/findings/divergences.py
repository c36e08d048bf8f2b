"""Findings on the coordinates that are related to trajectories that diverge or are cut short."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gadabout.diagnostics import spacing_of
from gadabout.findings.draws import draws_of
from gadabout.findings.records import MOST_NAMED, Finding

if TYPE_CHECKING:
    import xarray as xr

MOST_EVENTS = 10_000
"""largest number of diverging draws that are compared with all draws"""

SIGNIFICANT = 4.0
"""standard errors by which the mean of x, or of (x − mean)², of diverging draws must differ from that of all"""

TAIL, MOST_CUT_SHORT = 0.05, 1 / 3
"""`TAIL`: share of draws in a tail, on either side of a coordinate. `MOST_CUT_SHORT`: largest share of a tail's
trajectories that may be cut short."""


def with_variables(
    found: Sequence[Finding], posterior: "xr.Dataset", stats: Mapping[str, np.ndarray], names: Sequence[str]
) -> list[Finding]:
    """The findings; the one on diverging trajectories now names coordinates, the most significant first."""
    diverging = stats.get("diverging")
    if diverging is None or not diverging.any():
        return list(found)
    variables = [names[int(i)] for i in concerned(posterior, diverging)[:MOST_NAMED]]
    told = f", where {', '.join(variables[:3])} {'is' if len(variables) == 1 else 'are'} unlike elsewhere"
    return [
        replace(one, problem=one.problem + told, variables=variables) if one.kind == "diverging" and variables else one
        for one in found
    ]


def concerned(posterior: "xr.Dataset", diverging: np.ndarray) -> np.ndarray:
    """The indices of coordinates in which diverging draws differ, the most significant first.

    `diverging` has the shape (chain, draw). Evenly spaced draws represent all draws; at most `MOST_EVENTS` diverging
    draws represent all that diverge.
    """
    import xarray as xr

    events = np.argwhere(diverging)
    events = events[:: -(-len(events) // MOST_EVENTS)].T
    where = {name: xr.DataArray(index, dims="event") for name, index in zip(("chain", "draw"), events, strict=True)}
    spacing, parts = spacing_of(*diverging.shape), []
    for variable in posterior.data_vars.values():
        x, there = draws_of(variable, spacing).astype(float), variable.isel(where).transpose("event", ...).values
        deviations = x - x.mean((0, 1))
        own = there.reshape(len(there), -1).astype(float) - x.mean((0, 1))
        second, scores = np.mean(deviations**2, (0, 1)), np.zeros(x.shape[2])
        for f, g in ((deviations, own), (deviations**2 - second, own**2 - second)):
            sd = np.maximum(f.std((0, 1)), np.finfo(float).tiny)
            scores = np.maximum(scores, np.abs(g.mean(0)) / sd * np.sqrt(len(g)))
        parts.append(scores)
    return above(np.concatenate(parts), SIGNIFICANT)


def above(figures: np.ndarray, limit: float) -> np.ndarray:
    """The indices of the figures above a limit, the largest first."""
    return np.argsort(-figures)[: int(np.sum(figures > limit))]


def cut_short(posterior: "xr.Dataset", stats: Mapping[str, np.ndarray], names: Sequence[str]) -> list[Finding]:
    """A finding on tails from which many trajectories end before a step that cannot be retraced (`ensemble.halving`).

    Chains enter such a tail seldom and leave it slowly, so that all of them may have too few draws there. R-hat and ESS
    cannot show regions that no chain has visited.
    """
    ended = stats.get("cut_short")
    if ended is None or ended.shape[1] < 2 or not ended.any():
        return []
    spacing, parts = spacing_of(*ended.shape), []
    after = ended[:, 1::spacing].ravel().astype(float)
    for variable in posterior.data_vars.values():
        x = draws_of(variable[:, :-1], spacing).reshape(after.size, -1).astype(float)
        low, high = np.quantile(x, [TAIL, 1 - TAIL], axis=0)
        parts.append(np.max([after @ tail / tail.sum(0) for tail in (x <= low, x >= high)], 0))
    shares = np.concatenate(parts)
    worst = above(shares, MOST_CUT_SHORT)[:MOST_NAMED]
    if not len(worst):
        return []
    variables, share = [names[int(i)] for i in worst], float(shares[worst[0]])
    problem = (
        f"{share:.0%} of trajectories from a tail of {variables[0]} end before a step that does not lead back: how far "
        "draws go there, and how often, may be wrong though chains agree"
    )
    remedy = "use more num_draws and compare, or another parametrisation"
    return [Finding("cut-short", problem, remedy, variables=variables, figure=share, limit=MOST_CUT_SHORT)]
