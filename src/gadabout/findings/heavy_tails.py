r"""Variables whose mean or variance does not exist, by the tails of their draws.

A tail of the index k falls as $|x|^{-1/k}$: there is no variance from k = 1/2 on, and no mean from k = 1 on. k̂ is
fitted to the largest |x − median| as to the tail of importance weights (Vehtari et al. 2024). Its standard error is
(1 + k)/√M of M independent draws in the tail, at k = 1/2 that is 1.5/√M. Chains that do not come far cut tails off, so
that what the density says of them along rays (`ensemble.growth`) counts as well.
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
"""indices from which on there is none, the second, which is 1, less what k̂ may be wrong by"""
ERRORS = 2.0
"""standard errors by which k̂ is beyond the first before it is reported"""
FEWEST = 100
"""draws from which tails are judged"""
SHORT = 4.0
"""times as far as the tail begins that its farthest draw lies at the most where k is small"""
TOLD = 3
REMEDY = "report medians and quantiles, not means and sds; quantiles far out may be wrong, and need many more draws"


def heavy_tails(
    posterior: "xr.Dataset", verdict: Verdict, known: Mapping[str, float] = MappingProxyType({})
) -> list[Finding]:
    """The variables without a variance, by draws that can be judged, or `known` by the density; at most one finding.

    Args:
        posterior: the draws.
        verdict: their figures.
        known: indices of coordinates of at least 1/2, by name (`ensemble.growth.tail_indices`).
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
    """k̂ of |x − median|, and its standard error at k = 1/2, from draws x (draws,) of which a share is independent.

    −∞ where draws are too few, whole numbers, not finite, or do not reach far.
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
