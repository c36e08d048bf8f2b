"""Noise from one kernel is JAX's noise."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout import threefry
from gadabout.threefry import key_of, quick, split_and_fold

DRAWN = {
    "uniform": lambda key: jax.random.uniform(key, (5, 3)),
    "normal": lambda key: jax.random.normal(jax.random.fold_in(key, 7), (3,), jnp.float32),
    "bytes": lambda key: jax.random.bits(key, (7,), "uint8"),
    "half": lambda key: jax.random.uniform(key, (4,), jnp.bfloat16),
    "nothing": lambda key: jax.random.uniform(key, (0, 2)),
    "one": jax.random.exponential,
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**32 - 1)),
    "permutation": lambda key: jax.random.permutation(key, 10),
    "gamma": lambda key: jax.random.gamma(key, 2.0, (4,)),
}


@pytest.mark.parametrize("drawn", DRAWN.values(), ids=DRAWN)
@pytest.mark.parametrize("double", [False, True])
def test_numbers_are_those_of_jax(drawn, double):
    with jax.enable_x64(double):
        key, keys = jax.random.key(3), jax.random.split(jax.random.key(4), 5)
        for one, own in (
            (drawn(key), drawn(quick(key))),
            (jax.vmap(drawn)(keys), jax.jit(jax.vmap(drawn))(quick(keys))),
        ):
            assert own.dtype == one.dtype
            np.testing.assert_array_equal(own, one)


def test_another_number_of_rounds_is_another_generator(monkeypatch):
    """The planted bug that the test above finds."""
    monkeypatch.setattr(threefry, "ROTATIONS", ((13, 15, 26, 6), (17, 29, 16, 25)))
    jax.clear_caches()
    try:
        key = jax.random.key(3)
        assert (jax.random.bits(quick(key), (8,)) != jax.random.bits(key, (8,))).any()
    finally:
        jax.clear_caches()


def test_noise_is_one_kernel():
    def kernels(key):
        compiled = jax.jit(lambda key: jax.random.bits(key, (100,))).lower(key).compile()
        return len(re.findall(r" fusion\(", compiled.as_text()))

    if jax.default_backend() == "cpu":
        assert kernels(quick(jax.random.key(0))) == 1
        assert kernels(jax.random.key(0)) > 1


def test_keys_of_another_kind_stay_as_they_are():
    for impl in ("rbg", "unsafe_rbg"):
        key = jax.random.key(0, impl=impl)
        assert quick(key) is key
    key = jax.random.key(0)
    with jax.threefry_partitionable(False):
        assert quick(key) is key
    assert quick(quick(key)) is not key
    assert jax.random.key_impl(quick(quick(key))) == jax.random.key_impl(quick(key))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1])
def test_keys_by_numpy_are_those_of_jax(seed, double):
    with jax.enable_x64(double):
        data = jax.random.key_data
        key = key_of(seed)
        np.testing.assert_array_equal(data(key), data(jax.random.key(seed)))
        assert key.dtype == jax.random.key(seed).dtype
        first, second = jax.random.split(key)
        own, others = split_and_fold(key, 5)
        np.testing.assert_array_equal(data(own), data(first))
        np.testing.assert_array_equal(
            data(others), data(jax.vmap(lambda i: jax.random.fold_in(second, i))(np.arange(5)))
        )


def test_keys_of_another_generator_are_those_of_jax():
    key = jax.random.key(3, impl="rbg")
    first, second = jax.random.split(key)
    own, others = split_and_fold(key, 2)
    assert (jax.random.key_data(own) == jax.random.key_data(first)).all()
    assert (jax.random.key_data(others[1]) == jax.random.key_data(jax.random.fold_in(second, 1))).all()
    with jax.default_prng_impl("rbg"):
        assert jax.random.key_impl(key_of(3)) == "rbg"
    with jax.threefry_partitionable(False):
        key = key_of(3)
        assert (jax.random.key_data(split_and_fold(key, 1)[0]) == jax.random.key_data(jax.random.split(key)[0])).all()
