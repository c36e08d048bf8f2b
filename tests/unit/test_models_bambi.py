"""Bambi models: results that Bambi predicts from, with the intercept as Bambi has it."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad
from tests.conftest import by_name

bambi = pytest.importorskip("bambi", reason="pip install 'gadabout[bambi]'")
pandas = pytest.importorskip("pandas")

pytestmark = pytest.mark.filterwarnings("ignore")  # Bambi's and pandas's own
SHORT = {"num_warmup": 60, "num_draws": 20, "progress": False}
RNG = np.random.default_rng(0)
DATA = pandas.DataFrame(
    {"x": 5 + RNG.standard_normal(60), "g": RNG.choice(list("abc"), 60), "s": RNG.choice(list("pqrs"), 60)}
)
DATA["y"] = 1 + 2 * DATA["x"] + (DATA["g"] == "b") + RNG.standard_normal(60)
DATA["n"] = RNG.poisson(np.exp(0.2 * DATA["x"]))
DATA["kind"] = RNG.choice(list("uvw"), 60)
MODELS = {
    "normal": (("y ~ x + g",), {}),
    "groups": (("y ~ x + (1|s)",), {}),
    "counts": (("n ~ x * g",), {"family": "poisson"}),
    "kinds": (("kind ~ x + g",), {"family": "categorical"}),
    "scales": ((bambi.Formula("y ~ x", "sigma ~ g"),), {}),
}


def built(name):
    (formula,), settings = MODELS[name]
    return bambi.Model(formula, DATA, **settings)


@by_name(MODELS, MODELS.keys() - {"normal"})  # its family is that of "groups", its terms those of "counts"
def test_bambi_predicts_from_a_result(name):
    """What Bambi computes from coefficients and the intercept is what the PyMC model computes from its own."""
    model = built(name)
    tree = gad.sample(gad.models.bambi(model), **SHORT)
    parameters = [name for name, values in tree["posterior"].data_vars.items() if "__obs__" in values.dims]
    own = {name: tree["posterior"][name].copy() for name in parameters}
    assert own
    model.predict(tree)
    for name, values in own.items():
        np.testing.assert_allclose(tree["posterior"][name].transpose(*values.dims), values, rtol=1e-6)
    assert model.predict(tree, data=DATA.iloc[:5], inplace=False)["posterior"].sizes["__obs__"] == 5
    model.predict(tree, kind="response")
    assert tree["posterior_predictive"].sizes["__obs__"] == 60


def test_a_start_by_variable_and_an_earlier_result():
    model = gad.models.bambi(built("normal"))
    start = {"sigma": 1.0, "Intercept": 3.0, "x": 2.0, "g": np.array([0.5, -0.5])}
    start = {name: np.stack([value] * 2) for name, value in start.items()}
    settings = SHORT | {"sampler": gad.rwm(step_size=1e-9), "num_warmup": 0, "num_chains": 2}
    tree = gad.sample(model, init_per_chain=start, **settings)
    np.testing.assert_allclose(tree["posterior"]["Intercept"].values[:, 0], 3.0, atol=1e-5)
    later = gad.sample(model, warm_start=tree, **settings)
    np.testing.assert_allclose(later["posterior"]["Intercept"].values[:, 0], 3.0, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", ["normal", "counts"])
@pytest.mark.filterwarnings("ignore")
def test_posteriors_are_bambis(name):
    """Means of 5 and 7 numbers within 4 standard errors of `fit`: outside once in 1,300 seeds; fixed."""
    model = built(name)
    tree = gad.sample(gad.models.bambi(model), progress=False)
    theirs = model.fit(draws=2_000, tune=1_000, chains=4, cores=1, progressbar=False, random_seed=1)
    for variable in theirs["posterior"].data_vars:
        pair = [
            each["posterior"][variable].values.reshape(*each["posterior"][variable].shape[:2], -1)
            for each in (tree, theirs)
        ]
        errors = [array_stats.mcse(x, chain_axis=0, draw_axis=1, method="mean") for x in pair]
        one, two = (x.mean((0, 1)) for x in pair)
        np.testing.assert_array_less(np.abs(one - two), 4 * np.hypot(*errors))


def test_what_is_no_bambi_model_is_refused(monkeypatch):
    with pytest.raises(TypeError, match=r"model must be a bambi\.Model, got 3"):
        gad.models.bambi(3)
    model = gad.models.bambi(built("normal"))
    with pytest.raises(TypeError, match=r"use model\.predict\(tree, kind=\"response\"\)"):
        gad.posterior_predictive(gad.sample(model, **SHORT), model)
    monkeypatch.setitem(__import__("sys").modules, "bambi", None)
    with pytest.raises(ImportError, match=r"needs bambi, which is not installed: pip install 'gadabout\[bambi\]'"):
        gad.models.bambi(model)
