r"""Random walk Metropolis with one adapted variance: $q(y|x) = N(y|x, \delta I)$ (paper, section 4, baseline i)."""

from jax.tree_util import Partial

from gadabout.adaptations import AcceptanceRate
from gadabout.algorithms.settings import isotropic_start, optional_positive, probability, proposal_variance
from gadabout.driver import Sampler
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk


def rwm(*, target_acceptance: float = 0.25, step_size: float | None = None) -> Sampler:
    """Random walk Metropolis; its one variance δ follows the acceptance rate in warm-up.

    Args:
        target_acceptance: α*, in (0, 1).
        step_size: initial δ, the proposal's variance; 0.5/n by default.

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = AcceptanceRate(probability("target_acceptance", target_acceptance), proposal_variance)
    kernel = Partial(_kernel, step_size=optional_positive("step_size", step_size))
    return Sampler("rwm", kernel, adaptation, num_warmup=5_000)


def _kernel(n, *, step_size):
    return Metropolis(RandomWalk(isotropic_start(n, step_size)))
