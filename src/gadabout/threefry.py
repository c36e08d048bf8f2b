"""The random numbers of JAX's Threefry from one kernel: the same ones, in as much time or half, and sooner compiled."""

import math
from collections.abc import Hashable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl, threefry_prng_impl
from jaxtyping import Array, Key, Shaped, UInt32

THREEFRY = "threefry2x32"
ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
PARITY = np.uint32(0x1BD11BDA)


def quick(key: Shaped[Key[Array, ""], "..."]) -> Shaped[Key[Array, ""], "..."]:
    """A key or keys of the same numbers that take less, where they are of JAX's Threefry on a processor; else the same.

    There JAX compiles Threefry as a loop, ten kernels wherever noise is drawn; a fifth of what a run compiled was that.
    """
    if jax.default_backend() != "cpu" or not _counts(key):
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_quick())


def key_of(seed: int) -> Key[Array, ""]:
    """`jax.random.key` of a seed below 2³²; that of a Threefry is the seed, and nothing is compiled for it."""
    if jax.config.jax_default_prng_impl != THREEFRY:
        return jax.random.key(seed)
    return _wrapped(np.array([0, seed], np.uint32))


def split_and_fold(key: Key[Array, ""], count: int) -> tuple[Key[Array, ""], Key[Array, " count"]]:
    """The first of `jax.random.split(key)`, and of the second what `fold_in` makes of 0, 1, …

    Those of a Threefry come from NumPy: to compile that takes a hundred times as long.
    """
    if not _counts(key):
        first, second = jax.random.split(key)
        return first, jax.vmap(partial(jax.random.fold_in, second))(jnp.arange(count))
    data = np.asarray(jax.random.key_data(key))
    first, second = _of_counters(data, 2)
    return _wrapped(first), _wrapped(_of_counters(second, count))


def _counts(key: Shaped[Key[Array, ""], "..."]) -> bool:
    """Whether a key is of JAX's Threefry, each number of which is made of its own counter."""
    return jax.config.jax_threefry_partitionable and jax.random.key_impl(key) == THREEFRY


def _of_counters(key: UInt32[np.ndarray, "2"], count: int) -> UInt32[np.ndarray, "count 2"]:
    counters = np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32)
    return np.stack(_rounds(key[:, None], counters), -1)


def _wrapped(data: UInt32[np.ndarray, "*shape 2"]) -> Key[Array, "*shape"]:
    return jax.random.wrap_key_data(jax.device_put(data), impl=THREEFRY)


def _rounds(key: Any, x: tuple[Any, Any]) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror & Shaw 2011), of counters in two halves, of any shape."""
    keys = key[0], key[1], key[0] ^ key[1] ^ PARITY
    a, b = x[0] + keys[0], x[1] + keys[1]
    for i in range(5):
        for bits in ROTATIONS[i % 2]:
            a = a + b
            b = a ^ ((b << bits) | (b >> (32 - bits)))
        a, b = a + keys[(i + 1) % 3], b + keys[(i + 2) % 3] + np.uint32(i + 1)
    return a, b


threefry = jax.jit(_rounds)


def _split(key: UInt32[Array, "2"], shape: tuple[int, ...]) -> UInt32[Array, "... 2"]:
    return _whole(jnp.stack(threefry(key, _counters(shape)), -1))


def _fold_in(key: UInt32[Array, "2"], data: UInt32[Array, ""]) -> UInt32[Array, "2"]:
    return _whole(jnp.stack(threefry(key, (jnp.uint32(0), jnp.asarray(data, jnp.uint32)))))


def _random_bits(key: UInt32[Array, "2"], width: int, shape: tuple[int, ...]) -> Array:
    a, b = threefry(key, _counters(shape))
    if width == 64:
        return _whole((a.astype(jnp.uint64) << 32) | b.astype(jnp.uint64))
    return _whole((a ^ b).astype(f"uint{width}"))


def _counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """As many counters as there are elements, in two halves."""
    size = math.prod(shape)
    low = jax.lax.iota(jnp.uint32, size).reshape(shape)
    return jnp.zeros_like(low), low


def _whole(bits: Array) -> Array:
    """Worked out once, and not in each kernel that sees it."""
    return jax.lax.optimization_barrier(bits)


@cache
def _quick() -> Hashable:
    plain = threefry_prng_impl
    told = {"seed": plain.seed, "split": _split, "random_bits": _random_bits, "fold_in": _fold_in}
    return define_prng_impl(key_shape=(2,), name="threefry2x32-quick", tag="quick", **told)
