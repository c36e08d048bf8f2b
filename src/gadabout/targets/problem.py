"""A built-in posterior: a model with its data, its start, and what is known of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.layout import Layout, layout_of
from gadabout.model import AbstractModel
from gadabout.starts import Normal
from gadabout.target import Target


@dataclass(eq=False, repr=False)
class Problem(AbstractModel):
    """A posterior of the paper, or another Gaussian or regression, as a model: `sample(problem)` draws from it.

    Args:
        name: what it is called.
        description: one line on it.
        dim: coordinates n of a position, one array of shape (n,).
        log_density: log π of (x, data), up to a constant. A function of a module and never a closure: other data of
            the same shape compile nothing anew.
        data: a pytree of JAX arrays in JAX's default float type.
        covariance: the true one, shape (n, n); None where it is not known.
        columns: the names of the coordinates, where the data have names.
    """

    name: str = field()
    description: str
    dim: int
    log_density: Callable[[Float[Array, " n"], PyTree], Float[Array, ""]]
    data: PyTree
    covariance: Float[np.ndarray, "n n"] | None = None
    columns: Sequence[str] | None = None
    layout: Layout | None = field(init=False)
    dims: Mapping[str, Sequence[str]] = field(init=False, default_factory=dict)
    coords: Mapping[str, Any] = field(init=False, default_factory=dict)
    observed: Mapping[str, Any] = field(init=False, default_factory=dict)

    def __post_init__(self):
        self.layout = layout_of(jax.ShapeDtypeStruct((self.dim,), jnp.result_type(float)))
        self.start = Normal(self.dim)  # the paper's, in JAX's default float type
        if self.columns is not None:
            self.dims, self.coords = {"x": ["column"]}, {"column": list(self.columns)}

    @property
    def target(self) -> Target:
        return Target(self.log_density, self.data, self.layout)
