"""Independence proposals, and the importance weights of the same distribution q."""

import jax
from jaxtyping import Array, Float, Key

from gadabout.checks import shown
from gadabout.proposals.base import AbstractProposal, AbstractReparametrised
from gadabout.proposals.distributions import AbstractDistribution
from gadabout.target import Point, Target


class Independent(AbstractProposal):
    r"""Draws y ~ q, independent of x, which is accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$.

    w are the importance weights of q (lectures, "Independence M-H"): the chain stays longer at a draw to which
    importance sampling gives more weight. log q(x) is kept in the point's cache.
    """

    distribution: AbstractDistribution

    def __check_init__(self):
        if not isinstance(self.distribution, AbstractDistribution):
            remedy = "such as gadabout.proposals.Gaussian(mean, factor)"
            raise TypeError(f"distribution must be a distribution, {remedy}, got {shown(self.distribution)}")

    def noise(self, key, here):
        return self.distribution.noise(key)

    def cache(self, here):
        return self.distribution.log_density(here.x)

    def move(self, noise, here, target):
        y, log_q = self.distribution.draw_with_log_density(noise)
        at = target.at(y, self.order)
        return Point(at.x, at.logp, at.grad, log_q), here.cache - log_q


class ReparametrisedIndependent(Independent, AbstractReparametrised):
    """An `Independent` proposal whose q Algorithm 1 can learn: draws are differentiated in the parameters of q.

    `LogRatio` is the intended objective; the paper's objective needs the distribution's `entropy`.
    """

    def entropy(self, here):
        return self.distribution.entropy()


def importance_sample(
    key: Key[Array, ""], distribution: AbstractDistribution, target: Target, num_draws: int
) -> tuple[Float[Array, "draws n"], Float[Array, " draws"]]:
    """Independent draws from q, shape (num_draws, n), and their log importance weights log π − log q.

    The weights omit the normalising constant of π and, as `log_density` does, that of q: only their ratios matter.
    log w(y) − log w(x) is the log acceptance ratio of an `Independent` move from x to y. With q's `log_normaliser`
    added, the mean weight estimates π's normalising constant (`gadabout.monte_carlo.importance`).
    """
    draws = jax.vmap(distribution.sample)(jax.random.split(key, num_draws))
    return draws, jax.vmap(lambda x: log_importance_weight(distribution, target.at(x)))(draws)


def log_importance_weight(distribution: AbstractDistribution, here: Point) -> Float[Array, ""]:
    """log w(x) = log π(x) − log q(x) at a point, up to a constant."""
    return here.logp - distribution.log_density(here.x)
