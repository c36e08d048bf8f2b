"""A built-in posterior: a model with its data, its start, and its covariance if known."""

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
        name: name of the posterior.
        description: its description, one line.
        dim: coordinates n of a position, one array of shape (n,).
        log_density: log π of (x, data), up to a constant. A module-level function, not a closure, so that other
            data of the same shape need no new compilation.
        data: a pytree of JAX arrays in JAX's default float type.
        covariance: true covariance, shape (n, n); None if unknown.
        columns: names of the coordinates; None if the data have no names.
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
        self.start = Normal(self.dim)  # the paper's start, in JAX's default float type
        if self.columns is not None:
            self.dims, self.coords = {"x": ["column"]}, {"column": list(self.columns)}

    @property
    def target(self) -> Target:
        return Target(self.log_density, self.data, self.layout)
