"""Distributions that can be drawn from and evaluated: what independence proposals propose from."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from gadabout.factors import AbstractFactor


class AbstractDistribution(eqx.Module):
    """A distribution of a position of n coordinates; its array leaves are parameters that may be learned."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The number of coordinates n."""

    @abstractmethod
    def noise(self, key: Key[Array, ""]) -> PyTree:
        """All the randomness of one draw."""

    @abstractmethod
    def draw(self, noise: PyTree) -> Float[Array, " n"]:
        """The draw that the noise stands for."""

    @abstractmethod
    def log_density(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """log q(x), up to a constant free of x and of the parameters."""


class Gaussian(AbstractDistribution):
    r"""$N(m, LL^\top)$ for any factor L."""

    mean: Float[Array, " n"]
    factor: AbstractFactor

    @property
    def dim(self):
        return self.mean.shape[-1]

    def noise(self, key):
        return jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def draw(self, noise):
        return self.mean + self.factor.mul(noise)

    def log_density(self, x):
        z = self.factor.solve(x - self.mean)
        return -0.5 * z @ z - self.factor.log_det()


class StudentT(AbstractDistribution):
    r"""The multivariate Student-t with ν degrees of freedom, centre m and scale matrix $LL^\top$ for any factor L.

    $x = m + Lz\sqrt{\nu/s}$ with $z \sim N(0, I)$, $s \sim \chi^2_\nu$, and
    $\log q(x) = -\tfrac{\nu + n}{2}\log(1 + |L^{-1}(x - m)|^2/\nu) - \log|L|$ up to a constant. Its tails fall
    polynomially, so that π/q stays bounded where a Gaussian's would not. ν is given and not learned: the density lacks
    the constant that depends on it.
    """

    mean: Float[Array, " n"]
    factor: AbstractFactor
    degrees_of_freedom: Float[Array, ""]

    @property
    def dim(self):
        return self.mean.shape[-1]

    def noise(self, key):
        normal, gamma = jax.random.split(key)
        z = jax.random.normal(normal, self.mean.shape, self.mean.dtype)
        half = 0.5 * self.degrees_of_freedom.astype(self.mean.dtype)
        return z, 2 * jax.random.gamma(gamma, half, dtype=self.mean.dtype)

    def draw(self, noise):
        z, s = noise
        return self.mean + self.factor.mul(z * jnp.sqrt(self.degrees_of_freedom / s))

    def log_density(self, x):
        z, ν = self.factor.solve(x - self.mean), self.degrees_of_freedom
        return -0.5 * (ν + self.dim) * jnp.log1p(z @ z / ν) - self.factor.log_det()
