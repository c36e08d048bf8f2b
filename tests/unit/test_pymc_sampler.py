"""The default by the draft of PyMC's `pm.sample(sampler=...)`: its arguments, and what they mean here."""

import inspect

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import gadabout as gad
from tests.refusals import refused

pm = pytest.importorskip("pymc")
Y = np.array([1.0, 0.0, 2.0])
RUN = {
    "model": None, "draws": 1000, "tune": 1000, "chains": None, "cores": None, "initvals": None, "random_seed": None,
    "progressbar": True, "quiet": False, "discard_tuned_samples": True, "keep_warning_stat": False, "var_names": None,
    "idata_kwargs": None, "compute_convergence_checks": True, "compile_kwargs": None,
}  # fmt: skip
"""the arguments of `sample_from_init`, and their defaults, in the draft: PyMC's pull request 8358 of July 2026"""


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        b = pm.Normal("b")
        pm.Deterministic("twice", 2 * b)
        pm.Normal("y", b, 1, observed=Y)
    return model


def test_the_arguments_are_those_of_the_draft():
    found = inspect.signature(gad.models.PyMCSampler().sample_from_init).parameters
    assert {name: each.default for name, each in found.items()} == RUN
    assert {each.kind for each in found.values()} == {inspect.Parameter.KEYWORD_ONLY}


def test_draws_are_of_the_posterior(model):
    """b | y ~ N(3/4, 1/4): mean and mean of squares within 4 standard errors, outside once in 8,000 seeds; fixed."""
    with model:
        tree = gad.models.PyMCSampler().sample_from_init(random_seed=1, progressbar=False, var_names=["b"])
    assert list(tree["posterior"].data_vars) == ["b"]
    assert not any(name.startswith("warmup_") for name in tree.children)
    b = tree["posterior"]["b"].values
    assert b.shape == (16, 1000)
    for values, exact in ((b, 0.75), (b**2, 0.25 + 0.75**2)):
        error = array_stats.mcse(values, chain_axis=0, draw_axis=1, method="mean")
        assert abs(values.mean() - exact) < 4 * error
        assert error < 0.02


def test_its_arguments_and_settings_go_on(model):
    own = gad.models.PyMCSampler(sampler=gad.rwm())
    arguments = {"draws": 20, "tune": 10, "chains": 2, "initvals": {"b": 0.5}, "progressbar": False}
    run = lambda **more: own.sample_from_init(model=model, **arguments, **more)
    trees = [run(random_seed=seed, discard_tuned_samples=False) for seed in (3, 3, [3, 4], np.random.default_rng(3))]
    assert trees[0]["posterior"]["b"].shape == (2, 20)
    assert trees[0]["warmup_posterior"]["b"].shape == (2, 10)
    draws = [tree["posterior"]["b"].values for tree in trees]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    assert trees[0].attrs["seed"] == 3


def test_what_it_cannot_honour_is_said(model):
    own = gad.models.PyMCSampler(sampler=gad.rwm())
    with pytest.warns(UserWarning, match="compile_kwargs=.* has no meaning for gadabout, and is ignored"):
        own.sample_from_init(model=model, draws=20, tune=0, progressbar=False, compile_kwargs={"mode": "JAX"})
    refused(lambda: own.sample_from_init(model=model, initvals=[{"b": 1.0}]), "initvals", "init_per_chain")
