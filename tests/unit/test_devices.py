"""Chains over several (host) devices, through the front door: the same bits in equal blocks, else to rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.schedule import Draw, Learn, Search

KEPT = {"num_chains": 8, "num_draws": 100, "seed": 3, "progress": False}
ALONE = {"sampler": gad.gad_mala(), "adapt": "per-chain", "num_warmup": 200, "chain_block": 2}
ROWS = np.random.default_rng(0).normal(size=(60, 4))


@pytest.fixture(scope="module", autouse=True)
def four_devices():
    if len(jax.devices()) < 4:
        pytest.skip("needs four devices: tests/conftest.py asks for them before JAX starts")


def regression(x, rows):
    return -jnp.sum(jnp.logaddexp(0, rows @ x)) - 0.5 * x @ x


def draws(devices, group="posterior", **more):
    tree = gad.sample(regression, jnp.zeros(4), data=ROWS, devices=devices, **(KEPT | more))
    return tree[group]["x"].values


@pytest.fixture(scope="module")
def alone():
    return draws(None, **ALONE)


@pytest.mark.parametrize("devices", [pytest.param(2, marks=pytest.mark.long), 4])
def test_chains_that_learn_alone_have_the_same_bits_over_any_number_of_devices(alone, devices):
    np.testing.assert_array_equal(draws(devices, **ALONE), alone)


def skewed(x):
    return x[2] - 0.5 * x[0] ** 2 - 0.5 * (x[1] - x[0] ** 2) ** 2 - 2 * jnp.logaddexp(0, x[2])


def test_covariances_that_chains_learn_alone_have_the_same_bits():
    """A compiler may fuse the update of a covariance with its evidence, and then rounds it otherwise."""
    settings = ALONE | KEPT | {"sampler": gad.haario(), "num_chains": 16, "chain_block": 4}
    one, four = (gad.sample(skewed, jnp.zeros(3), devices=devices, **settings) for devices in (None, 4))
    np.testing.assert_array_equal(four["posterior"]["x"].values, one["posterior"]["x"].values)


@pytest.mark.long
def test_other_blocks_round_otherwise(alone):
    """The planted difference: what the test before compares is not equal by itself.

    Which blocks round alike depends on how long the processor's vectors are.
    """
    others = [draws(None, **(ALONE | {"chain_block": block})) for block in (1, 4, 8)]
    assert not all(np.array_equal(other, alone) for other in others)


def test_chains_that_learn_together_have_the_same_bits_in_equal_blocks():
    """Sums are those of blocks, in their order; what is worked out afresh where θ has moved goes by blocks too.

    A block that is alone on its device is rounded as one of four.
    """
    settings = {"sampler": gad.default(), "num_warmup": 100, "chain_block": 2}
    one, four = (draws(devices, **settings) for devices in (None, 4))
    np.testing.assert_array_equal(four, one)


@pytest.mark.parametrize(
    "sampler", [gad.gad_mala(), pytest.param(gad.default(), marks=pytest.mark.long)], ids=["gad-mala", "default"]
)
def test_chains_that_learn_together_agree_to_rounding(sampler):
    one, four = (draws(devices, "warmup_posterior", sampler=sampler, num_warmup=100) for devices in (None, 4))
    np.testing.assert_allclose(four[:, :50], one[:, :50], rtol=1e-10, atol=1e-10)


def test_a_stored_run_goes_on_over_other_devices(alone, tmp_path):
    path = tmp_path / "run.zarr"
    pressed = []

    def stop(progress):
        if progress.stage == "sampling" and not pressed:
            pressed.append(progress)
            raise RuntimeError("stop")

    with pytest.raises(gad.RunStopped):
        gad.sample(regression, jnp.zeros(4), data=ROWS, devices=4, out=path, callback=stop, **(KEPT | ALONE))
    tree = gad.resume(path, regression, data=ROWS, devices=2, progress=False)
    np.testing.assert_array_equal(tree["posterior"]["x"].values, alone)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"devices": 3}, ValueError, "devices=3 must divide num_chains=8; use 9 chains"),
        ({"devices": 1000}, ValueError, "devices=1000, and JAX has"),
        ({"devices": 0}, ValueError, "devices"),
        ({"devices": ["cpu:0"]}, TypeError, "devices"),
        ({"devices": 2, "chain_block": 3}, ValueError, "chain_block=3 must divide the 4 chains of each device"),
        ({"chain_block": 0}, ValueError, "chain_block"),
    ],
)
def test_what_cannot_be_laid_out_is_refused(settings, error, said):
    with pytest.raises(error, match=said):
        draws(**({"devices": None} | settings))


def test_a_plan_of_two_samplers_runs_over_devices():
    walk, mala = gad.rwm(step_size=0.1), gad.mala(step_size=0.1)
    plan = gad.Plan((Search(), Learn(walk, 0.5), Learn(mala, 0.5), Draw(mala)), "both")
    assert draws(4, sampler=plan, num_warmup=60).shape == (8, 100, 4)
