"""A built-in posterior: a log density, its data and what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float


@dataclass(frozen=True, eq=False)
class Problem:
    """A target distribution of dimension `dim`, ready to be sampled.

    `logdensity(x, data)` takes a position of shape (dim,) and returns log π(x) up to a constant. It is a function of a
    module and never a closure: other data of the same shape compile nothing anew. `data` is a pytree of JAX arrays in
    JAX's default float type. `covariance`, of shape (dim, dim), is the true one, or None where it is not known.
    """

    name: str
    description: str
    dim: int
    logdensity: Callable[[Float[Array, " dim"], Any], Float[Array, ""]]
    data: Any
    covariance: np.ndarray | None = None

    def init(self, key: Array) -> Float[Array, " dim"]:
        """The paper's start, x₀ ~ N(0, I), of shape (dim,) in JAX's default float type."""
        return jax.random.normal(key, (self.dim,))
