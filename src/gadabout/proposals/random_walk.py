"""The random walk proposal (paper, section 2.2)."""

import jax
from jax.tree_util import Partial

from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor
from gadabout.proposals.base import AbstractReparametrised
from gadabout.target import Point


class RandomWalk(AbstractReparametrised):
    r"""$y = x + L\varepsilon$, $\varepsilon \sim N(0, I)$: $q_L(y|x) = N(y|x, LL^\top)$, symmetric, for any factor L.

    The gradient of its log-ratio is $[\nabla\log\pi(y)\,\varepsilon^\top]_{lower}$ (Titsias & Dellaportas 2019, below
    equation 7). The target's gradient is evaluated only where this gradient is used.
    """

    factor: AbstractFactor

    def __check_init__(self):
        check_factor(self.factor)

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def move(self, noise, here, target):
        return target.at(here.x + self.factor.mul(noise)), 0.0

    def entropy(self, here):
        return self.factor.log_det()

    def log_q(self, there, here):
        z = self.factor.solve(there.x - here.x)
        return -0.5 * z @ z - self.factor.log_det()

    def move_and_pullback(self, noise, here, target):
        y = here.x + self.factor.mul(noise)
        logp, pull = jax.vjp(target.log_density, y)
        return Point(y, logp), 0.0, Partial(_pullback, self.factor, pull, noise)


def _pullback(factor, pull, noise, weight, direction=None):
    (gradient,) = pull(weight)
    gradient = gradient if direction is None else gradient + direction
    return RandomWalk(factor.outer(gradient, noise))
