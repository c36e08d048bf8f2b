"""`NumPyroKernel` in NumPyro's `MCMC`: what it hands out, and the same posteriors as NumPyro's NUTS.

Mean and mean square of every number lie within 4 standard errors of the difference: of the 2 · 27 figures one is
outside by chance once in 300 seeds; the seeds are fixed. A fourth of a standard deviation is detected.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad

numpyro = pytest.importorskip("numpyro")
law, MCMC = numpyro.distributions, numpyro.infer.MCMC

few = ("ignore:chains .* accepted nothing", "ignore:tails are so heavy")  # as of 6 draws of each chain
pytestmark = [pytest.mark.filterwarnings(each) for each in few]
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
COUNTS = np.array([2, 0, 5, 9, 1, 3])
SHORT = {"num_warmup": 50, "num_samples": 40, "chain_method": "vectorized", "progress_bar": False}


def schools(errors, y=None):
    mu, tau = numpyro.sample("mu", law.Normal(0, 5)), numpyro.sample("tau", law.HalfCauchy(5))
    with numpyro.plate("school", len(errors)):
        eta = numpyro.sample("eta", law.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * eta)
        numpyro.sample("y", law.Normal(theta, errors), obs=y)


def shares(counts):
    p = numpyro.sample("p", law.Dirichlet(jnp.ones(len(counts))))
    scale = numpyro.sample("scale", law.Gamma(2.0, 0.1))
    numpyro.sample("y", law.Poisson(scale * p), obs=counts)


AWKWARD = pytest.mark.filterwarnings("ignore:.* proposals in the sampling stage were")
"""for runs of a few draws of `bounded`, which follow a sharp edge"""


def bounded(y):
    high = numpyro.sample("high", law.LogNormal(1.0, 0.5))
    low = numpyro.sample("low", law.Uniform(-high, high))
    numpyro.sample("y", law.Normal(low + high, 1), obs=y)


MODELS = {"schools": (schools, ERRORS, EFFECTS), "shares": (shares, COUNTS), "bounded": (bounded, EFFECTS / 5)}


def run(model, *args, key=0, kernel=None, **settings):
    mcmc = MCMC(kernel or gad.models.NumPyroKernel(model, num_draws=100), **SHORT | settings)
    mcmc.run(jax.random.key(key), *args)
    return mcmc


def moments(samples):
    """Mean and mean square of every number, and their standard errors, of samples (chain, draw, ...)."""
    columns = [np.asarray(leaf, float).reshape(*leaf.shape[:2], -1) for _, leaf in sorted(samples.items())]
    x = np.concatenate(columns, -1)
    x = np.concatenate([x, x**2], -1)
    return x.mean((0, 1)), array_stats.mcse(x, chain_axis=0, draw_axis=1, method="mean")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore")
def test_posteriors_are_those_of_numpyros_nuts(name):
    model, *args = MODELS[name]
    settings = {"num_chains": 4, "num_warmup": 1_000, "num_samples": 4_000}
    nuts = numpyro.infer.NUTS(model, target_accept_prob=0.95)
    kernels = gad.models.NumPyroKernel(model), nuts
    ours, theirs = (run(model, *args, key=2, kernel=kernel, **settings).get_samples(True) for kernel in kernels)
    assert {n: x.shape for n, x in ours.items()} == {n: x.shape for n, x in theirs.items()}
    (a, a_error), (b, b_error) = moments(ours), moments(theirs)
    np.testing.assert_array_less(np.abs(a - b), 4 * np.hypot(a_error, b_error))
    spread = np.sqrt(b[len(b) // 2 :] - b[: len(b) // 2] ** 2)
    assert np.all(a_error[: len(a) // 2] < 0.05 * spread)


ALONE = pytest.param(1, "sequential", marks=pytest.mark.long)  # one chain goes on from its last state below


@pytest.mark.parametrize(("chains", "method"), [ALONE, (2, "sequential"), (3, "vectorized")])
def test_chains_fields_and_deterministic_sites(chains, method):
    mcmc = MCMC(
        gad.models.NumPyroKernel(schools, num_draws=60), **SHORT | {"num_chains": chains, "chain_method": method}
    )
    mcmc.run(jax.random.key(1), ERRORS, y=EFFECTS, extra_fields=("potential_energy", "accept_prob", "z.tau"))
    draws, fields = mcmc.get_samples(group_by_chain=True), mcmc.get_extra_fields(group_by_chain=True)
    assert {name: x.shape for name, x in draws.items()} == {
        "mu": (chains, 40), "tau": (chains, 40), "eta": (chains, 40, 8), "theta": (chains, 40, 8)
    }  # fmt: skip
    assert len(np.unique(draws["mu"])) > 20 * chains  # but for rejections, no draw is handed out twice
    np.testing.assert_allclose(draws["theta"], draws["mu"][..., None] + draws["tau"][..., None] * draws["eta"])
    np.testing.assert_allclose(np.exp(fields["z.tau"]), draws["tau"])
    assert fields["diverging"].dtype == bool
    free = {"mu": draws["mu"], "tau": fields["z.tau"], "eta": draws["eta"]}
    energy = lambda z: numpyro.infer.util.potential_energy(schools, (ERRORS,), {"y": EFFECTS}, z)
    np.testing.assert_allclose(fields["potential_energy"], jax.vmap(jax.vmap(energy))(free), rtol=1e-9)


def test_the_draws_are_those_of_sample():
    kernel = gad.models.NumPyroKernel(bounded, num_draws=32)
    mcmc = run(bounded, EFFECTS, kernel=kernel, num_samples=32, num_chains=2)
    assert kernel.tree["posterior"].sizes == {"chain": 16, "draw": 4}
    ours = kernel.tree["posterior"]["high"].values.reshape(2, 32)
    np.testing.assert_allclose(mcmc.get_samples(group_by_chain=True)["high"], ours, rtol=1e-12)


def test_the_key_and_the_arguments_decide():
    one, same, other = (run(bounded, EFFECTS, key=key).get_samples()["low"] for key in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    mcmc = run(bounded, EFFECTS)
    for data in (EFFECTS, EFFECTS + 30):  # a run anew hands out nothing of the one before
        mcmc.run(jax.random.key(1), data)
        draws = mcmc.get_samples()
        assert abs((draws["low"] + draws["high"]).mean() - data.mean()) < 5
    np.testing.assert_array_equal(other, run(bounded, EFFECTS, key=1).get_samples()["low"])


@AWKWARD
@pytest.mark.parametrize("chains", [1, 2])
def test_a_run_goes_on_from_its_last_state(chains):
    key, kernel = jax.random.key(0), gad.models.NumPyroKernel(bounded, num_draws=80)
    whole = run(bounded, EFFECTS, kernel=kernel, num_samples=80, num_chains=chains).get_samples(True)["low"]
    mcmc = MCMC(kernel, **SHORT | {"num_chains": chains})
    mcmc.warmup(key, EFFECTS)
    for part in (slice(0, 40), slice(40, 80)):
        mcmc.run(key, EFFECTS)
        np.testing.assert_array_equal(mcmc.get_samples(True)["low"], whole[:, part])
        mcmc.post_warmup_state = mcmc.last_state
    with pytest.raises((ValueError, RuntimeError), match=r"more than the 80 draws .*num_draws"):
        mcmc.run(key, EFFECTS)


@AWKWARD
@pytest.mark.parametrize("compiled", [False, True], ids=["known", "compiled"])
@pytest.mark.parametrize("other", [EFFECTS + 1, EFFECTS[::-1], EFFECTS[:-1]], ids=["values", "order", "shape"])
def test_a_run_goes_on_with_the_arguments_that_draws_were_made_for_alone(other, compiled):
    kernel = gad.models.NumPyroKernel(bounded, num_draws=80)
    mcmc = MCMC(kernel, **SHORT | {"num_chains": 2}, jit_model_args=compiled)
    mcmc.run(jax.random.key(0), EFFECTS)
    mcmc.post_warmup_state = mcmc.last_state
    with pytest.raises((ValueError, RuntimeError), match=r"goes on with other arguments .*post_warmup_state to None"):
        mcmc.run(jax.random.key(0), other)


HALVES = np.array([0.25, 0.5], "float16")


def about_the_sum(one, other=None):
    numpyro.sample("x", law.Normal(sum(jnp.real(each).sum() for each in (one, other) if each is not None), 1))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ((HALVES,), (HALVES + np.float16(0.25),)),
        ((HALVES, None), (None, HALVES)),
        ((HALVES + 1j,), (HALVES + 2j,)),
        ((np.array([True, False]),), (np.array([1, 0]),)),
    ],
    ids=["fractions of short numbers", "places", "imaginary parts", "types"],
)
def test_arguments_differ_by_every_bit_their_types_and_their_places(first, then):
    mcmc = run(about_the_sum, *first, num_samples=10)
    mcmc.post_warmup_state = mcmc.last_state
    with pytest.raises((ValueError, RuntimeError), match="goes on with other arguments"):
        mcmc.run(jax.random.key(0), *then)
    mcmc.run(jax.random.key(0), *first)


@AWKWARD
def test_starts_thinning_and_arguments_that_are_compiled():
    starts = {"high": jnp.zeros(2), "low": jnp.full(2, 0.5)}
    mcmc = MCMC(gad.models.NumPyroKernel(bounded), **SHORT | {"thinning": 4, "num_chains": 2}, jit_model_args=True)
    for shift in (0, 3):
        mcmc.run(jax.random.key(0), EFFECTS / 9 + shift, init_params=starts)
        draws = mcmc.get_samples(True)
        assert draws["high"].shape == (2, 10)
        assert np.all(np.abs(draws["low"]) <= draws["high"])
    with pytest.raises(ValueError, match="init_params must be a dict of unconstrained values of the sites"):
        mcmc.run(jax.random.key(0), EFFECTS, init_params={"high": jnp.zeros(2)})


def test_float32_is_float32():
    with jax.enable_x64(False):
        draws = run(bounded, EFFECTS.astype("f")).get_samples()["low"]
    assert draws.dtype == "float32"
    assert np.isfinite(draws).all()


def test_what_cannot_be_done_is_refused(monkeypatch):
    with pytest.raises(TypeError, match=r"model must be a function with numpyro\.sample sites, got 3"):
        gad.models.NumPyroKernel(3)
    with pytest.raises(ValueError, match="num_draws must be"):
        gad.models.NumPyroKernel(bounded, num_draws=0)
    with pytest.raises(TypeError, match="chain_method: the default runs on the host"):
        run(bounded, EFFECTS, num_chains=2, chain_method=jax.vmap)
    with pytest.raises(AttributeError, match="NumpyroKernel"):
        gad.models.NumpyroKernel  # noqa: B018
    monkeypatch.setitem(__import__("sys").modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"NumPyroKernel needs numpyro.*pip install 'gadabout\[models\]'"):
        gad.models.NumPyroKernel  # noqa: B018
