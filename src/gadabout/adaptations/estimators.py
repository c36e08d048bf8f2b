"""The moments of a window of draws, and what covariance they say a factor should have."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int


class Moments(eqx.Module):
    """Draws, their mean, and the sum of squares about it: of each coordinate (n,) or of each pair (n, n).

    Rows are added about the mean so far, which begins where chains stand, so that nothing large cancels.
    """

    count: Int[Array, ""]
    mean: Float[Array, " n"]
    squares: Float[Array, "n *n"]

    @property
    def covariance(self) -> Float[Array, "n *n"]:
        """The unbiased covariance, or the variances."""
        return self.squares / jnp.maximum(self.count - 1, 1)

    def sums(self, rows: Float[Array, "chains n"]) -> tuple[Array, Array]:
        """Sums over rows of deviations from the mean so far, and of their products."""
        d = rows - self.mean
        return jnp.sum(d, 0), jnp.sum(d**2, 0) if self.squares.ndim == 1 else d.T @ d

    def add(self, count: int, shift: Float[Array, " n"], squares: Float[Array, "n *n"]) -> "Moments":
        """With `count` rows more, of which `sums` are given."""
        total = self.count + count
        step = shift / total
        correction = total * (step**2 if self.squares.ndim == 1 else jnp.outer(step, step))
        return Moments(total, self.mean + step, self.squares + squares - correction)


class AbstractEstimator(eqx.Module):
    """From the moments of a window's draws, and of the gradients there, to the covariance a factor is fitted to."""

    gradients: eqx.AbstractVar[bool]
    """whether gradients are wanted"""

    @abstractmethod
    def __call__(self, x: Moments, grad: Moments | None = None) -> Float[Array, "n *n"]:
        """The covariance, of the moments' own shape."""


class RegularisedCovariance(AbstractEstimator):
    r"""$\frac{N}{N+5}S + 10^{-3}\frac{5}{N+5}I$, Stan's estimate from the covariance S of N draws."""

    gradients: bool = eqx.field(static=True, default=False)

    def __call__(self, x, grad=None):
        weight = x.count / (x.count + 5)
        ridge = 1e-3 * (1 - weight) * (1.0 if x.squares.ndim == 1 else jnp.eye(x.squares.shape[0]))
        return weight * x.covariance + ridge


class GeometricMean(AbstractEstimator):
    r"""The Σ with $\Sigma C_g\Sigma = C_x$, from the covariances of draws and of gradients there.

    $\Sigma = R^{-\top}(R^\top C_xR)^{1/2}R^{-1}$ with the Cholesky root $RR^\top = C_g$, or
    $\sqrt{\mathrm{Var}\,x_i/\mathrm{Var}\,g_i}$ where variances are all there is. It minimises the Fisher divergence
    to a Gaussian (as the samplers of nutpie do) and is exact on one as soon as the draws span the space. Coordinates
    are scaled by it first, and 10⁻⁵ I, and what rounding takes, added to both.

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
        # As much as rounding does, or C_g has no root; and C_x as well, or what both know nothing of becomes narrower.
        blur = len(s) * jnp.finfo(s.dtype).eps * jnp.max(jnp.diagonal(C_g)) * identity
        R = jnp.linalg.cholesky(C_g + blur)
        values, vectors = jnp.linalg.eigh(R.T @ (C_x + blur) @ R)
        half = solve_triangular(R.T, vectors * jnp.maximum(values, 1e-12) ** 0.25)
        return jnp.outer(s, s) * (half @ half.T)
