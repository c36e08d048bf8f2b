"""NumPyro models: names, dims and constraints of their own, data as arguments, and what cannot be sampled."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad

numpyro = pytest.importorskip("numpyro")
law = numpyro.distributions

pytestmark = pytest.mark.filterwarnings("ignore:chains .* accepted nothing")
SHORT = {"sampler": gad.mala(), "num_warmup": 60, "num_draws": 50, "num_chains": 2, "progress": False}
X = np.array([[0.5, 1.0], [1.5, -1.0], [2.0, 0.0]])
Y = np.array([1.0, 0.0, 2.0])


def regression(x, y=None, scale=1.0):
    tau = numpyro.sample("tau", law.HalfNormal(scale))
    with numpyro.plate("column", x.shape[1]):
        w = numpyro.sample("w", law.Normal(0, tau))
    p = numpyro.sample("p", law.Dirichlet(jnp.ones(3)))
    upper = numpyro.sample("a", law.Uniform(0, tau))
    numpyro.deterministic("total", jnp.sum(w) + upper)
    with numpyro.plate("row", x.shape[0]):
        numpyro.sample("y", law.Normal(x @ w + p[0], 1), obs=y)


def test_names_dims_and_groups():
    model = gad.models.numpyro(regression, X, Y, coords={"column": ["age", "size"]})
    tree = gad.sample(model, **SHORT)
    dims = {name: values.dims[2:] for name, values in tree["posterior"].data_vars.items()}
    assert dims == {"tau": (), "w": ("column",), "p": ("p_dim_0",), "a": (), "total": ()}
    assert list(dims) == ["tau", "w", "p", "a", "total"]
    assert tree["posterior"]["column"].values.tolist() == ["age", "size"]
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "row")
    np.testing.assert_array_equal(tree["observed_data"]["y"], Y)
    free, posterior = tree["unconstrained_posterior"], tree["posterior"]
    assert list(free.data_vars) == ["tau", "w", "p_unconstrained", "a"]
    np.testing.assert_allclose(np.exp(free["tau"]), posterior["tau"], rtol=1e-12)
    np.testing.assert_allclose(posterior["total"], posterior["w"].sum("column") + posterior["a"], rtol=1e-12)
    assert (posterior["a"] < posterior["tau"]).all()  # a support that depends on another site
    mean = posterior["w"].values @ X.T + posterior["p"].values[..., :1]
    likelihood = -0.5 * (Y - mean) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(tree["log_likelihood"]["y"], likelihood, rtol=1e-9)
    assert tree["learned"]["coordinate"].values.tolist()[:4] == ["tau", "w[age]", "w[size]", "p_unconstrained[0]"]


def test_log_density_is_numpyros_with_the_jacobian():
    from numpyro.infer.util import potential_energy

    model = gad.models.numpyro(regression, X, Y)
    x = jnp.linspace(-1, 1, model.layout.dim)
    there = -potential_energy(regression, (X, Y), {}, model.layout.unravel(x))
    assert model.target.log_density(x) == pytest.approx(float(there), rel=1e-12)


def test_other_data_of_the_same_shape_compile_nothing_anew(compilations):
    """But for rows of draws in another number, which depends on the time that the pieces of a run take."""
    gad.sample(gad.models.numpyro(regression, X, Y), **SHORT)
    model = gad.models.numpyro(regression, 2 * X, Y - 1)
    before = len(compilations)
    other = gad.sample(model, **SHORT)
    assert {event["fun_name"] for event in compilations[before:]} <= {"jit(stage)", "jit(_each)"}
    np.testing.assert_array_equal(other["observed_data"]["y"], Y - 1)
    gad.sample(gad.models.numpyro(regression, X[:2], Y[:2]), **SHORT)
    assert "jit(_search)" in {event["fun_name"] for event in compilations[before:]}
    assert "model_arguments" not in other.attrs


def test_a_model_that_looks_at_its_data_is_run_with_them_fixed():
    def grouped(group, y):
        with numpyro.plate("groups", len(np.unique(group))):
            mean = numpyro.sample("mean", law.Normal(0, 1))
        numpyro.sample("y", law.Normal(mean[group], 1), obs=y)

    tree = gad.sample(gad.models.numpyro(grouped, np.array([0, 1, 1]), Y), **SHORT)
    assert tree["posterior"]["mean"].sizes["groups"] == 2
    assert "compile anew" in tree.attrs["model_arguments"]


def test_a_start_by_site_and_an_earlier_result():
    model = gad.models.numpyro(regression, X, Y)
    init = {"w": np.ones(2), "tau": 2.0, "p": np.array([0.2, 0.3, 0.5]), "a": 1.5}
    start = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * 2), init)
    tree = gad.sample(model, init_per_chain=start, **SHORT | {"sampler": gad.mala(step_size=1e-9), "num_warmup": 0})
    for name, value in init.items():
        np.testing.assert_allclose(tree["posterior"][name].values[:, 0], np.stack([value] * 2), atol=1e-6)
    later = gad.sample(model, warm_start=tree, **SHORT | {"num_warmup": 0})
    assert np.abs(later["posterior"]["tau"].values[:, 0] - 2).max() < 2
    gad.sample(model, lambda key: init | {"tau": 1 + jax.random.uniform(key), "a": 0.5}, **SHORT)
    with pytest.raises(ValueError, match=r"init must be a dict of all variables of the model \(tau: \(\), w: \(2,\)"):
        gad.sample(model, {"w": np.ones(2)}, **SHORT)


def test_draws_of_data():
    """y = w + noise of variance 1, w ~ N(0, 1) given no more than y = 0: the predictive law is N(0, 3/2)."""

    def normal(y):
        w = numpyro.sample("w", law.Normal(0, 1))
        numpyro.factor("nothing", 0.0)
        numpyro.sample("y", law.Normal(w, 1), obs=y)

    model = gad.models.numpyro(normal, jnp.zeros(()))
    tree = gad.sample(model, **SHORT | {"num_draws": 5_000, "num_warmup": 500})
    drawn = gad.posterior_predictive(tree, model)
    assert list(drawn.data_vars) == ["y"]
    y = drawn["y"].values
    error = array_stats.mcse(y**2, chain_axis=0, draw_axis=1, method="mean")
    assert abs((y**2).mean() - 1.5) < 5 * error
    assert (y**2).mean() - 1 > 5 * error  # without the spread of w
    np.testing.assert_array_equal(y, gad.posterior_predictive(tree, model)["y"])
    assert not np.array_equal(y, gad.posterior_predictive(tree, model, seed=1)["y"])


def flat(y):
    low = numpyro.sample("low", law.ImproperUniform(law.constraints.real, (), ()))
    scale = numpyro.sample("scale", law.ImproperUniform(law.constraints.positive, (), ()))
    numpyro.factor("prior", -2 * scale - 0.5 * low**2)
    numpyro.sample("y", law.Normal(low, scale), obs=y)


def direction(y):
    with numpyro.handlers.reparam(config={"mean": numpyro.infer.reparam.CircularReparam()}):
        mean = numpyro.sample("mean", law.VonMises(0.5, 3.0))
    numpyro.sample("y", law.VonMises(mean, 2.0), obs=y)


@pytest.mark.parametrize(("model", "sites"), [(flat, ("low", "scale")), (direction, ("mean",))])
@pytest.mark.filterwarnings("ignore")
def test_sites_without_a_law_to_draw_from_start_as_numpyros_do(model, sites):
    """Means within 4 standard errors of NUTS; three figures, outside by chance once in 5,000 seeds; it is fixed."""
    tree = gad.sample(gad.models.numpyro(model, Y), num_draws=1_000, seed=1, progress=False)
    mcmc = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=1_000, num_samples=4_000, num_chains=4, chain_method="vectorized",
        progress_bar=False,
    )  # fmt: skip
    mcmc.run(jax.random.key(0), Y)
    for site in sites:
        draws = tree["posterior"][site].values, np.asarray(mcmc.get_samples(group_by_chain=True)[site])
        errors = [array_stats.mcse(each, chain_axis=0, draw_axis=1, method="mean") for each in draws]
        assert abs(draws[0].mean() - draws[1].mean()) < 4 * np.hypot(*errors)
        assert max(errors) < 0.1 * draws[1].std()


def counts(x, y=None):
    a = numpyro.sample("a", law.Normal())
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", law.Poisson(jnp.exp(a * x)), obs=y)


def drawn_mean(x, y=None):
    a, scale = numpyro.sample("a", law.Normal(0, 1)), numpyro.sample("scale", law.HalfNormal())
    numpyro.sample("y", law.Normal(a * x, scale).to_event(1), obs=y)
    numpyro.sample("z", law.Bernoulli(jax.nn.sigmoid(a)), obs=None if y is None else 1)


def given_a(x, y=None):
    a = numpyro.sample("a", law.Normal(0, 1))
    with numpyro.plate("row", len(x)):
        numpyro.sample("y", law.Normal(a * x, 1), obs=y)


@pytest.mark.parametrize(("model", "sites"), [(given_a, {"y"}), (counts, {"y"}), (drawn_mean, {"y", "z"})])
def test_predictions_at_other_x_leave_the_observations_out(model, sites):
    tree = gad.sample(gad.models.numpyro(model, X[:, 0], Y), **SHORT)
    new = gad.models.numpyro(model, np.array([1.0, -1.0, 0.5, 3.0]))
    drawn = gad.posterior_predictive(tree, new)
    assert set(drawn.data_vars) == sites
    assert drawn["y"].shape == (2, 50, 4)
    assert len(np.unique(drawn["y"])) > 3
    assert set(gad.posterior_predictive(tree, gad.models.numpyro(model, X[:, 0], Y)).data_vars) == sites


def test_predictions_follow_the_law_given_the_draws():
    """y − a x, given draws of a, is N(0, 1): mean and variance of 40,000 within 4 standard errors (1 in 8,000)."""
    tree = gad.sample(gad.models.numpyro(given_a, X[:, 0], Y), num_draws=1_250, progress=False)
    x = np.array([10.0, -20.0])
    drawn = gad.posterior_predictive(tree, gad.models.numpyro(given_a, x))
    rest = drawn["y"].values - tree["posterior"]["a"].values[..., None] * x
    assert drawn["y"].dims == ("chain", "draw", "row")
    assert abs(rest.mean()) < 4 / rest.size**0.5
    assert abs(rest.var() - 1) < 4 * (2 / rest.size) ** 0.5


def test_what_cannot_be_predicted_is_refused():
    def other(x, y=None):
        b = numpyro.sample("b", law.Normal())
        numpyro.sample("y", law.Poisson(jnp.exp(b * x)), obs=y)

    tree = gad.sample(gad.models.numpyro(given_a, X[:, 0], Y), **SHORT)
    with pytest.raises(ValueError, match=r"tree has the variables .*'a'.* the model needs 'b'"):
        gad.posterior_predictive(tree, gad.models.numpyro(other, X[:, 0], Y))
    with pytest.raises(ValueError, match=r"the latent site 'y' is discrete \(Poisson\w*\); sum over it"):
        gad.sample(gad.models.numpyro(other, X[:, 0]), **SHORT)


def test_a_stored_run_goes_on(tmp_path):
    model = gad.models.numpyro(regression, X, Y)
    gad.sample(model, out=tmp_path / "run.zarr", **SHORT)
    again = gad.resume(tmp_path / "run.zarr", gad.models.numpyro(regression, X, Y), num_draws=80, progress=False)
    whole = gad.sample(model, **SHORT | {"num_draws": 80})
    for name, values in whole["posterior"].data_vars.items():
        np.testing.assert_array_equal(again["posterior"][name], values)
    with pytest.raises(ValueError, match="data: they are not those of the run"):
        gad.resume(tmp_path / "run.zarr", gad.models.numpyro(regression, X, Y + 1), num_draws=90, progress=False)


def mixture(y):
    weight = numpyro.sample("weight", law.Beta(1, 1))
    with numpyro.plate("row", len(y)):
        kind = numpyro.sample("kind", law.Bernoulli(weight), infer={"enumerate": "parallel"})
        numpyro.sample("y", law.Normal(jnp.where(kind == 1, 3.0, -3.0), 1), obs=y)


def counted(y):
    n = numpyro.sample("n", law.Poisson(3))
    numpyro.sample("y", law.Normal(n * numpyro.sample("a", law.Normal()), 1), obs=y)


def test_discrete_sites_are_refused(monkeypatch):
    with pytest.raises(ValueError, match=r"the latent site 'n' is discrete \(Poisson\w*\); sum over it"):
        gad.models.numpyro(counted, Y)
    monkeypatch.setitem(__import__("sys").modules, "funsor", None)
    with pytest.raises(ValueError, match="NumPyro sums over it once funsor is installed: pip install funsor"):
        gad.models.numpyro(mixture, Y)


def test_discrete_sites_are_summed_over_where_numpyro_can():
    """Three rows of the one kind, far from the other: the weight is Beta(4, 1), but for what e⁻¹⁸ moves."""
    pytest.importorskip("funsor")
    tree = gad.sample(
        gad.models.numpyro(mixture, np.full(3, 3.0)), **SHORT | {"num_draws": 10_000, "num_warmup": 2_000}
    )
    weight = tree["posterior"]["weight"].values
    assert abs(weight.mean() - 0.8) < 5 * array_stats.mcse(weight, chain_axis=0, draw_axis=1, method="mean")
    assert list(tree["posterior"].data_vars) == ["weight"]


def subsampled(y):
    a = numpyro.sample("a", law.Normal())
    with numpyro.plate("row", 3, subsample_size=2):
        numpyro.sample("y", law.Normal(a, 1), obs=numpyro.subsample(jnp.asarray(y), 0))


def optimised(y):
    numpyro.sample("y", law.Normal(numpyro.param("a", 0.0), numpyro.sample("s", law.HalfNormal())), obs=y)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gad.models.numpyro(subsampled, Y), ValueError, "takes 2 of 3 rows at a time"),
        (lambda: gad.models.numpyro(optimised, Y), ValueError, "'a' is a numpyro.param"),
        (lambda: gad.models.numpyro(regression), TypeError, "model failed: TypeError.*missing 1 required"),
        (lambda: gad.models.numpyro(3), TypeError, "model must be a function with numpyro.sample sites, got 3"),
        (lambda: gad.models.numpyro(lambda: None), ValueError, "has no latent site"),
        (lambda: gad.models.numpyro(regression, X, dims={"z": ["k"]}), ValueError, "there is no variable 'z'"),
    ],
)
def test_what_cannot_be_sampled_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_arguments_called_dims_are_passed_by_partial():
    def model(dims):
        numpyro.sample("x", law.Normal(jnp.zeros(dims), 1).to_event(1))

    assert gad.models.numpyro(functools.partial(model, dims=3)).layout.shapes == ((3,),)


def test_without_numpyro_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"needs numpyro, which is not installed: pip install 'gadabout\[models\]'"):
        gad.models.numpyro(regression, X, Y)
