"""Independence proposals, beside the importance weights of the same q."""

import jax
from jaxtyping import Array, Float, Key

from gadabout.checks import shown
from gadabout.proposals.base import AbstractProposal, AbstractReparametrised
from gadabout.proposals.distributions import AbstractDistribution
from gadabout.target import Point, Target


class Independent(AbstractProposal):
    r"""y ~ q, whatever x: accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$.

    The ratio's w are the importance weights of q (lectures, "Independence M-H"): where importance sampling gives a draw
    more weight, the chain gives it more time. log q(x) is kept in the point's cache.
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
    """The same, with what Algorithm 1 needs to learn q: its draws are differentiated in its parameters.

    `LogRatio` is the objective meant for it; the paper's needs the distribution's `entropy`.
    """

    def entropy(self, here):
        return self.distribution.entropy()


def importance_sample(
    key: Key[Array, ""], distribution: AbstractDistribution, target: Target, num_draws: int
) -> tuple[Float[Array, "draws n"], Float[Array, " draws"]]:
    """Independent draws from q, shape (num_draws, n), and their log importance weights log π − log q.

    The weights lack the normalising constants of π and, as `log_density` does, of q: only their ratios have a meaning,
    and log w(y) − log w(x) is the log acceptance ratio of an `Independent` move from x to y. With q's `log_normaliser`
    added, their mean estimates π's (`gadabout.monte_carlo.importance`).
    """
    draws = jax.vmap(distribution.sample)(jax.random.split(key, num_draws))
    return draws, jax.vmap(lambda x: log_importance_weight(distribution, target.at(x)))(draws)


def log_importance_weight(distribution: AbstractDistribution, here: Point) -> Float[Array, ""]:
    """log w(x) = log π(x) − log q(x) at a point, up to a constant."""
    return here.logp - distribution.log_density(here.x)
