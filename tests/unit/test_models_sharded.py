"""Rows shared out over four (host) devices: the gradients of one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout import targets
from gadabout.targets.log_sigmoid import log_sigmoid


@pytest.fixture(scope="module", autouse=True)
def four_devices():
    if len(jax.devices()) < 4:
        pytest.skip("needs four devices: tests/conftest.py asks for them before JAX starts")


prior = lambda w: -0.5 * w @ w
likelihood = lambda w, rows: log_sigmoid(rows @ w)


def test_gradients_on_caravan_are_those_of_one_device(data_home):
    """5,822 rows do not divide by four: two fill up, and count nothing (which the last comparison would see)."""
    problem = targets.load("caravan", data_home)
    rows = np.asarray(problem.data)
    model = gad.models.sharded(prior, likelihood, rows, jnp.zeros(rows.shape[1]), devices=4)
    shared, inside = model.data
    assert len({shard.device for shard in shared.addressable_shards}) == 4
    assert max(shard.data.shape[0] for shard in shared.addressable_shards) == 1456
    assert (len(inside), int(inside.sum())) == (5824, 5822)
    w = 0.1 * jax.random.normal(jax.random.key(0), (3, rows.shape[1]))
    both = jax.jit(jax.vmap(jax.value_and_grad(model.log_density), (0, None)))
    value, grad = both(w, model.data)
    wanted_value, wanted_grad = jax.vmap(jax.value_and_grad(problem.log_density), (0, None))(w, problem.data)
    np.testing.assert_allclose(value, wanted_value, rtol=1e-12)
    np.testing.assert_allclose(grad, wanted_grad, rtol=1e-9, atol=1e-9)
    value, _ = both(w, (shared, jnp.ones_like(inside)))
    assert not np.allclose(value, wanted_value, rtol=1e-9)


def test_a_run_on_shared_rows_is_the_run_on_one_device():
    rows = np.random.default_rng(0).normal(size=(61, 3))
    settings = {"sampler": gad.mala(), "num_chains": 2, "num_warmup": 50, "num_draws": 20, "progress": False}
    model = gad.models.sharded(prior, likelihood, rows, jnp.zeros(3), devices=4)
    shared = gad.sample(model, jnp.zeros(3), **settings)
    alone = gad.sample(lambda w, rows: prior(w) + likelihood(w, rows).sum(), jnp.zeros(3), data=rows, **settings)
    a, b = (tree["warmup_posterior"]["x"].values for tree in (shared, alone))
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("rows", "devices", "error", "said"),
    [
        ((np.zeros(3), np.zeros(4)), 2, ValueError, "same number of rows"),
        (np.float64(1), 2, ValueError, "same number of rows"),
        (np.zeros((0, 2)), 2, ValueError, "same number of rows"),
        (np.zeros(3), 1000, ValueError, "devices=1000, and JAX has"),
        (np.zeros(3), "all", TypeError, "devices must be"),
    ],
)
def test_what_cannot_be_shared_is_refused(rows, devices, error, said):
    with pytest.raises(error, match=said):
        gad.models.sharded(prior, likelihood, rows, jnp.zeros(3), devices=devices)


def test_a_likelihood_that_sums_is_refused():
    model = gad.models.sharded(
        prior, lambda w, rows: likelihood(w, rows).sum(), np.zeros((8, 3)), jnp.zeros(3), devices=4
    )
    with pytest.raises(TypeError, match="one number for each of the 2 rows"):
        model.log_density(jnp.zeros(3), model.data)
