r"""Local moves, and independence proposals between them (Samsonov et al. 2022, "Ex²MCMC").

Every 32nd transition: one of the local sampler's.                 LocalGlobal.step
Else propose y ~ q, whatever x,                                    AbstractDistribution.draw
    and x with ½ added to the uniforms that it is drawn by, in turn.   ScaleMixture.half_turn
Accept with probability min{1, w(y)/w(x)}, w = π/q.                LocalGlobal.run
"""

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import NoAdaptation
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import fitting, known_gaussian, optional_distribution
from gadabout.checks import check_one_of, check_whole, shown
from gadabout.factors import FactorChoice, of_kind
from gadabout.kernels import LocalGlobal
from gadabout.proposals import AbstractDistribution, ScaleMixture, no_tails
from gadabout.proposals.scale_mixture import SCALES
from gadabout.sampler import Sampler


@recipe
def local_global(
    local: Sampler,
    distribution: AbstractDistribution | None = None,
    *,
    factor: FactorChoice = "auto",
    period: int = 32,
) -> Sampler:
    """Independence proposals, all of a period at once, with a move of another sampler before them; it learns nothing.

    Args:
        local: a recipe's result whose chain keeps no more than a point, such as `split_hmc()` or `mala()`.
        distribution: q. By default a Gaussian at several scales (`proposals.ScaleMixture`), at the mean and with the
            covariance that were found (see `warm_start`, and `default`, which finds them), or at 0 with I.
        factor: that of the default; "auto" is what was found, "diagonal" its standard deviations.
        period: transitions from one local move to the next.

    Raises:
        TypeError: if `local` is no sampler.
        ValueError: if a setting is out of range, the chain of `local` keeps more than a point, or the distribution has
            not as many coordinates as the position.
    """
    if not isinstance(local, Sampler):
        raise TypeError(f"local must be a recipe's result, such as split_hmc(), got {shown(local)}")
    if not local.state_is_point:
        raise ValueError(f"local: the chain of {local.name} keeps more than a point; choose one that does not")
    check_one_of("factor", factor, ("auto", "dense", "diagonal"))
    kernel = Partial(
        _kernel,
        local=local,
        distribution=optional_distribution(distribution),
        kind=factor,
        period=check_whole("period", period, 2),
    )
    return Sampler("local-global", kernel, NoAdaptation(), exact=local.exact, bias=local.bias, state_is_point=False)


def _kernel(n, learned, *, local, distribution, kind, period):
    if distribution is None:
        mean, factor = known_gaussian(n, learned)
        factor = factor if kind == "auto" else of_kind(kind, factor)
        plain = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), no_tails(n))
        distribution = ScaleMixture(mean, factor, plain, jnp.full(len(SCALES), 1 / len(SCALES)))
    return LocalGlobal(local.kernel(n, learned), fitting(distribution, n, "distribution"), period)
