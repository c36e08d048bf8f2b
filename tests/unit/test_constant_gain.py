"""Algorithm 1 that goes on while draws are kept: reported where its steps have hardly fallen by then."""

import warnings

import jax.numpy as jnp
import pytest

import gadabout as gad


def kinds(sampler, num_warmup):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = gad.sample(
            lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), sampler=sampler, num_warmup=num_warmup, num_draws=100,
            progress=False,
        )  # fmt: skip
    return {record["kind"]: record for record in tree.attrs["findings"]}


@pytest.mark.parametrize("recipe", [gad.gad_mala, gad.gad_rwm])
def test_steps_that_have_not_fallen_are_reported(recipe):
    record = kinds(recipe(learning_rate=0.05, adapt_for_ever=True), 200)["constant-gain"]
    assert record["figure"] > record["limit"]
    assert "constant gain" in record["problem"]
    assert "num_warmup" in record["remedy"]


def test_small_steps_and_steps_that_stop_are_not():
    assert "constant-gain" not in kinds(gad.gad_mala(adapt_for_ever=True), 200)
    assert "constant-gain" not in kinds(gad.gad_mala(learning_rate=0.05), 200)
    falling = gad.adaptations.PowerGain(1.0, 0.8)
    assert "constant-gain" not in kinds(gad.gad_mala(learning_rate=0.05, gain=falling, adapt_for_ever=True), 200)
