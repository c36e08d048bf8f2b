"""Eight schools three times: in plain JAX, in NumPyro and in PyMC. One posterior, the same names, dims and groups.

Means and standard deviations of μ, τ and every θ_j lie within 4 Monte Carlo standard errors of each other, and those of
μ and τ of the exact ones: of 3 · 20 + 12 figures one is outside by chance once in 200 seeds; the seed is fixed.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats
from jax.scipy import stats

import gadabout as gad
from tests.statistical.test_eight_schools import EFFECTS, ERRORS, TRUTH

NAMES = ["Choate", "Deerfield", "Phillips Andover", "Phillips Exeter", "Hotchkiss", "Lawrenceville", "St. Paul's"]
COORDS = {"school": [*NAMES, "Mt. Hermon"]}
DIMS = {name: ["school"] for name in ("eta", "theta", "y")}
NUTS = gad.nuts(target_acceptance=0.95)
SETTINGS = {"sampler": NUTS, "num_draws": 4_000, "num_chains": 8, "progress": False, "seed": 1}

pytestmark = pytest.mark.filterwarnings("ignore:.*(diverging|nonfinite)")


def log_likelihood(v, data):
    return {"y": stats.norm.logpdf(data["y"], v["mu"] + v["tau"] * v["eta"], data["sigma"])}


def log_density(v, data):
    prior = stats.norm.logpdf(v["mu"], 0, 5) + stats.cauchy.logpdf(v["tau"], 0, 5) + jnp.sum(-0.5 * v["eta"] ** 2)
    return prior + jnp.sum(log_likelihood(v, data)["y"])


def plain():
    return gad.Model(
        log_density,
        data={"y": EFFECTS, "sigma": ERRORS},
        transforms={"tau": "positive"},
        start=lambda key: {"mu": jax.random.normal(key), "tau": jnp.ones(()), "eta": jnp.zeros(8)},
        outputs=lambda v, data: {"theta": v["mu"] + v["tau"] * v["eta"]},
        log_likelihood=log_likelihood,
        observed={"y": EFFECTS},
        dims=DIMS,
        coords=COORDS,
    )


def of_numpyro():
    numpyro = pytest.importorskip("numpyro")
    from numpyro import distributions as law

    def schools(sigma, y=None):
        mu, tau = numpyro.sample("mu", law.Normal(0, 5)), numpyro.sample("tau", law.HalfCauchy(5))
        with numpyro.plate("school", len(sigma)):
            eta = numpyro.sample("eta", law.Normal(0, 1))
            theta = numpyro.deterministic("theta", mu + tau * eta)
            numpyro.sample("y", law.Normal(theta, sigma), obs=y)

    return gad.models.numpyro(schools, ERRORS, y=EFFECTS, dims={"theta": ["school"]}, coords=COORDS)


def of_pymc():
    pm = pytest.importorskip("pymc")
    with pm.Model(coords=COORDS) as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfCauchy("tau", 5)
        eta = pm.Normal("eta", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * eta, dims="school")
        pm.Normal("y", theta, ERRORS, observed=EFFECTS, dims="school")
    return gad.models.pymc(model)


MODELS = {"plain": plain, "numpyro": of_numpyro, "pymc": of_pymc}


@cache
def drawn(name):
    return gad.sample(MODELS[name](), **SETTINGS)


def moments(tree):
    """Means, standard deviations and their errors of mu, tau and theta."""
    x = np.concatenate([tree["posterior"][name].values.reshape(8, 4_000, -1) for name in ("mu", "tau", "theta")], -1)
    axes = {"chain_axis": 0, "draw_axis": 1}
    values = np.concatenate([x.mean((0, 1)), x.std((0, 1))])
    return values, np.concatenate([array_stats.mcse(x, method=method, **axes) for method in ("mean", "sd")])


def distance(a, b):
    """The largest difference of two results, in standard errors of it."""
    (left, left_error), (right, right_error) = moments(a), moments(b)
    return float(np.max(np.abs(left - right) / np.hypot(left_error, right_error)))


@pytest.mark.parametrize("name", MODELS)
def test_the_posterior_is_the_exact_one(name):
    values, errors = moments(drawn(name))
    exact = np.array([TRUTH["mu"][0], TRUTH["tau"][0], TRUTH["mu"][1], TRUTH["tau"][1]])
    places = [0, 1, 10, 11]
    assert np.max(np.abs(values[places] - exact) / errors[places]) < 4


@pytest.mark.parametrize("name", ["numpyro", "pymc"])
def test_names_dims_groups_and_posterior_are_those_of_the_plain_model(name):
    other, own = drawn(name), drawn("plain")
    print(f"{name}: {distance(other, own):.2f} standard errors")
    assert distance(other, own) < 4
    assert set(other.children) == set(own.children)
    for group in ("posterior", "unconstrained_posterior", "log_likelihood", "observed_data"):
        described = [{name: values.dims for name, values in tree[group].data_vars.items()} for tree in (other, own)]
        assert described[0] == described[1]
        assert list(described[0]) == list(described[1])
        assert other[group]["school"].values.tolist() == COORDS["school"] if "school" in other[group].dims else True
    assert other["learned"]["coordinate"].values.tolist() == own["learned"]["coordinate"].values.tolist()


PROGRAM = """
data { int<lower=0> J; vector[J] y; vector<lower=0>[J] sigma; }
parameters { real mu; real<lower=0> tau; vector[J] eta; }
transformed parameters { vector[J] theta = mu + tau * eta; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); eta ~ normal(0, 1); y ~ normal(theta, sigma); }
generated quantities { vector[J] log_lik_y; for (j in 1:J) log_lik_y[j] = normal_lpdf(y[j] | theta[j], sigma[j]); }
"""


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("library", ["stanli", "bridgestan", "pystan"])
def test_the_stan_program_has_the_same_posterior(library):
    """Skipped where a library is not there, cannot compile, or was made for another Python (see its message)."""
    data = {"J": 8, "y": EFFECTS, "sigma": ERRORS}
    try:
        model = gad.models.stan(PROGRAM, data, observed=["y"], dims=DIMS, coords=COORDS, library=library)
    except ImportError as error:
        pytest.skip(str(error))
    tree, own = gad.sample(model, **SETTINGS), drawn("plain")
    print(f"{library}: {distance(tree, own):.2f} standard errors")
    assert distance(tree, own) < 4
    for group in ("posterior", "unconstrained_posterior", "log_likelihood", "observed_data"):
        described = [{name: values.dims for name, values in t[group].data_vars.items()} for t in (tree, own)]
        assert described[0] == described[1]


@pytest.mark.parametrize("name", MODELS)
def test_leave_one_out_works(name):
    from arviz_stats import loo

    found = loo(drawn(name))
    assert abs(found.elpd - loo(drawn("plain")).elpd) < 0.3
    assert found.n_data_points == 8


def test_a_wrong_model_is_told_apart():
    """A half-normal prior of τ in place of the half-Cauchy one, and a Jacobian that is added twice."""
    light = lambda v, data: log_density(v, data) - stats.cauchy.logpdf(v["tau"], 0, 5) - 0.5 * (v["tau"] / 5) ** 2
    twice = lambda v, data: log_density(v, data) + jnp.log(v["tau"])
    for wrong in (light, twice):
        model = plain()
        model.log_density = wrong
        assert distance(gad.sample(model, **SETTINGS), drawn("plain")) > 4
