"""The preconditioned Langevin proposal (paper, section 2.3)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.factors import AbstractFactor, multiplied_out
from gadabout.factors.base import check_factor
from gadabout.proposals.base import AbstractReparametrised


class Langevin(AbstractReparametrised):
    r"""$y = x + \tfrac12 LL^\top\nabla\log\pi(x) + L\varepsilon$, $\varepsilon \sim N(0, I)$, for any factor L.

    With $w(x) = L^\top\nabla\log\pi(x)$, kept in the point's cache, $y = x + L(\tfrac12 w(x) + \varepsilon)$ and
    $\log q(x|y) - \log q(y|x) = -\tfrac12(\|\tfrac12(w(x) + w(y)) + \varepsilon\|^2 - \|\varepsilon\|^2)$.
    Where `exact` is False, derivatives in L treat $\nabla\log\pi(y)$ as a constant, and the gradient of the log-ratio
    is one outer product (supplement B):
    $-\tfrac12 (g(x) - g(y))(\tfrac12 L^\top(g(x) - g(y)) + \varepsilon)^\top$.
    Where it is True the derivative includes that of $\nabla\log\pi(y)$, one Hessian-vector product.
    """

    factor: AbstractFactor
    exact: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_factor(self.factor)

    @property
    def order(self):
        return 2 if self.exact else 1

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def cache(self, here):
        return self.factor.tmul(here.grad)

    def move(self, noise, here, target):
        there = self.arrive(here.x + self.factor.mul(0.5 * here.cache + noise), target)
        backward = 0.5 * (here.cache + there.cache) + noise
        return there, -0.5 * (backward @ backward - noise @ noise)

    def entropy(self, here):
        return self.factor.log_det()

    def move_and_pullback(self, noise, here, target):
        if self.exact:
            return super().move_and_pullback(noise, here, target)
        there, log_q = self.move(noise, here, target)
        v = 0.5 * (here.cache - there.cache) + noise
        return there, log_q, Partial(_pullback, self.factor, here, noise, here.grad - there.grad, v)


def _pullback(factor, here, noise, difference, v, weight, direction=None):
    gradient = Langevin(factor.outer(-0.5 * weight * difference, v))
    if direction is None:
        return gradient
    _, pull = jax.vjp(lambda L: L.mul(0.5 * L.tmul(here.grad) + noise), factor)  # dy/dL is two outer products, not one
    return jax.tree.map(jnp.add, multiplied_out(gradient), Langevin(*pull(direction)))
