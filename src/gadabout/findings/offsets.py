"""A finding on float32 draws so far from zero that sums over them lose the differences between draws."""

from typing import TYPE_CHECKING

import numpy as np

from gadabout.findings.draws import Verdict, draws_of
from gadabout.findings.records import MOST_NAMED, Finding

if TYPE_CHECKING:
    import xarray as xr

LARGEST = 1e4
"""largest |mean| / sd at which float32 resolves draws to less than a hundredth of their sd, and sums are right"""


def far_from_zero(posterior: "xr.Dataset", verdict: Verdict) -> list[Finding]:
    """A finding on float32 variables whose mean is more than 10⁴ standard deviations from zero; at most one."""
    ratios = []
    for variable in posterior.data_vars.values():
        draws = draws_of(variable, verdict.spacing)
        if draws.dtype != np.float32:
            ratios.append(np.zeros(draws.shape[2]))
            continue
        draws = draws.reshape(-1, draws.shape[2]).astype(np.float64)
        sd = draws.std(0)
        ratios.append(np.where(sd > 0, np.abs(draws.mean(0)) / np.where(sd > 0, sd, 1), 0.0))
    ratio = np.concatenate(ratios)
    far = np.flatnonzero(ratio > LARGEST)
    if not len(far):
        return []
    worst = far[np.argsort(-ratio[far], kind="stable")]
    variables = [verdict.names[i] for i in worst[:MOST_NAMED]]
    figure = float(ratio[worst[0]])
    problem = (
        f"draws of {', '.join(variables[:3])} are kept in float32 and lie {figure:.1e} standard deviations from zero: "
        "means and sds that are summed in float32 are wrong"
    )
    remedy = (
        "use float64, jax.config.update('jax_enable_x64', True), or subtract a constant from the variable; of these "
        "draws sum tree['posterior'].to_dataset().astype(float)"
    )
    return [Finding("offset", problem, remedy, variables=variables, figure=figure, limit=LARGEST)]
