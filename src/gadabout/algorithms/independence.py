r"""Independence Metropolis–Hastings (lectures, "Independence M-H").

Propose y ~ q, whatever x.                                         Independent.move
Accept with probability min{1, w(y)/w(x)}, w = π/q.                Metropolis.step
"""

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import NoAdaptation
from gadabout.algorithms.settings import optional_positive, positive
from gadabout.checks import shown
from gadabout.factors import Diagonal, Scaled
from gadabout.kernels import Metropolis
from gadabout.proposals import AbstractDistribution, Gaussian, Independent, StudentT
from gadabout.sampler import Sampler, known_factor


def independence(
    distribution: AbstractDistribution | None = None,
    *,
    scale: float = 1.0,
    degrees_of_freedom: float | None = None,
) -> Sampler:
    """Independence Metropolis–Hastings from a given distribution, Gaussian or Student-t; it learns nothing.

    `mixture_independence(1)` learns the mean and covariance of a Gaussian along the chain.

    Args:
        distribution: such as `Gaussian(mean, factor)`, `StudentT(mean, factor, degrees_of_freedom)` or one of yours.
            By default it is centred at zero with the scale matrix scale² I, or, with `warm_start`, at the mean that
            was found, with scale² times the covariance.
        scale: of the default.
        degrees_of_freedom: of the default, a Student-t if given; a Gaussian otherwise.

    Raises:
        ValueError: if a setting is out of range, or the distribution has not as many coordinates as the position.
    """
    if not (distribution is None or isinstance(distribution, AbstractDistribution)):
        raise TypeError(
            "distribution must be one of the library's, such as gadabout.proposals.Gaussian(mean, factor), or one that "
            f"derives from gadabout.AbstractDistribution, got {shown(distribution)}"
        )
    scale_, degrees = positive("scale", scale), optional_positive("degrees_of_freedom", degrees_of_freedom)
    kernel = Partial(_kernel, distribution=distribution, scale=scale_, degrees_of_freedom=degrees)
    return Sampler("independence", kernel, NoAdaptation())


def _kernel(n, learned, *, distribution, scale, degrees_of_freedom):
    if distribution is None:
        found, mean = known_factor(learned), None if learned is None else learned.mean
        centre = jnp.zeros(n) if mean is None else mean
        factor = Scaled(scale, Diagonal(jnp.ones(n)) if found is None else found)
        if degrees_of_freedom is None:
            return Metropolis(Independent(Gaussian(centre, factor)))
        return Metropolis(Independent(StudentT(centre, factor, degrees_of_freedom)))
    if distribution.dim != n:
        raise ValueError(f"distribution has {distribution.dim} coordinates, the position has {n}")
    return Metropolis(Independent(distribution))
