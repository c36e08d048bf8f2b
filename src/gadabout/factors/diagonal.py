"""Diagonal factors: standard deviations without correlations."""

from typing import Any, Self

import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors.base import AbstractFactor, as_unit, check_leaf


class Diagonal(AbstractFactor):
    """L = diag(scale), with scale of shape (n,): standard deviations without correlations."""

    scale: Float[Array, " n"]

    def __check_init__(self):
        check_leaf("scale", self.scale, "(n,)", 1)

    @property
    def dim(self):
        return self.scale.shape[-1]

    def mul(self, v):
        return self.scale * v

    def tmul(self, v):
        return self.scale * v

    def solve(self, v):
        return v / self.scale

    def log_det(self):
        return jnp.sum(jnp.log(self.scale))

    def outer(self, u, v):
        return Diagonal(u * v)

    def floor(self, lowest, relative=False):
        return Diagonal(jnp.maximum(self.scale, lowest * self.units().scale if relative else lowest))

    def units(self):
        """Each standard deviation itself: steps are relative, like steps of its logarithm."""
        return Diagonal(as_unit(jnp.abs(self.scale)))

    def scales(self):
        return self.scale

    def deviations(self):
        return jnp.abs(self.scale)

    def covariance_shape(self):
        return (self.dim,)

    def fitted(self, covariance):
        return Diagonal(jnp.where((covariance > 0) & jnp.isfinite(covariance), jnp.sqrt(covariance), self.scale))

    def mul_outer(self, u: Float[Array, " n"], v: Float[Array, " n"]) -> Self:
        """The diagonal of L [u vᵀ], as a diagonal factor."""
        return Diagonal(self.scale * u * v)  # pyright: ignore[reportReturnType]

    def times(self, other: Any) -> Self:
        """The product of two factors of this kind."""
        return Diagonal(self.scale * other.scale)  # pyright: ignore[reportReturnType]
