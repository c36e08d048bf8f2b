"""Which coordinates have to do with trajectories that diverge: those whose values are unlike the others' there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gadabout.api.verdict import draws_of
from gadabout.findings import MOST_NAMED, Finding

if TYPE_CHECKING:
    import xarray as xr

SIGNIFICANT = 4.0
"""standard errors by which the mean of x, or of (x − mean)², among diverging draws differs from that of all"""


def with_variables(
    found: Sequence[Finding], posterior: "xr.Dataset", stats: Mapping[str, np.ndarray], names: Sequence[str]
) -> list[Finding]:
    """The findings, of which the one on diverging trajectories names coordinates, the most telling first."""
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
    """The numbers of those coordinates, the most telling first; `diverging` has the shape (chain, draw)."""
    parts = []
    for variable in posterior.data_vars.values():
        x = draws_of(variable).astype(float)
        scores = np.zeros(x.shape[2])
        deviations = x - x.mean((0, 1))
        for f in (deviations, deviations**2 - np.mean(deviations**2, (0, 1))):
            sd = np.maximum(f.std((0, 1)), np.finfo(float).tiny)
            scores = np.maximum(scores, np.abs(f[diverging].mean(0)) / sd * np.sqrt(diverging.sum()))
        parts.append(scores)
    scores = np.concatenate(parts)
    return np.argsort(-scores)[: int(np.sum(scores > SIGNIFICANT))]
