"""Diagnostics of functions of the draws."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.signal import lfilter

from gadabout.diagnostics import diagnose, evaluate

RHO = 0.9


def tree_of(**variables):
    arrays = {
        name: (["chain", "draw", *[f"{name}_{i}" for i in range(v.ndim - 2)]], v) for name, v in variables.items()
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(arrays)})


def autoregressive(chains, draws, seed=0):
    rng = np.random.default_rng(seed)
    noise = np.sqrt(1 - RHO**2) * rng.standard_normal((chains, draws))
    return lfilter([1.0], [1.0, -RHO], noise, axis=1, zi=RHO * rng.standard_normal((chains, 1)))[0]


def test_ess_depends_on_the_function():
    """AR(1) with ρ = 0.9: M/19 for x, M/9.53 for x²; four chains of 50,000, within 10 % (five standard errors)."""
    table = diagnose(tree_of(x=autoregressive(4, 50_000)), lambda x: jnp.stack([x, x**2]))
    expected = 200_000 / np.array([19, 9.53])
    np.testing.assert_allclose(table["ess_mean"], expected, rtol=0.1)
    np.testing.assert_allclose(table["mcse_mean"], table["sd"] / np.sqrt(expected), rtol=0.06)
    assert (np.abs(table["mean"] - [0, 1]) < 5 * table["mcse_mean"]).all()
    assert (table["rhat"] < 1.01).all()
    assert (table["rhat_classical"] < 1.01).all()


def test_one_bad_function_of_good_draws():
    """Chains that agree on x and disagree on its spread: R-hat of x² says so, in both forms."""
    x = np.random.default_rng(1).standard_normal((4, 1_000)) * np.array([1, 1, 1, 3.0])[:, None]
    table = diagnose(tree_of(x=x), lambda x: {"x": x, "square": x**2}["square"])
    assert table["rhat"] > 1.1
    assert table["rhat_classical"] > 1.1


def test_positions_of_several_variables():
    rng = np.random.default_rng(2)
    tree = tree_of(w=rng.standard_normal((3, 50, 4)), b=rng.standard_normal((3, 50)))
    f = lambda position: position["w"].sum() + position["b"]
    w, b = tree["posterior"]["w"].values, tree["posterior"]["b"].values
    np.testing.assert_allclose(evaluate(tree, f), w.sum(-1) + b)
    assert diagnose(tree, f)["ess_bulk"].shape == ()
    assert diagnose(tree, lambda p: p["w"])["ess_tail"].shape == (4,)


def test_many_short_chains():
    """256 chains of 10 draws in 16 groups: nested R-hat is near one where they agree, and large where groups do not."""
    draws = np.random.default_rng(3).standard_normal((256, 10))
    assert diagnose(tree_of(x=draws), lambda x: x, superchains=16)["rhat_nested"] < 1.05
    apart = draws + np.repeat(np.arange(16), 16)[:, None]
    assert diagnose(tree_of(x=apart), lambda x: x, superchains=16)["rhat_nested"] > 1.5
    with pytest.raises(ValueError, match=r"superchains.*256.*7"):
        diagnose(tree_of(x=draws), lambda x: x, superchains=7)


def test_too_little_to_judge():
    table = diagnose(tree_of(x=np.zeros((1, 3))), lambda x: x)
    assert np.isnan(table["ess_bulk"])
    assert np.isnan(table["rhat"])
