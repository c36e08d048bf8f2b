"""A random walk at several scales, whose probabilities are learned although moves have no derivative in them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor, check_leaf
from gadabout.proposals.base import AbstractProposal


class MultiscaleWalk(AbstractProposal):
    r"""$y = x + s_kL\varepsilon$, k drawn with probabilities w: $q(y|x) = \sum_k w_k N(y|x, s_k^2LL^\top)$, symmetric.

    k is discrete, so that y has no derivative in w: Algorithm 1 learns w and L with `ScoreFunction`.

    Args:
        factor: L.
        logits: v with w = softmax(v), shape (K,).
        scales: s, K positive numbers, which are not learned.
    """

    factor: AbstractFactor
    logits: Float[Array, " K"]
    scales: tuple[float, ...] = eqx.field(static=True, default=(0.1, 1.0, 10.0))

    def __check_init__(self):
        check_factor(self.factor)
        check_leaf("logits", self.logits, f"({len(self.scales)},)", 0)
        if self.logits.ndim and self.logits.shape[-1] != len(self.scales):  # units have no axis
            raise ValueError(f"logits must be one for each of {len(self.scales)} scales, got {self.logits.shape[-1]}")
        if not all(scale > 0 for scale in self.scales):
            raise ValueError(f"scales must be positive, got {self.scales}")

    def noise(self, key, here):
        choice, normal = jax.random.split(key)
        dtype = here.x.dtype
        return jax.random.gumbel(choice, (len(self.scales),), dtype), jax.random.normal(normal, here.x.shape, dtype)

    def move(self, noise, here, target):
        gumbel, z = noise
        scale = jnp.asarray(self.scales, z.dtype)[jnp.argmax(gumbel + self.logits)]
        return target.at(here.x + scale * self.factor.mul(z)), 0.0

    def log_q(self, there, here):
        z = self.factor.solve(there.x - here.x)
        s = jnp.asarray(self.scales, z.dtype)
        terms = jax.nn.log_softmax(self.logits) - z.shape[0] * jnp.log(s) - 0.5 * (z @ z) / s**2
        return jax.nn.logsumexp(terms) - self.factor.log_det()
