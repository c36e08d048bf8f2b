"""Results as netCDF files, and summaries of draws that are kept in float32."""

import json

import arviz_stats
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gadabout as gad

SHORT = {"num_warmup": 60, "num_draws": 20, "progress": False}


def model():
    return gad.Model(
        lambda v: -0.5 * jnp.sum(v["a"] ** 2) - 0.5 * v["b"] ** 2,
        {"a": jnp.zeros(2), "b": jnp.zeros(())},
        dims={"a": ["kind"]},
        coords={"kind": ["u", "v"]},
        observed={"y": np.ones(3)},
        predict=lambda key, v: {"y": v["b"] + jax.random.normal(key, (3,))},
    )


@pytest.mark.parametrize(
    ("sampler", "wide", "stored"), [(None, True, False), (None, False, True), (gad.mala(), True, True)]
)
def test_a_netcdf_file_holds_all_of_a_result(tmp_path, stored, sampler, wide):
    pytest.importorskip("h5netcdf", reason="pip install 'gadabout[netcdf]'")
    with jax.enable_x64(wide):
        tree = gad.sample(model(), sampler=sampler, out=tmp_path / "run.zarr" if stored else None, **SHORT)
    tree.to_netcdf(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as read:
        assert read.groups == tree.groups
        for group in tree.groups:
            for name, values in tree[group].variables.items():
                np.testing.assert_array_equal(read[group][name].values, values.values)
                assert read[group][name].dims == values.dims
                assert values.dtype.kind not in "bf" or read[group][name].dtype == values.dtype
        assert read.attrs["seed"] == 0
        assert json.loads(read.attrs["findings"]) == tree.attrs["findings"]
        assert json.loads(read.attrs["sampler_settings"]).keys() == tree.attrs["sampler_settings"].keys()
        assert json.loads(read.attrs["exact"]) is True
        gad.sample(model(), warm_start=read, **SHORT)
        assert gad.posterior_predictive(read, model())["y"].shape[-1] == 3


def test_parts_of_a_result_are_written_too(tmp_path):
    pytest.importorskip("h5netcdf", reason="pip install 'gadabout[netcdf]'")
    tree = gad.sample(model(), **SHORT)
    tree.isel(draw=slice(5)).to_netcdf(tmp_path / "part.nc")
    tree["posterior"].to_netcdf(tmp_path / "posterior.nc")
    with xr.open_datatree(tmp_path / "part.nc") as read:
        assert read["posterior"].sizes["draw"] == 5
    with xr.open_dataset(tmp_path / "posterior.nc") as read:
        np.testing.assert_array_equal(read["a"], tree["posterior"]["a"])


def test_without_a_library_the_error_says_what_to_install(tmp_path, monkeypatch):
    for library in ("h5netcdf", "netCDF4"):
        monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(ImportError, match=r"pip install 'gadabout\[netcdf\]'"):
        gad.sample(model(), **SHORT).to_netcdf(tmp_path / "run.nc")


@pytest.mark.parametrize("centre", [0.0, 5e3, 1e5])
@pytest.mark.filterwarnings("ignore:draws of .* are kept in float32")
def test_a_summary_is_right_in_float32(centre):
    with jax.enable_x64(False):
        tree = gad.sample(lambda x: -0.5 * jnp.sum((x - centre) ** 2), jnp.full(2, centre, "f"), progress=False)
    draws = tree["posterior"]["x"].values
    assert draws.dtype == "float32"
    table = arviz_stats.summary(tree, round_to="none")
    np.testing.assert_allclose(table["mean"], draws.astype(float).mean((0, 1)), atol=0.01)
    np.testing.assert_allclose(table["sd"], draws.astype(float).std((0, 1)), rtol=1e-3)
    exact = arviz_stats.summary(xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset().astype(float)}))
    np.testing.assert_allclose(table["ess_bulk"], exact["ess_bulk"].astype(float), rtol=1e-3)
