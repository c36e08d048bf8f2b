"""The default where log π is −∞ beyond a border: an exponential, without `transforms=`, beside two normals.

Each run is within 4.5 MCSE of the means of x₁ and x₁², a false alarm in 70,000 runs, or is flagged by its R-hat; all
say "border". At least half are right (of two runs in the checks, of two more under the marker), with errors above 45 %
found, most often above 10 %. Chains that began far out froze in all runs before a gradient that does not vary counted
by its square.
"""

import arviz_stats
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad


def log_density(x):
    return jnp.where(x[0] > 0, -x[0], -jnp.inf) - 0.5 * jnp.sum(x[1:] ** 2)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seeds", [(0, 1), pytest.param((2, 3), marks=pytest.mark.long)])
def test_an_exponential_up_to_its_border(seeds):
    right = 0
    for seed in seeds:
        tree = gad.sample(log_density, jnp.array([1.0, 0.0, 0.0]), seed=seed, progress=False)
        kinds = {each["kind"] for each in tree.attrs["findings"]}
        assert "border" in kinds
        if "rhat" in kinds:
            continue
        x = np.asarray(tree["posterior"]["x"].values[..., 0], float)
        for values, expected in ((x, 1.0), (x**2, 2.0)):
            error = values.std() / np.sqrt(float(arviz_stats.ess(values, method="bulk")))
            assert abs(values.mean() - expected) < 4.5 * error
            assert error < 0.1 * expected
        right += 1
    assert right >= 1
