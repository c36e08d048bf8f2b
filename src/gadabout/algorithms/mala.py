r"""MALA with one adapted variance: $q(y|x) = N(y|x + \tfrac12\delta\nabla\log\pi(x), \delta I)$ (baseline iii)."""

from jax.tree_util import Partial

from gadabout.algorithms.settings import isotropic_start, optional_positive, proposal_variance
from gadabout.algorithms.step_size import StepSizeRule, step_size_control
from gadabout.driver import Sampler
from gadabout.kernels import Metropolis
from gadabout.proposals import Langevin


def mala(
    *,
    target_acceptance: float = 0.574,
    step_size: float | None = None,
    step_size_rule: StepSizeRule = "multiplicative",
) -> Sampler:
    """Metropolis-adjusted Langevin algorithm; its one variance δ follows the acceptance rate in warm-up.

    Args:
        target_acceptance: α*, in (0, 1). The paper gives 0.574; its slides and code use 0.54.
        step_size: initial δ, the proposal's variance; 0.5/n by default.
        step_size_rule: how δ follows the acceptance rate in warm-up: "multiplicative" (the paper's), "proportional" or
            "dual-averaging".

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = step_size_control(step_size_rule, target_acceptance, proposal_variance)
    kernel = Partial(_kernel, step_size=optional_positive("step_size", step_size))
    return Sampler("mala", kernel, adaptation, num_warmup=5_000)


def _kernel(n, *, step_size):
    return Metropolis(Langevin(isotropic_start(n, step_size)))
