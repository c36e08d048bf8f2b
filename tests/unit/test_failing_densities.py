"""A log density that fails on the host in the middle of a run: one line, and the draws made until then are kept."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad

MOST = 3_000


class Failing:
    """log π and gradient of rows, until so many rows were evaluated."""

    def __init__(self, most, error=None):
        self.left, self.error = most, error or ZeroDivisionError("no more")

    def value(self, x):
        self.left -= x.size // 2
        if self.left < 0:
            raise self.error
        return -0.5 * np.sum(np.asarray(x) ** 2, -1)

    def both(self, x):
        return self.value(x), -np.asarray(x)


def by_callback(failing):
    like = jax.ShapeDtypeStruct((), jnp.result_type(float))

    @jax.custom_jvp
    def density(x):
        return jax.pure_callback(lambda x: np.asarray(failing.value(x), x.dtype), like, x, vmap_method="expand_dims")

    @density.defjvp
    def _(primals, tangents):
        return density(primals[0]), -primals[0] @ tangents[0]

    return density


def ended(model, init=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(gad.RunStopped) as caught:
            gad.sample(model, init, progress=False, num_draws=100_000, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert "logdensity failed: " in message
    assert "no more" in message
    return caught.value.result


@pytest.mark.parametrize(
    "sampler",
    [None, gad.hmc(), pytest.param(gad.nuts(), marks=pytest.mark.long)],  # NUTS is compiled as HMC is
    ids=["default", "hmc", "nuts"],
)
@pytest.mark.parametrize("kind", ["callback", "python"])
def test_draws_made_until_then_are_kept(kind, sampler, tmp_path):
    failing = Failing(60_000)
    model = (
        by_callback(failing) if kind == "callback" else gad.models.python(failing.both, jnp.zeros(2), vectorized=True)
    )
    tree = ended(model, jnp.zeros(2), sampler=sampler, num_warmup=100, num_chains=4, out=tmp_path / "run.zarr")
    assert tree.attrs["ending"] == "failed"
    assert "failed" in {record["kind"] for record in tree.attrs["findings"]}
    assert np.isfinite(tree["posterior"]["x"].values).all()
    assert tree["posterior"].sizes["draw"] + tree["warmup_posterior"].sizes["draw"] > 0


def test_the_place_in_the_users_file_is_told():
    failing = Failing(60_000)
    model = gad.models.python(failing.both, jnp.zeros(2), vectorized=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(gad.RunStopped, match=r"ZeroDivisionError: no more \(test_failing_"):
            gad.sample(model, progress=False, num_draws=100_000, num_chains=4)


@pytest.mark.parametrize("kind", ["callback", "python"])
def test_before_the_first_iteration_it_is_one_error(kind):
    failing = Failing(2)
    model = (
        by_callback(failing) if kind == "callback" else gad.models.python(failing.both, jnp.zeros(2), vectorized=True)
    )
    with pytest.raises(ValueError, match=r"^logdensity failed: ZeroDivisionError: no more.*−∞ where") as caught:
        gad.sample(model, jnp.zeros(2), progress=False)
    assert "\n" not in str(caught.value)
