import numpy as np
import pytest
import xarray as xr

import gadabout as gad
from gadabout.findings import Finding
from gadabout.findings.divergences import cut_short, with_variables


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


def test_tails_whose_trajectories_are_cut_short_are_named():
    """Half of those from the lower tail of x are. Of a tenth everywhere a tail of 200 has a third by chance never."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 4, 1_001))
    posterior = xr.Dataset({"y": (("chain", "draw"), y), "x": (("chain", "draw"), x)})
    chance = rng.uniform(size=x.shape)
    before = np.roll(x, 1, axis=1)
    (found,) = cut_short(posterior, {"cut_short": chance < np.where(before < -1.6, 0.5, 0.05)}, ["y", "x"])
    assert (found.kind, found.variables) == ("cut-short", ["x"])
    assert 0.35 < found.figure < 0.65
    assert cut_short(posterior, {"cut_short": chance < 0.1}, ["y", "x"]) == []
    assert cut_short(posterior, {}, ["y", "x"]) == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_normals_trajectories_are_not_cut_short():
    normal = gad.sample(
        lambda x: -0.5 * x @ x, np.zeros(2), sampler=gad.default(move="nuts"), num_draws=200, progress=False
    )
    assert "cut-short" not in [each["kind"] for each in normal.attrs["findings"]]
