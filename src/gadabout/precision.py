"""Matrix products in the precision of their factors."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def whole_products() -> Iterator[None]:
    """A context, also a decorator: programs traced within multiply matrices in the full precision of their factors.

    By JAX's default a GPU rounds factors in float32 to 10 bits before it multiplies them (NVIDIA's TF32), a TPU to 8.
    The error of a log density with a thousand rows then exceeds its change in one move, and this noise decides which
    moves are accepted. A user's value of `jax_default_matmul_precision` takes precedence.
    """
    if jax.default_backend() == "cpu" or jax.config.jax_default_matmul_precision is not None:
        yield
        return
    with jax.default_matmul_precision("highest"):
        yield
