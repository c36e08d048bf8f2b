"""The Barker proposal, a robust relative of MALA (Livingstone & Zanella 2022)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor
from gadabout.proposals.base import AbstractProposal


class BarkerNoise(NamedTuple):
    """Size and initial sign of each component's step (`z`), and the `uniform` number that decides whether it flips."""

    z: Float[Array, " n"]
    uniform: Float[Array, " n"]


class Barker(AbstractProposal):
    r"""$y = x + L\zeta$ with $\zeta_i = \pm z_i$, $z \sim N(0, I)$: the gradient chooses signs and never lengths.

    With $c(x) = L^\top\nabla\log\pi(x)$, kept in the point's cache, the sign of component i is flipped with probability
    $1/(1 + e^{c_i z_i})$. So $\zeta$ has the density $\prod_i 2\varphi(\zeta_i)\,\sigma(c_i(x)\zeta_i)$ with the
    logistic function σ, and $\log q(x|y) - \log q(y|x) = \sum_i \log\sigma(-c_i(y)\zeta_i) -
    \log\sigma(c_i(x)\zeta_i)$. Even a very large gradient moves the chain no further than a random walk does
    (Livingstone & Zanella 2022, algorithm 1 and, with the factor, its preconditioned form).
    """

    factor: AbstractFactor

    def __check_init__(self):
        check_factor(self.factor)

    @property
    def order(self):
        return 1

    def noise(self, key, here):
        z_key, uniform_key = jax.random.split(key)
        shape, dtype = here.x.shape, here.x.dtype
        return BarkerNoise(jax.random.normal(z_key, shape, dtype), jax.random.uniform(uniform_key, shape, dtype))

    def cache(self, here):
        return self.factor.tmul(here.grad)

    def move(self, noise, here, target):
        z, c = noise.z, here.cache
        zeta = jnp.where(noise.uniform < jax.nn.sigmoid(-c * z), -z, z)
        there = self.arrive(here.x + self.factor.mul(zeta), target)
        return there, jnp.sum(jax.nn.log_sigmoid(-there.cache * zeta) - jax.nn.log_sigmoid(c * zeta))
