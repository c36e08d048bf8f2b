import numpy as np
import xarray as xr

from gadabout.api.divergences import with_variables
from gadabout.findings import Finding


def test_a_finding_on_divergences_names_the_coordinates_that_they_have_to_do_with():
    """A funnel's neck: log τ is low there and θ near 0; ζ has nothing to do with it. None is named by chance.

    False alarm: 3 coordinates, 4 standard errors of two figures, below 1 in 2,000.
    """
    rng = np.random.default_rng(0)
    log_tau = rng.normal(size=(4, 1_000))
    theta = np.exp(log_tau)[..., None] * rng.normal(size=(4, 1_000, 1))
    zeta = rng.normal(size=(4, 1_000))
    dims = ("chain", "draw")
    posterior = xr.Dataset({"zeta": (dims, zeta), "log_tau": (dims, log_tau), "theta": ((*dims, "k"), theta)})
    names, found = ["zeta", "log_tau", "theta[0]"], [Finding("diverging", "many diverge"), Finding("rhat", "no")]
    told, other = with_variables(found, posterior, {"diverging": log_tau < -1.5}, names)
    assert told.variables[0] == "log_tau"
    assert "zeta" not in told.variables
    assert "log_tau" in told.problem
    assert other == found[1]
    at_random = with_variables(found, posterior, {"diverging": rng.uniform(size=(4, 1_000)) < 0.05}, names)
    assert at_random == found
    assert with_variables(found, posterior, {}, names) == found
