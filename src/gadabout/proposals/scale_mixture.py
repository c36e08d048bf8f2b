"""A Gaussian at several scales at once, with the tails that the target has: nearly as cheap as one Gaussian."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.proposals.distributions import AbstractDistribution, normals, uniforms
from gadabout.proposals.tails import Tails

SCALES = (0.85, 1.0, 1.18, 1.4, 1.7, 2.5)
LEAST = 0.1
"""the share of all weight that is spread evenly, so that no scale dies"""
ROUNDS = 40
"""of EM, after which the mean log-likelihood is within 4e-4 of its largest value"""
ENOUGH = 400
"""quantiles of the squares that weights are fitted to where draws are more"""


class ScaleMixture(AbstractDistribution):
    r"""$x = m + L\,T(s_k u)$ with $u \sim N(0, I)$ and k drawn by weights: a Gaussian at the scales s, bent by T.

    The weights w make the length of its tails on all sides, T that on either side of each coordinate of
    $L^{-1}(x - m)$; up to a constant
    $\log q(x) = \log\sum_k w_k s_k^{-n} e^{-r^2/(2 s_k^2)} - \log|T'(u)| - \log|L|$, $r = |u|$,
    $u = T^{-1}(L^{-1}(x - m))$.

    Args:
        mean: m, shape (n,).
        factor: L.
        tails: T.
        weights: w, positive with the sum 1, shape (K,).
        scales: s, positive, shape (K,).
    """

    mean: Float[Array, " n"]
    factor: AbstractFactor
    tails: Tails
    weights: Float[Array, " K"]
    scales: Float[Array, " K"] = eqx.field(default_factory=lambda: jnp.asarray(SCALES, dtype=float))

    @property
    def dim(self):
        return self.mean.shape[-1]

    def noise(self, key):
        """A uniform on (0, 1) for the scale, and 2Φ(z) − 1 of normals z: uniforms on (−1, 1)."""
        v = uniforms(key, self.dim + 1, self.mean.dtype)
        return 0.5 + 0.5 * v[-1], v[:-1]

    def draw(self, noise):
        return self.draw_with_log_density(noise)[0]

    def draw_with_log_density(self, noise):
        uniform, v = noise
        normal = jax.lax.optimization_barrier(normals(v))  # it is rounded alike in every program
        u = self.scales[jnp.sum(uniform > jnp.cumsum(self.weights)[:-1])] * normal
        z, log_slope = self.tails(u)
        return self.mean + self.factor.mul(z), self._log_density(u, log_slope)

    def log_density(self, x):
        return self._log_density(*self.tails.inverse(self.factor.solve(x - self.mean)))

    @property
    def turns(self):
        return True

    def noise_at(self, key, x):
        """The scale given x is drawn by its share in the density there."""
        u, _ = self.tails.inverse(self.factor.solve(x - self.mean))
        shares = jnp.cumsum(jax.nn.softmax(jnp.log(self.weights) + radial(u @ u, self.dim, self.scales, jnp)))
        k = jnp.sum(jax.random.uniform(key, dtype=u.dtype) > shares[:-1])
        return jnp.cumsum(self.weights)[k] - 0.5 * self.weights[k], jax.lax.erf(u / (math.sqrt(2) * self.scales[k]))

    def half_turn(self, noise):
        """Where rounding leaves no inverse, beyond 8 standard deviations (5 in single precision), an infinite draw."""
        uniform, v = noise
        turned = v - jnp.where(v > 0, 1.0, -1.0).astype(v.dtype)
        return uniform, jnp.where(turned == 0, 1, turned)

    def log_normaliser(self):
        return 0.5 * self.dim * math.log(2 * math.pi)

    def _log_density(self, u, log_slope) -> Array:
        terms = radial(u @ u, self.dim, self.scales, jnp)
        return logsumexp(terms, b=self.weights) - log_slope - self.factor.log_det()


def radial(square, n: int, scales, xp):
    """log of s⁻ⁿ exp(−r²/2s²) for squares of r, of any shape, and scales s along a new last axis."""
    return -n * xp.log(scales) - 0.5 * square[..., None] / scales**2


def fitted_weights(squares: np.ndarray, n: int, scales: tuple[float, ...] = SCALES) -> np.ndarray:
    """Weights by maximum likelihood of draws with squares r², shape (draws,), by EM; each is at least LEAST / K."""
    spacing = -(-len(squares) // ENOUGH)
    terms, _ = _terms(np.sort(squares)[spacing // 2 :: spacing], n, scales)
    weights = np.full(len(scales), 1 / len(scales))
    for _ in range(ROUNDS):
        weights = weights * ((1 / (terms @ weights)) @ terms) / len(terms)  # the mean share of each scale
        weights = (1 - LEAST) * weights + LEAST / len(scales)
    return weights


def log_radial_density(squares: np.ndarray, n: int, weights: np.ndarray, scales=SCALES) -> np.ndarray:
    """log q at draws with squares r², up to a constant."""
    terms, largest = _terms(squares, n, scales)
    return np.log(terms @ weights) + largest


def _terms(squares: np.ndarray, n: int, scales) -> tuple[np.ndarray, np.ndarray]:
    """Each scale's part of the density over the largest part, shape (draws, K), and the logarithm of that."""
    log_terms = radial(squares, n, np.asarray(scales), np)
    largest = functools.reduce(np.maximum, log_terms.T)  # a maximum along a short axis takes five times as long
    return np.exp(log_terms - largest[:, None]), largest
