"""What a log density returns where no sampler can go: gradients that are NaN, and −∞ beyond a border."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.density import RowsDensity
from tests.conftest import by_name


def sampled(log_density, init, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gad.sample(log_density, init, progress=False, num_draws=200, **settings)


def found(tree, kind):
    records = [record for record in tree.attrs["findings"] if record["kind"] == kind]
    return records[0] if records else None


def safe_root(x):
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)


TRAPS = {
    "root": lambda p: -0.5 * p["a"] ** 2 - 0.5 * p["b"] @ p["b"] + jnp.where(p["a"] > 0, jnp.sqrt(p["a"]), 0.0),
    "power": lambda p: -0.5 * p["a"] ** 2 - 0.5 * p["b"] @ p["b"] - jnp.where(p["a"] > 0, p["a"] ** 1.5, 0.0),
    "arcsine": lambda p: -0.5 * p["a"] ** 2 - 0.5 * p["b"] @ p["b"] + jnp.where(p["a"] < 1, jnp.arcsin(p["a"]), 1.57),
}


@by_name(TRAPS, {"arcsine"})  # with "root" starts are dropped below, and with "power" recipes run
def test_a_gradient_that_is_nan_where_the_value_is_finite_is_named(name):
    tree = sampled(TRAPS[name], {"b": jnp.zeros(2), "a": 0.5})
    record = found(tree, "gradient")
    assert record["variables"] == ["a"]
    assert record["figure"] > 0
    assert "jnp.where" in record["remedy"]
    assert found(tree, "diverging") is None
    assert found(tree, "nonfinite") is None


def test_starts_that_were_dropped_for_it_are_counted():
    tree = sampled(TRAPS["root"], {"b": jnp.zeros(2), "a": 0.0})
    assert tree.attrs["choice"]["undefined_starts"] >= 3  # of 16, each with probability 1/2, and again
    assert "starts were drawn anew" in found(tree, "gradient")["problem"]


def test_a_branch_that_is_safe_is_not_reported():
    tree = sampled(lambda p: -0.5 * p["a"] ** 2 + safe_root(p["a"]), {"a": 0.5})
    assert found(tree, "gradient") is None


def test_positions_that_are_given_are_refused_by_what_is_wrong_with_them():
    """The value is finite there: it is not the support that is to blame."""
    with pytest.raises(ValueError, match=r"gradient of logdensity is NaN.*'a'.*jnp\.where"):
        gad.sample(TRAPS["root"], init_per_chain={"a": -jnp.ones(4), "b": jnp.zeros((4, 2))}, num_chains=4)
    with pytest.raises(ValueError, match=r"inside the support"):
        gad.sample(lambda x: jnp.where(x > 0, -x, -jnp.inf).sum(), init_per_chain=-jnp.ones((4, 1)), num_chains=4)


def uniform_on_square(x):
    return jnp.where((x > 0).all() & (x < 1).all(), 0.0, -jnp.inf)


def half_normal(p):
    return jnp.where(p["sigma"] > 0, -0.5 * p["sigma"] ** 2, -jnp.inf) - 0.5 * p["mu"] ** 2


def on_a_disc(x):
    return jnp.where(x @ x < 4, -0.5 * x @ x, -jnp.inf)


BORDERS = {
    "square": (uniform_on_square, lambda key: jax.random.uniform(key, (2,)), {"x[0]", "x[1]"}),
    "half-normal": (half_normal, lambda key: {"mu": 0.0, "sigma": jax.random.uniform(key)}, {"sigma"}),
    "disc": (on_a_disc, lambda key: 0.5 * jax.random.normal(key, (2,)), {"x[0]", "x[1]"}),
}


@by_name(BORDERS, {"half-normal", "disc"})  # the square's two variables are named as the disc's are
def test_a_border_is_named_with_its_variables_and_the_remedy(name):
    log_density, start, variables = BORDERS[name]
    tree = sampled(log_density, start)
    record = found(tree, "border")
    assert set(record["variables"]) == variables
    assert record["figure"] > record["limit"]
    assert "transforms=" in record["remedy"]
    assert found(tree, "nonfinite") is None
    assert found(tree, "diverging") is None  # those that met the border are not counted again


def test_by_the_remedy_there_is_nothing_to_report():
    model = gad.Model(lambda p: -0.5 * p["sigma"] ** 2, {"sigma": 1.0}, transforms={"sigma": "positive"})
    assert sampled(model, None).attrs["findings"] == []


def test_rows_are_counted_by_what_is_wrong_with_them_and_a_checkpoint_holds_the_counts():
    values = np.array([0.0, -np.inf, np.nan, np.inf, 1.0])
    grads = np.array([[0.0, np.nan], [np.nan, np.nan], [0.0, 0.0], [0.0, 0.0], [np.inf, 0.0]])
    density = RowsDensity(lambda x: (values, grads), 2)
    density.value_and_grad(np.zeros((5, 2)))
    density.value(np.zeros((5, 2)))
    assert (density.outside, density.invalid, density.undefined) == (2, 4, 1)
    np.testing.assert_array_equal(density.undefined_in, [0, 1])
    again = RowsDensity(lambda x: (values, grads), 2)
    again.counts = density.counts
    np.testing.assert_array_equal(again.counts, [5, 5, 2, 4, 1, 0, 1])


RECIPES = {"nuts": gad.nuts, "gad-mala": gad.gad_mala, "mala": lambda: gad.mala(step_size=0.5)}


@by_name(RECIPES, {"nuts", "gad-mala"})  # the kernel of "mala" is that of "gad-mala"
def test_recipes_name_a_gradient_that_is_nan(name):
    tree = sampled(TRAPS["power"], {"b": jnp.zeros(2), "a": 0.5}, sampler=RECIPES[name](), num_warmup=200)
    assert found(tree, "gradient")["variables"] == ["a"]
    assert found(tree, "nonfinite") is None


@by_name(RECIPES, {"nuts", "gad-mala"})  # the kernel of "mala" is that of "gad-mala"
def test_recipes_name_a_border_and_its_variables(name):
    log_density, start, variables = BORDERS["half-normal"]
    tree = sampled(log_density, start, sampler=RECIPES[name](), num_warmup=200)
    assert set(found(tree, "border")["variables"]) == variables
    assert found(tree, "nonfinite") is None


def test_a_recipe_that_meets_neither_says_nothing_of_them():
    tree = sampled(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), sampler=gad.mala(step_size=0.5), num_warmup=200)
    assert found(tree, "gradient") is found(tree, "border") is None
