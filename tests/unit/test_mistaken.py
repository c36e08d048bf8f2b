"""What people of other libraries pass to `sample` and to the command line: one line, with what to write instead."""

import functools
import json
import sys
import types
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import gadabout as gad
from gadabout.api.mistaken import draws_by_numpyro
from gadabout.cli.app import app
from gadabout.cli.terminal import OPTIONS, told
from tests.refusals import refused

numpyro = pytest.importorskip("numpyro")
sample_site, dist = numpyro.sample, numpyro.distributions


def normal(x):
    return -0.5 * jnp.sum(x**2)


def with_data(x, data):
    return -0.5 * jnp.sum((x - data["y"]) ** 2)


def numpyro_model(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(mean, 1), obs=y)


def by_name():
    return sample_site("mean", dist.Normal(0, 1))


def imported_within():
    import numpyro

    numpyro.sample("mean", numpyro.distributions.Normal(0, 1))


def density_by_numpyro(x):
    return dist.Normal(0, 1).log_prob(x).sum()


@pytest.mark.parametrize("model", [numpyro_model, by_name, imported_within, functools.partial(numpyro_model, y=1.0)])
def test_a_numpyro_function_is_sent_to_its_function(model):
    refused(lambda: gad.sample(model), "gadabout.models.numpyro", kinds=(TypeError,))
    refused(lambda: gad.sample(model, jnp.zeros(1)), "gadabout.models.numpyro", kinds=(TypeError,))


def test_a_density_that_uses_numpyros_distributions_is_none():
    assert not draws_by_numpyro(density_by_numpyro)
    assert not draws_by_numpyro(normal)
    assert not draws_by_numpyro(np.exp)


@pytest.mark.parametrize(("package", "name"), [("pymc.model.core", "pymc"), ("cmdstanpy.model", "stan")])
def test_models_of_other_libraries_are_sent_to_theirs(package, name):
    kind = types.new_class("Model", exec_body=lambda body: body.update(__module__=package))
    refused(lambda: gad.sample(kind()), f"gadabout.models.{name}", kinds=(TypeError,))
    refused(lambda: gad.sample(type("Mine", (kind,), {})()), f"gadabout.models.{name}", kinds=(TypeError,))


def test_a_class_is_none():
    refused(lambda: gad.sample(type("Target", (), {}), jnp.zeros(2)), "the class Target", kinds=(TypeError,))


def test_no_start_says_what_to_pass():
    message = refused(lambda: gad.sample(normal), "init: model has no start of its own", "jnp.zeros(3)")
    assert "init failed" not in message


@pytest.mark.parametrize("position", [jnp.ones(2), {"a": 1.0, "b": np.zeros(2)}])
def test_a_model_with_a_position_starts_around_it(position):
    density = lambda p: -0.5 * sum(jnp.sum(jnp.asarray(v) ** 2) for v in (p.values() if isinstance(p, dict) else [p]))
    short = {"progress": False, "num_draws": 100, "sampler": gad.rwm(), "num_warmup": 100}
    with pytest.warns(gad.DiagnosticWarning):
        own = gad.sample(gad.Model(density, position), **short)
    with pytest.warns(gad.DiagnosticWarning):
        given = gad.sample(density, position, **short)
    for name in given["posterior"]:
        np.testing.assert_array_equal(own["posterior"][name], given["posterior"][name])


def test_but_not_around_shapes_alone():
    import jax

    model = gad.Model(normal, jax.ShapeDtypeStruct((2,), float))
    refused(lambda: gad.sample(model), "no start of its own", kinds=(TypeError,))


def test_missing_and_extra_data():
    refused(lambda: gad.sample(with_data, jnp.zeros(3)), "data=", "(x, data)", kinds=(TypeError,))
    refused(
        lambda: gad.sample(normal, jnp.zeros(3), data={"y": jnp.ones(3)}), "data", "takes no data", kinds=(TypeError,)
    )


