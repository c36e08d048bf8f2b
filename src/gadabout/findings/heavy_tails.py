r"""A finding on variables whose mean or variance does not exist, from the tails of their draws.

A tail of index k falls as $|x|^{-1/k}$: there is no variance for k ≥ 1/2, and no mean for k ≥ 1. k̂ is fitted to the
largest |x − median| like the tail of importance weights (Vehtari et al. 2024). Its standard error is (1 + k)/√M for M
independent draws in the tail, which is 1.5/√M at k = 1/2. Chains that do not come far truncate tails. Therefore the
indices that the density shows along rays (`ensemble.growth`) count as well.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from gadabout.diagnostics.importance_weights import tail_index, tail_size
from gadabout.findings.draws import Verdict, draws_of
from gadabout.findings.records import MOST_NAMED, Finding

if TYPE_CHECKING:
    import xarray as xr

NO_VARIANCE, NEARLY_NO_MEAN = 0.5, 0.9
"""`NO_VARIANCE`: index from which on there is no variance. `NEARLY_NO_MEAN`: 1, from which on there is no mean, less
the possible error of k̂."""
ERRORS = 2.0
"""standard errors by which k̂ must exceed `NO_VARIANCE` to be reported"""
FEWEST = 100
"""smallest number of draws from which tails are judged"""
SHORT = 4.0
"""ratio of the largest distance from the median to that where the tail begins, up to which k is taken as small"""
TOLD = 3
REMEDY = "report medians and quantiles, not means and sds; quantiles far out may be wrong, and need many more draws"


def heavy_tails(
    posterior: "xr.Dataset", verdict: Verdict, known: Mapping[str, float] = MappingProxyType({})
) -> list[Finding]:
    """A finding on variables without a variance, by draws that can be judged or by `known`; at most one.

    Args:
        posterior: the draws.
        verdict: their figures.
        known: indices of at least 1/2 by the density, by coordinate name (`ensemble.growth.tail_indices`).
    """
    found = []
    for variable in posterior.data_vars.values():
        draws = draws_of(variable, verdict.spacing)
        for x in draws.reshape(-1, draws.shape[2]).T:
            found.append(index_of(x, verdict.ess_tail[len(found)] / x.size))
    by_name = {
        name: k for name, (k, error) in zip(verdict.names, found, strict=True) if k > NO_VARIANCE + ERRORS * error
    }
    by_name = {name: max(k, known.get(name, k)) for name, k in (dict(known) | by_name).items()}
    if not by_name:
        return []
    worst = sorted(by_name, key=lambda name: -by_name[name])
    told = ", ".join(f"{name} {by_name[name]:.2f}" for name in worst[:TOLD])
    told += f" and {len(worst) - TOLD:,} more" if len(worst) > TOLD else ""
    k = by_name[worst[0]]
    what = "no standard deviation, and perhaps no mean" if k > NEARLY_NO_MEAN else "no standard deviation"
    problem = f"tails are so heavy that there is {what}, or none that draws can tell: their index k is {told}"
    return [Finding("tails", problem, REMEDY, variables=worst[:MOST_NAMED], figure=k, limit=NO_VARIANCE)]


def index_of(x: np.ndarray, share: float) -> tuple[float, float]:
    """k̂ of |x − median| and its standard error at k = 1/2, from draws x (draws,) of which a share is independent.

    k̂ is −∞ if the draws are too few, whole numbers or not finite, or if they do not reach far.
    """
    length, real = int(tail_size(len(x))), np.issubdtype(x.dtype, np.floating)
    if not real or len(x) < FEWEST or not (np.isfinite(x).all() and share > 0):
        return -np.inf, 0.0
    distance = np.abs(x - np.median(x))
    tail = np.sort(np.partition(distance, len(x) - length - 1)[-length - 1 :]).astype(float)
    if not tail[-1] > SHORT * tail[0] > 0:
        return -np.inf, 0.0
    k = tail_index((tail[1:] - tail[0])[tail[1:] > tail[0]])
    return k, (1 + NO_VARIANCE) / np.sqrt(length * min(float(share), 1.0))
