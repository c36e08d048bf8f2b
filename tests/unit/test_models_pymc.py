"""PyMC models: names, dims, coords, constraints and data as PyMC has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad

pm = pytest.importorskip("pymc")

pytestmark = pytest.mark.filterwarnings("ignore:chains .* accepted nothing")
SHORT = {"sampler": gad.mala(), "num_warmup": 60, "num_draws": 50, "num_chains": 2, "progress": False}
Y = np.array([1.0, 0.0, 2.0])


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"row": ["u", "v", "w"], "kind": ["a", "b"]}) as model:
        tau = pm.HalfNormal("tau")
        b = pm.Normal("b", 0, tau, dims="kind")
        p = pm.Dirichlet("p", np.ones(3))
        pm.Uniform("a", 0, tau)
        pm.Deterministic("total", b.sum() + tau)
        pm.Normal("y", b[0] + p[0], 1, observed=pm.Data("data", Y, dims="row"), dims="row")
    return model


def test_names_dims_and_groups(model):
    tree = gad.sample(gad.models.pymc(model, dims={"p": ["part"]}, coords={"part": [1, 2, 3]}), **SHORT)
    posterior, free = tree["posterior"], tree["unconstrained_posterior"]
    dims = {name: values.dims[2:] for name, values in posterior.data_vars.items()}
    assert dims == {"tau": (), "b": ("kind",), "p": ("part",), "a": (), "total": ()}
    assert list(dims) == ["tau", "b", "p", "a", "total"]
    assert posterior["kind"].values.tolist() == ["a", "b"]
    assert list(free.data_vars) == ["tau", "b", "p_unconstrained", "a"]
    np.testing.assert_allclose(np.exp(free["tau"]), posterior["tau"], rtol=1e-12)
    np.testing.assert_allclose(posterior["total"], posterior["b"].sum("kind") + posterior["tau"], rtol=1e-12)
    np.testing.assert_array_equal(tree["observed_data"]["y"], Y)
    mean = posterior["b"].values[..., :1] + posterior["p"].values[..., :1]
    likelihood = -0.5 * (Y - mean) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(tree["log_likelihood"]["y"], likelihood, rtol=1e-9)
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "row")


def test_log_density_is_pymcs(model):
    ours = gad.models.pymc(model)
    x = jnp.linspace(-1, 1, ours.layout.dim)
    position = ours.layout.unravel(x)
    named = {value.name: np.asarray(position[model.values_to_rvs[value].name]) for value in model.value_vars}
    assert ours.target.log_density(x) == pytest.approx(float(model.compile_logp()(named)), rel=1e-10)


def test_a_start_by_variable_and_a_stored_run(model, tmp_path):
    ours = gad.models.pymc(model)
    init = {"tau": 2.0, "b": np.ones(2), "p": np.array([0.2, 0.3, 0.5]), "a": 1.5}
    start = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), init)
    tree = gad.sample(ours, init_per_chain=start, **SHORT | {"sampler": gad.rwm(step_size=1e-9), "num_warmup": 0})
    for name, value in init.items():
        np.testing.assert_allclose(tree["posterior"][name].values[:, 0], np.stack([value] * 2), atol=1e-6)
    with pytest.raises(ValueError, match="init must be a dict of all variables of the model"):
        gad.sample(ours, {"tau": 1.0}, **SHORT)
    gad.sample(ours, out=tmp_path / "run.zarr", **SHORT)
    again = gad.resume(tmp_path / "run.zarr", gad.models.pymc(model), num_draws=80, progress=False)
    np.testing.assert_array_equal(
        again["posterior"]["a"], gad.sample(ours, **SHORT | {"num_draws": 80})["posterior"]["a"]
    )


def test_the_precision_of_jax_is_left_as_it_is(model):
    with jax.enable_x64(False):
        gad.models.pymc(model)
        assert jnp.zeros(1).dtype == "float32"
    assert jnp.zeros(1).dtype == "float64"


def test_what_cannot_be_sampled_is_refused(model, monkeypatch):
    with pm.Model() as discrete:
        pm.Poisson("n", 3)
    with pytest.raises(ValueError, match="the free variable 'n' is discrete; sum over it"):
        gad.models.pymc(discrete)
    with pytest.raises(TypeError, match=r"model must be a pymc\.Model, got 3"):
        gad.models.pymc(3)
    with pytest.raises(TypeError, match=r"use pymc\.sample_posterior_predictive"):
        gad.posterior_predictive(gad.sample(gad.models.pymc(model), **SHORT), gad.models.pymc(model))
    monkeypatch.setitem(__import__("sys").modules, "pymc", None)
    with pytest.raises(ImportError, match=r"needs pymc, which is not installed: pip install 'gadabout\[pymc\]'"):
        gad.models.pymc(model)
