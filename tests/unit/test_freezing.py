"""Plans that freeze θ before warm-up ends, and adaptive Metropolis component by component, as the pages make them."""

import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.schedule import Draw, Learn, Plan, Search

SD = jnp.array([0.1, 1.0])


def log_density(x):
    return -0.5 * jnp.sum((x / SD) ** 2)


def frozen_early(sampler, share):
    still = sampler.drawing()
    return Plan((Search(), Learn(sampler, 1 - share), Learn(still, share, name="frozen"), Draw(still)), sampler.name)


def test_theta_stands_still_for_the_last_share_of_warm_up():
    settings = {"num_warmup": 400, "num_draws": 100, "num_chains": 2, "progress": False}
    tree = gad.sample(log_density, jnp.zeros(2), sampler=frozen_early(gad.gad_mala(), 0.25), **settings)
    trace = tree["warmup_sample_stats"]
    assert trace["lp"].sizes["draw"] == 400
    np.testing.assert_array_equal(np.isfinite(trace["beta"].values[0]), np.arange(400) < 300)
    shorter = gad.sample(log_density, jnp.zeros(2), sampler=gad.gad_mala(), **settings | {"num_warmup": 300})
    name = "proposal.factor.matrix"
    np.testing.assert_array_equal(
        tree["learned"][name], shorter["learned"][name]
    )  # and no iteration has moved it since
    assert not np.array_equal(tree["posterior"]["x"], shorter["posterior"]["x"])


@pytest.mark.parametrize("share", [0.5, 1.5])
def test_shares_that_do_not_sum_to_one_are_refused(share):
    sampler = gad.rwm()
    with pytest.raises(ValueError, match="shares of warm-up"):
        Plan((Search(), Learn(sampler, 1.0), Learn(sampler.drawing(), share), Draw(sampler)))


def test_adaptive_metropolis_component_by_component_learns_each_variance():
    """Within 10 %, the smallest error detected; the standard error is 1.4 %, so a false alarm has 7 of them.

    The last gain, 10^-3.2, averages some 3,000 draws of each of 4 chains, of which five are worth one.
    """
    sampler = gad.cycle(*(gad.block(gad.haario(), [i]) for i in range(2)))
    tree = gad.sample(
        log_density, jnp.zeros(2), sampler=sampler, num_warmup=10_000, num_draws=100, num_chains=4, progress=False
    )
    learned = [tree["learned"][f"kernels[{i}].kernels[0].proposal.factor.base.matrix"].item() for i in range(2)]
    np.testing.assert_allclose(learned, SD, rtol=0.1)