def test_positions_and_data_of_the_wrong_kind():
    refused(lambda: gad.sample(normal, [0.0, 0.0]), "jnp.array([0.0, 0.0])", kinds=(TypeError,))
    named = lambda position: normal(position["a"])
    refused(lambda: gad.sample(named, {"a": [0.0, 0.0]}), "init['a']", "jnp.array([0.0, 0.0])", kinds=(TypeError,))
    refused(lambda: gad.sample(normal, init_per_chain=jnp.zeros((3, 2))), "num_chains=3", kinds=(ValueError,))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"y": [1.0, 2.0, 3.0]})
    refused(lambda: gad.sample(with_data, jnp.zeros(3), data=frame), "data={name: frame[name]", kinds=(TypeError,))


@pytest.mark.parametrize(
    ("name", "word"),
    [("draws", "num_draws="), ("chains", "num_chains="), ("tune", "num_warmup="), ("random_seed", "seed="),
     ("transforms", "gadabout.Model"), ("nonsense", "num_draws")],
)  # fmt: skip
def test_arguments_by_other_names(name, word):
    refused(lambda: gad.sample(normal, jnp.zeros(2), **{name: 1}), repr(name), word, kinds=(TypeError,))


def test_observations_that_are_nan_or_impossible_are_looked_for():
    y = jnp.array([1.0, jnp.nan, 2.0])
    refused(
        lambda: gad.sample(gad.models.numpyro(numpyro_model, y)), "'y'", "1 values that are NaN", kinds=(ValueError,)
    )

    def counts(y):
        rate = numpyro.sample("rate", dist.Exponential(1.0))
        numpyro.sample("y", dist.Poisson(rate), obs=y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPyro's own
        model = gad.models.numpyro(counts, jnp.array([1.0, -2.0]))
        refused(lambda: gad.sample(model), "'y'", "impossible", kinds=(ValueError,))


def test_places_where_no_store_can_be():
    refused(lambda: gad.sample(normal, jnp.zeros(2), out="a\0b.zarr"), "out", "NUL", kinds=(ValueError,))
    if sys.platform == "linux":
        refused(lambda: gad.sample(normal, jnp.zeros(2), out="/proc/run.zarr"), "out", "/proc", kinds=(OSError,))


FILE = """
import jax.numpy as jnp

class Density:
    pass

def with_data(x, data):
    return -0.5 * jnp.sum(x**2)

def normal(x):
    return -0.5 * jnp.sum(x**2)
"""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sample", "file.py:Density", "--dim", "2"], ["is a class"]),
        (["sample", "file.py:with_data", "--dim", "2"], ["(x, data)", "--data"]),
        (["sample", "file.py:normal", "--dim", "2", "--data", "flat.json"], ["takes no data", "--data"]),
        (
            ["sample", "file.py:with_data", "--dim", "2", "--data", "nested.json"],
            ["'a'", "an object within the object"],
        ),
        (["report", "."], ["is a folder"]),
    ],
)
def test_the_command_line(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file.py").write_text(FILE)
    (tmp_path / "nested.json").write_text(json.dumps({"a": {"b": [1, 2]}}))
    (tmp_path / "flat.json").write_text(json.dumps({"a": [1, 2]}))
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    assert len(errors) == 1
    for word in words:
        assert word in errors[0]


def test_warnings_on_the_command_line_advise_its_options():
    texts = [
        "use more num_warmup, or default(move='nuts')",
        "use other starts, with `init` or `init_per_chain`, and see",
        "use float64, jax.config.update('jax_enable_x64', True), or leave large constants out",
        "use num_draws=4000",
    ]
    tree = types.SimpleNamespace(attrs={"warnings": texts})
    assert told(tree, []) == [
        "use more --warmup, or --sampler default:move=nuts",
        "use other starts, with --init, and see",
        "leave --float32 out, or leave large constants out",
        "use --draws 4000",
    ]
    assert len(OPTIONS) >= len(texts)
