"""The moments of a window of draws, and estimates of the covariance that a factor is fitted to."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int


class Moments(eqx.Module):
    """Number of draws, their mean, and the sum of squares about it: per coordinate (n,) or per pair (n, n).

    Rows are added relative to the current mean, which starts near the chains; this avoids cancellation.
    """

    count: Int[Array, ""]
    mean: Float[Array, " n"]
    squares: Float[Array, "n *n"]

    @property
    def covariance(self) -> Float[Array, "n *n"]:
        """The unbiased covariance, or the variances."""
        return self.squares / jnp.maximum(self.count - 1, 1)

    def sums(self, rows: Float[Array, "chains n"]) -> tuple[Array, Array]:
        """Sums over rows of the deviations from the current mean, and of their products."""
        d = rows - self.mean
        return jnp.sum(d, 0), jnp.sum(d**2, 0) if self.squares.ndim == 1 else d.T @ d

    def add(self, count: int, shift: Float[Array, " n"], squares: Float[Array, "n *n"]) -> "Moments":
        """The moments after `count` more rows, given their `sums`."""
        total = self.count + count
        step = shift / total
        correction = total * (step**2 if self.squares.ndim == 1 else jnp.outer(step, step))
        return Moments(total, self.mean + step, self.squares + squares - correction)


class AbstractEstimator(eqx.Module):
    """Estimator of the covariance that a factor is fitted to, from moments of a window's draws and gradients."""

    gradients: eqx.AbstractVar[bool]
    """whether the moments of gradients are needed"""

    @abstractmethod
    def __call__(self, x: Moments, grad: Moments | None = None) -> Float[Array, "n *n"]:
        """The covariance, in the shape of the moments' `squares`."""


class RegularisedCovariance(AbstractEstimator):
    r"""$\frac{N}{N+5}S + 10^{-3}\frac{5}{N+5}I$, Stan's estimate from the covariance S of N draws."""

    gradients: bool = eqx.field(static=True, default=False)

    def __call__(self, x, grad=None):
        weight = x.count / (x.count + 5)
        ridge = 1e-3 * (1 - weight) * (1.0 if x.squares.ndim == 1 else jnp.eye(x.squares.shape[0]))
        return weight * x.covariance + ridge


class GeometricMean(AbstractEstimator):
    r"""The Σ with $\Sigma C_g\Sigma = C_x$, from the covariances $C_x$ of draws and $C_g$ of their gradients.

    $\Sigma = R^{-\top}(R^\top C_xR)^{1/2}R^{-1}$ with the Cholesky root $RR^\top = C_g$, or
    $\sqrt{\mathrm{Var}\,x_i/\mathrm{Var}\,g_i}$ if only variances are given. Σ minimises the Fisher divergence to a
    Gaussian (as in nutpie), and is exact for a Gaussian once the draws span the space. Coordinates are first scaled by
    the root of the diagonal estimate. Then 10⁻⁵ I and a ridge of the size of rounding errors are added to both.

    Args:
        prior_draws: weight, in draws, of the identity in the scaled coordinates, for windows of few draws.
    """

    gradients: bool = eqx.field(static=True, default=True)
    prior_draws: float = eqx.field(static=True, default=0.0)

    def __call__(self, x, grad=None):
        assert grad is not None, "the estimator asked for gradients"
        if x.squares.ndim == 1:
            return jnp.sqrt(x.covariance / grad.covariance)
        s = (jnp.diagonal(x.covariance) / jnp.diagonal(grad.covariance)) ** 0.25
        identity, weight = jnp.eye(len(s)), x.count / (x.count + self.prior_draws)
        regular = lambda C: weight * (C + 1e-5 * identity) + (1 - weight) * identity
        C_x, C_g = regular(x.covariance / jnp.outer(s, s)), regular(grad.covariance * jnp.outer(s, s))
        # A ridge of the size of rounding errors: C_g needs it to have a root; without it in C_x, Σ would shrink where
        # neither has information.
        blur = len(s) * jnp.finfo(s.dtype).eps * jnp.max(jnp.diagonal(C_g)) * identity
        R = jnp.linalg.cholesky(C_g + blur)
        values, vectors = jnp.linalg.eigh(R.T @ (C_x + blur) @ R)
        half = solve_triangular(R.T, vectors * jnp.maximum(values, 1e-12) ** 0.25)
        return jnp.outer(s, s) * (half @ half.T)
