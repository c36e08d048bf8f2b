"""Distributions with draws and log densities, from which independence proposals draw."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Key, PyTree

from gadabout.checks import check_function, check_positive, check_whole
from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor, check_leaf
from gadabout.proposals.user import as_pytree


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
        """The draw computed from the noise."""

    def draw_with_log_density(self, noise: PyTree) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        """The draw x and log q(x); override it where the density is cheaper to compute from the noise."""
        x = self.draw(noise)
        return x, self.log_density(x)

    @abstractmethod
    def log_density(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """log q(x), up to a constant free of x and of the parameters that are learned."""

    def log_normaliser(self) -> Float[Array, ""] | float:
        """The constant that `log_density` leaves out: log ∫ exp(log_density(x)) dx.

        A chain does not need this constant; an estimate of a marginal likelihood does. Raises NotImplementedError where
        the distribution does not define it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} gives log q(x) only up to a constant; define its method log_normaliser(), the log "
            "of the integral of exp(log_density), which is 0 where log_density is complete"
        )

    def entropy(self) -> Float[Array, ""]:
        """The entropy in nats, up to a constant free of the parameters that are learned.

        Raises NotImplementedError where there is no formula for it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no formula for its entropy; learn it with an objective that needs none, "
            "gadabout.adaptations.LogRatio()"
        )

    def normalised_log_density(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """log q(x), with all its constants."""
        return self.log_density(x) - self.log_normaliser()

    def sample(self, key: Key[Array, ""]) -> Float[Array, " n"]:
        """One draw, shape (n,), which can also be a start: `gad.sample(…, init=lambda key: q.sample(key))`."""
        return self.draw(self.noise(key))


class Gaussian(AbstractDistribution):
    r"""$N(m, LL^\top)$ for any factor L."""

    mean: Float[Array, " n"]
    factor: AbstractFactor

    def __check_init__(self):
        _check_centre(self.mean, self.factor)

    @property
    def dim(self):
        return self.mean.shape[-1]

    def noise(self, key):
        return jax.random.normal(key, self.mean.shape, self.mean.dtype)

    def draw(self, noise):
        return self.mean + self.factor.mul(noise)

    def draw_with_log_density(self, noise):
        return self.draw(noise), -0.5 * noise @ noise - self.factor.log_det()

    def log_density(self, x):
        z = self.factor.solve(x - self.mean)
        return -0.5 * z @ z - self.factor.log_det()

    def log_normaliser(self):
        return 0.5 * self.dim * math.log(2 * math.pi)

    def entropy(self):
        return self.factor.log_det()


class StudentT(AbstractDistribution):
    r"""The multivariate Student-t with ν degrees of freedom, centre m and scale matrix $LL^\top$ for any factor L.

    $x = m + Lz\sqrt{\nu/s}$ with $z \sim N(0, I)$, $s \sim \chi^2_\nu$, and
    $\log q(x) = -\tfrac{\nu + n}{2}\log(1 + |L^{-1}(x - m)|^2/\nu) - \log|L|$ up to a constant. Its tails fall
    polynomially, so that π/q stays bounded where it would not for a Gaussian q. ν is given and not learned, since
    `log_density` omits the constant that depends on it: no derivative with respect to ν passes.
    """

    mean: Float[Array, " n"]
    factor: AbstractFactor
    degrees_of_freedom: Float[Array, ""] = eqx.field(converter=lambda value: _degrees(value))

    def __check_init__(self):
        _check_centre(self.mean, self.factor)

    @property
    def dim(self):
        return self.mean.shape[-1]

    @property
    def _given(self) -> Float[Array, ""]:
        """ν, of which nothing is a derivative."""
        return jax.lax.stop_gradient(self.degrees_of_freedom)

    def noise(self, key):
        normal, gamma = jax.random.split(key)
        z = jax.random.normal(normal, self.mean.shape, self.mean.dtype)
        half = 0.5 * self._given.astype(self.mean.dtype)
        return z, 2 * jax.random.gamma(gamma, half, dtype=self.mean.dtype)

    def draw(self, noise):
        z, s = noise
        return self.mean + self.factor.mul(z * jnp.sqrt(self._given / s))

    def draw_with_log_density(self, noise):
        z, s = noise
        return self.draw(noise), self._log_density(z @ z * self._given / s)

    def log_density(self, x):
        z = self.factor.solve(x - self.mean)
        return self._log_density(z @ z)

    def _log_density(self, square):
        """log q as a function of `square` = |L⁻¹(x − m)|²."""
        ν = self._given
        return -0.5 * (ν + self.dim) * jnp.log1p(square / ν) - self.factor.log_det()

    def entropy(self):
        return self.factor.log_det()

    def log_normaliser(self):
        ν, n = self.degrees_of_freedom, self.dim
        return gammaln(0.5 * ν) - gammaln(0.5 * (ν + n)) + 0.5 * n * jnp.log(jnp.pi * ν)


def _check_centre(mean: Any, factor: Any) -> None:
    """Raises TypeError or ValueError unless mean and factor have the same number of coordinates."""
    check_factor(factor)
    check_leaf("mean", mean, "(n,)", 1)
    if mean.shape[-1] != factor.dim:
        raise ValueError(f"mean has {mean.shape[-1]} coordinates, factor {factor.dim}; they must agree")


def _degrees(value: Any) -> Any:
    array = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating)
    return value if array else jnp.asarray(check_positive("degrees_of_freedom", value), dtype=float)


class UserDistribution(AbstractDistribution):
    """A distribution given by user functions: `sample_of(key)`, and `log_density_of(x)` of a flat x of length `size`.

    `log_density_of` must include all constants if a marginal likelihood is to be estimated. Nothing checks that it is
    the log density of the draws of `sample_of`. Arrays in a `jax.tree_util.Partial` are parameters.
    """

    size: int = eqx.field(static=True)
    sample_of: Callable[..., Any] = eqx.field(converter=lambda f: as_pytree(check_function("sample_of", f, "of a key")))
    log_density_of: Callable[..., Any] = eqx.field(converter=lambda f: as_pytree(check_function("log_density_of", f)))

    def __check_init__(self):
        check_whole("size", self.size)

    @property
    def dim(self):
        return self.size

    def noise(self, key):
        return key

    def draw(self, noise):
        return self.sample_of(noise)

    def log_density(self, x):
        return jnp.asarray(self.log_density_of(x), dtype=x.dtype)

    def log_normaliser(self):
        return 0.0
