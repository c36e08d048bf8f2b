"""Draws in float32 far from zero, and warm starts without warm-up: what is reported, and what is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gadabout as gad
from gadabout.findings.draws import judge
from gadabout.findings.offsets import far_from_zero


def reported(draws):
    posterior = xr.Dataset({"x": (("chain", "draw", "i"), draws)}, coords={"i": np.arange(draws.shape[2])})
    found = far_from_zero(posterior, judge(posterior))
    return found[0] if found else None


@pytest.mark.parametrize("mean", [1e6, -3e5])
def test_draws_in_float32_far_from_zero_are_reported(mean):
    draws = np.random.default_rng(0).normal(size=(4, 500, 2)) + np.array([0.0, mean])
    finding = reported(draws.astype(np.float32))
    assert finding.variables == ["x[1]"]
    assert finding.figure == pytest.approx(abs(mean), rel=0.1)
    assert reported(draws) is None  # in float64


def test_draws_near_zero_or_that_never_move_are_not():
    draws = np.random.default_rng(0).normal(size=(4, 500, 2)) + 5_000
    assert reported(draws.astype(np.float32)) is None
    assert reported(np.full((4, 500, 1), 7, np.float32)) is None
    assert reported(np.full((4, 500, 1), 7)) is None


def test_a_run_says_so_and_what_to_sum():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.warns(UserWarning, match=r"float32 and lie .*astype\(float\)"):
            tree = gad.sample(lambda x: -0.5 * jnp.sum((x - 1e6) ** 2), jnp.full(1, 1e6), progress=False)
    finally:
        jax.config.update("jax_enable_x64", True)
    mean = tree["posterior"].to_dataset().astype(float)["x"].mean().item()
    assert mean == pytest.approx(1e6, abs=0.5)


@pytest.mark.filterwarnings("error")
def test_a_warm_start_without_warm_up_raises_no_warning():
    first = gad.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(3), progress=False)
    again = gad.sample(lambda x: -0.5 * jnp.sum(x**2), warm_start=first, num_warmup=0, progress=False)
    assert again.attrs["findings"] == []
