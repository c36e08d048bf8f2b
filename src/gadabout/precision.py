"""Products of matrices in the precision of their factors."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def whole_products() -> Iterator[None]:
    """What is traced within multiplies matrices in the precision that they have; a decorator too.

    By JAX's default a GPU rounds factors in float32 to 10 bits before it multiplies them (NVIDIA's TF32), a TPU to 8.
    A log density with a thousand rows is then off by more than a move changes it: moves are accepted by its noise. Who
    sets `jax_default_matmul_precision` gets what it says.
    """
    if jax.default_backend() == "cpu" or jax.config.jax_default_matmul_precision is not None:
        yield
        return
    with jax.default_matmul_precision("highest"):
        yield
