"""Many runs of the default, as users call it, on targets with known means and variances."""

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np

from gadabout.algorithms import default
from gadabout.lab.verify.exact import EXACT, SKEW, Exact
from gadabout.lab.verify.frame import Parts
from gadabout.lab.verify.sampling import sample

CHAINS, DRAWS = 16, 1_000
AT_ONCE = 250
"""runs per part"""
NORMAL = 1.959964
"""half the width of a 95 % interval, in standard errors"""
GOOD = 2_000
"""smallest bulk ESS of a coordinate of a good run"""
FIRST = (1, 30, DRAWS)
"""numbers of first draws of each chain for which errors are recorded"""


def many(full: bool, store: Parts) -> dict[str, list[dict[str, Any]]]:
    """The results of `counted` for each target, part by part."""
    targets, count = (EXACT, 1_000) if full else ((SKEW,), 30)
    found = {}
    for exact in targets:
        found[exact.name] = []
        for first in range(0, count, AT_ONCE):
            settings = {"first": first, "count": min(AT_ONCE, count - first), "chains": CHAINS, "draws": DRAWS}
            part = lambda exact=exact, settings=settings: counted(exact, **settings)
            found[exact.name].append(store.part(f"runs-{exact.name}-{first}", settings, part))
    return found


def counted(exact: Exact, first: int, count: int, chains: int, draws: int) -> dict[str, Any]:
    """Counts over runs: how often intervals of means and of second moments cover the truth, and findings.

    `mean` and `square` have an entry for each coordinate. `good` is the number of runs with a bulk ESS of `GOOD` or
    more, and `flagged` the number of those with a finding of each kind. `errors` has shape (len(FIRST), 2, 2, n): sum,
    and sum of squares, over runs of the error of the mean, in sd, and of the second moment, in variances, of a run's
    first draws.
    """
    n = len(exact.mean)
    errors = np.zeros((len(FIRST), 2, 2, n))
    within, flagged, good, wrong = {"mean": np.zeros(n, int), "square": np.zeros(n, int)}, {}, 0, 0
    for seed in range(first, first + count):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            tree = sample(
                exact.log_density, jnp.zeros(n), sampler=default(), seed=seed, num_chains=chains, num_draws=draws,
                progress=False,
            )  # fmt: skip
        x = tree["posterior"].to_dataset()["x"].values
        for kind, values, truth in (("mean", x, exact.mean), ("square", (x - exact.mean) ** 2, exact.sd**2)):
            within[kind] += np.abs(values.mean((0, 1)) - truth) < NORMAL * standard_error(values)
        z = exact.standardised(x)
        error = np.array([[np.mean(z[:, :first], (0, 1)), np.mean(z[:, :first] ** 2, (0, 1)) - 1] for first in FIRST])
        errors += np.stack([error, error**2], 1)
        if tree["diagnostics/ess_bulk"].to_dataset()["x"].values.min() >= GOOD:
            good += 1
            kinds = {finding["kind"] for finding in tree.attrs["findings"]}
            flagged |= {kind: flagged.get(kind, 0) + 1 for kind in kinds}
            wrong += bool(kinds)
    return {"runs": count, "good": good, "wrongly": wrong, "flagged": flagged, "errors": errors, **within}


def standard_error(values: np.ndarray) -> np.ndarray:
    """The Monte Carlo standard error, by ArviZ, of the mean of draws (chain, draw, n); has shape (n,)."""
    import xarray as xr
    from arviz_stats.sampling_diagnostics import mcse  # slow to import

    draws = xr.Dataset({"x": (("chain", "draw", "i"), values)})
    return mcse(draws, method="mean")["x"].values
