"""`form="paper"` is Algorithm 1 as the paper ran it: the same draws, to the bit, as its parts set by hand."""

import dataclasses
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import RMSprop, SpeedMeasure
from gadabout.proposals import RandomWalk
from tests.conftest import by_name

SCALES = jnp.asarray([0.3, 1.0, 40.0])
RECIPES = {
    "gadMALAf": (lambda **settings: gad.gad_mala(**settings), 1.5e-4, 0.55),
    "gadMALAe": (lambda **settings: gad.gad_mala("exact", **settings), 1.5e-4, 0.55),
    "gadRWM": (lambda **settings: gad.gad_rwm(**settings), 5e-5, 0.25),
    "gad": (lambda **settings: gad.gad(RandomWalk(gad.factors.Cholesky(jnp.eye(3))), **settings), 1.5e-4, 0.25),
}


def draws(sampler):
    logdensity = lambda x: -0.5 * jnp.sum((x / SCALES) ** 2)
    tree = gad.sample(
        logdensity, jnp.ones(3), sampler=sampler, seed=3, num_chains=2, num_warmup=400, num_draws=50, progress=False
    )
    return np.asarray(tree["posterior"]["x"])


@by_name(RECIPES, RECIPES.keys() - {"gadMALAe"})  # gadMALAf is of the same recipe
def test_the_papers_form_has_the_draws_of_its_parts_set_by_hand(name):
    recipe, eta, rate = RECIPES[name]
    number = lambda value: jnp.asarray(value, dtype=float)
    by_hand = SpeedMeasure(
        RMSprop(number(eta), guarded=False),
        number(rate),
        number(0.02),
        diagonal_floor=number(1e-3),
        beta_cap=None,
        relative=False,
        gain=None,
        gradient_clip=None,
        patience=None,
    )
    paper = recipe(form="paper")
    expected = draws(dataclasses.replace(paper, adaptation=by_hand))
    np.testing.assert_array_equal(draws(paper), expected)
    assert not np.array_equal(draws(recipe()), expected), "the hardened form has other draws"


def test_a_form_that_does_not_exist_is_refused_with_the_two_that_do():
    with pytest.raises(ValueError, match=r"form must be .*hardened.*paper.*'original'"):
        gad.gad_mala(form=cast(Any, "original"))
