r"""Independence Metropolis–Hastings (lectures, "Independence M-H").

Propose y ~ q, independent of x.                                   Independent.move
Accept with probability min{1, w(y)/w(x)}, w = π/q.                Metropolis.step
"""

from jax.tree_util import Partial

from gadabout.adaptations import NoAdaptation
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import known_gaussian, optional_distribution, optional_positive, positive
from gadabout.factors import Scaled
from gadabout.kernels import Metropolis
from gadabout.proposals import AbstractDistribution, Gaussian, Independent, StudentT
from gadabout.sampler import Sampler


@recipe
def independence(
    distribution: AbstractDistribution | None = None,
    *,
    scale: float = 1.0,
    degrees_of_freedom: float | None = None,
) -> Sampler:
    """Independence Metropolis–Hastings from a given distribution, Gaussian or Student-t; no adaptation.

    `mixture_independence(1)` learns the mean and covariance of a Gaussian along the chain.

    Args:
        distribution: q, such as `Gaussian(mean, factor)`, `StudentT(mean, factor, degrees_of_freedom)` or the user's
            own. By default it is centred at zero with the scale matrix scale² I; with `warm_start`, at the learned
            mean with scale² times the learned covariance.
        scale: scale of the default distribution.
        degrees_of_freedom: those of the default distribution, a Student-t if given; a Gaussian otherwise.

    Raises:
        ValueError: if a setting is out of range, or distribution and position differ in their number of coordinates.
    """
    given = optional_distribution(distribution)
    scale_, degrees = positive("scale", scale), optional_positive("degrees_of_freedom", degrees_of_freedom)
    kernel = Partial(_kernel, distribution=given, scale=scale_, degrees_of_freedom=degrees)
    return Sampler("independence", kernel, NoAdaptation())


def _kernel(n, learned, *, distribution, scale, degrees_of_freedom):
    if distribution is None:
        centre, factor = known_gaussian(n, learned)
        factor = Scaled(scale, factor)
        if degrees_of_freedom is None:
            return Metropolis(Independent(Gaussian(centre, factor)))
        return Metropolis(Independent(StudentT(centre, factor, degrees_of_freedom)))
    if distribution.dim != n:
        raise ValueError(f"distribution has {distribution.dim} coordinates, the position has {n}")
    return Metropolis(Independent(distribution))
