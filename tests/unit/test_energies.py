"""Energies: recorded by moves that draw momenta, as ArviZ reads them, and the finding on E-BFMI."""

import warnings

import arviz_stats
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.findings.energies import bfmi, slow_energies


def sampled(sampler, log_density=lambda x: -0.5 * jnp.sum(x**2), n=5, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gad.sample(log_density, jnp.zeros(n), sampler=sampler, progress=False, num_draws=300, **settings)


WITH = {
    "split HMC": gad.default(move="split-hmc"),
    "NUTS with halved steps": gad.default(move="nuts"),
    "the recipe of NUTS": gad.nuts(),
    "HMC": gad.hmc(),
}


@pytest.mark.parametrize("name", WITH)
def test_moves_with_momenta_have_energies_that_arviz_reads(name):
    tree = sampled(WITH[name], num_warmup=200)
    mine = bfmi(tree["sample_stats"]["energy"].values)
    theirs = arviz_stats.bfmi(tree)["energy"].values
    np.testing.assert_allclose(mine, theirs, rtol=0.05)  # they divide by n − 1
    assert (mine > 0.5).all()
    assert "bfmi" not in {record["kind"] for record in tree.attrs["findings"]}


def test_moves_without_have_none_so_that_arviz_says_why():
    tree = sampled(gad.default(move="independence"))
    assert "energy" not in tree["sample_stats"]
    with pytest.raises(Exception, match="energy"):
        arviz_stats.bfmi(tree)


def test_energies_that_change_slowly_are_reported_with_their_chains():
    rng = np.random.default_rng(0)
    quick = rng.normal(size=(3, 500))
    slow = np.cumsum(rng.normal(size=(1, 500)), 1)
    finding = slow_energies({"energy": np.concatenate([quick, slow])})[0]
    assert (finding.kind, finding.chains) == ("bfmi", [3])
    assert finding.figure < 0.3
    assert slow_energies({"energy": quick}) == []
    assert slow_energies({"energy": np.zeros((3, 500))}) == []
    assert slow_energies({"energy": slow[:, :50]}) == []
    assert slow_energies({}) == []
    assert slow_energies({"energy": np.concatenate([slow, slow])})[0].chains == []


def test_nuts_on_heavy_tails_says_so():
    """A Cauchy of ten coordinates: energies follow log |x|, and a momentum changes them by a few nats only."""
    tree = sampled(gad.nuts(), lambda x: -5.5 * jnp.log1p(x @ x), 10, num_warmup=300)
    assert "bfmi" in {record["kind"] for record in tree.attrs["findings"]}
