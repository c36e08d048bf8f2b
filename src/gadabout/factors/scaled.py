"""Products of a number and another factor."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.checks import shown
from gadabout.factors.base import AbstractFactor, as_unit, check_leaf


class Scaled(AbstractFactor):
    """multiplier · L for another factor L: one positive number that scales all directions alike."""

    multiplier: Float[Array, ""]
    base: AbstractFactor

    def __check_init__(self):
        if not isinstance(self.base, AbstractFactor):
            raise TypeError(f"base must be a factor, such as gadabout.factors.Diagonal(scale), got {shown(self.base)}")
        if not isinstance(self.multiplier, float | int):
            check_leaf("multiplier", self.multiplier, "()", 0)

    @property
    def dim(self):
        return self.base.dim

    def mul(self, v):
        return self.multiplier * self.base.mul(v)

    def tmul(self, v):
        return self.multiplier * self.base.tmul(v)

    def solve(self, v):
        return self.base.solve(v) / self.multiplier

    def log_det(self):
        return self.base.log_det() + self.dim * jnp.log(self.multiplier)

    def outer(self, u, v):
        return Scaled(u @ self.base.mul(v), self.base.outer(self.multiplier * u, v))

    def floor(self, lowest, relative=False):
        return Scaled(self.multiplier, self.base.floor(lowest, relative))

    def units(self):
        return Scaled(as_unit(jnp.abs(self.multiplier)), self.base.units())

    def scales(self):
        return jnp.append(self.base.scales(), self.multiplier)

    def dense(self):
        return self.multiplier * self.base.dense()

    def deviations(self):
        return self.multiplier * self.base.deviations()

    def covariance_shape(self):
        return self.base.covariance_shape()

    def fitted(self, covariance):
        return Scaled(self.multiplier, self.base.fitted(covariance / self.multiplier**2))
