"""Gaussian mixtures: a proposal distribution, and a random walk with the covariance of the local component."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors import Cholesky
from gadabout.proposals.base import AbstractProposal
from gadabout.proposals.distributions import AbstractDistribution


class GaussianMixture(AbstractDistribution):
    r"""$q(x) = \sum_j w_j N(x|\mu_j, L_jL_j^\top)$ with K components, stacked along the leading axis of every leaf."""

    weights: Float[Array, " K"]
    means: Float[Array, "K n"]
    factors: Cholesky

    @property
    def dim(self):
        return self.means.shape[-1]

    def noise(self, key):
        choice, normal = jax.random.split(key)
        dtype = self.means.dtype
        return jax.random.uniform(choice, dtype=dtype), jax.random.normal(normal, (self.dim,), dtype)

    def draw(self, noise):
        u, z = noise
        j = component(u, self.weights)
        return self.means[j] + self.factor(j).mul(z)

    def log_density(self, x):
        return jax.nn.logsumexp(self.log_joint(x))

    def log_normaliser(self):
        return 0.5 * self.dim * math.log(2 * math.pi) + jnp.log(jnp.sum(self.weights))

    def log_joint(self, x: Float[Array, " n"]) -> Float[Array, " K"]:
        """log w_j + log N(x | μ_j, L_j L_jᵀ), up to one constant for all j."""
        return jnp.log(self.weights) + log_normals(self.factors, x - self.means)

    def log_responsibilities(self, x: Float[Array, " n"]) -> Float[Array, " K"]:
        """log of the probability that x came from each component."""
        return jax.nn.log_softmax(self.log_joint(x))

    def factor(self, j: Array) -> Cholesky:
        """The factor of component j."""
        return jax.tree.map(lambda leaf: leaf[j], self.factors)


class MixtureWalk(AbstractProposal):
    r"""$q(y|x) = \sum_j r_j(x)\,N(y|x, h^2L_jL_j^\top)$, $r_j(x)$ the responsibilities of a mixture at x.

    Each mode has its own covariance of steps. The component is drawn with probabilities that depend on the state, and
    the acceptance ratio corrects for that: $q(x|y)/q(y|x)$ is the ratio of the whole sums, in which only the $r_j$
    differ, because the normals are symmetric. $\log r(x)$ is kept in the point's cache.
    """

    mixture: GaussianMixture
    step_size: Float[Array, ""]

    def noise(self, key, here):
        return self.mixture.noise(key)

    def cache(self, here):
        return self.mixture.log_responsibilities(here.x)

    def move(self, noise, here, target):
        u, z = noise
        step = self.mixture.factor(component(u, jnp.exp(here.cache))).mul(z)
        there = self.arrive(here.x + self.step_size * step, target)
        normals = log_normals(self.mixture.factors, jnp.broadcast_to(step, self.mixture.means.shape))
        return there, jax.nn.logsumexp(there.cache + normals) - jax.nn.logsumexp(here.cache + normals)


def component(u: Float[Array, ""], weights: Float[Array, " K"]) -> Array:
    """The index of the component that u, uniform on [0, 1), selects with probabilities proportional to `weights`."""
    cumulative = jnp.cumsum(weights)
    return jnp.clip(jnp.searchsorted(cumulative, u * cumulative[-1], side="right"), 0, weights.shape[0] - 1)


def log_normals(factors: Cholesky, differences: Float[Array, "K n"]) -> Float[Array, " K"]:
    """log N(d_j | 0, L_j L_jᵀ) of each component, without −n/2 log 2π."""

    def log_normal(factor, d):
        z = factor.solve(d)
        return -0.5 * z @ z - factor.log_det()

    return jax.vmap(log_normal)(factors, differences)
