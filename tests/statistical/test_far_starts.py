"""Runs that start far off and do not arrive: acceptance looks well, and the result says that the draws are not."""

import jax.numpy as jnp
import pytest

import gadabout as gad

WIDTHS = jnp.logspace(-2, 2, 10)


def of_unit_width(x):
    return -0.5 * x @ x


def badly_scaled(x):
    return -0.5 * jnp.sum((x / WIDTHS) ** 2)


@pytest.mark.parametrize("chains", [1, 4])
@pytest.mark.parametrize(
    ("density", "far"), [pytest.param(of_unit_width, 1e4, marks=pytest.mark.long), (badly_scaled, 1e2)]
)
def test_adaptive_metropolis_from_far_starts_says_that_it_has_not_arrived(density, far, chains):
    """`am("as-run")` with its own warm-up: acceptance 0.22 to 0.26, as it should, and means off by up to 160 sd."""
    with pytest.warns(gad.DiagnosticWarning):
        tree = gad.sample(
            density,
            jnp.full(10, far),
            sampler=gad.am("as-run"),
            num_chains=chains,
            num_draws=2_000,
            progress=False,
        )
    assert abs(tree["sample_stats"]["acceptance_rate"].mean() - 0.25) < 0.05
    assert {"rhat", "halves", "ess"} & {finding["kind"] for finding in tree.attrs["findings"] if finding["variables"]}
