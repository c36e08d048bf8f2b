r"""MALA with one adapted step size: $q(y|x) = N(y|x + \tfrac12h^2\nabla\log\pi(x), h^2 I)$ (baseline iii)."""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive, proposal_scale, scaled_start
from gadabout.algorithms.step_size import StepSizeRule, step_size_control
from gadabout.kernels import Metropolis
from gadabout.proposals import Langevin
from gadabout.sampler import Sampler


@recipe
def mala(
    *,
    target_acceptance: float = 0.574,
    step_size: float | None = None,
    step_size_rule: StepSizeRule = "multiplicative",
) -> Sampler:
    """Metropolis-adjusted Langevin algorithm; its one step size h follows the acceptance rate in warm-up.

    Args:
        target_acceptance: α*, in (0, 1). The paper gives 0.574; its slides and code use 0.54.
        step_size: initial h, the proposal's standard deviation; √(0.5/n) by default. One leapfrog step of this size
            makes the same move.
        step_size_rule: how h follows the acceptance rate in warm-up: "multiplicative" (the paper's), "proportional" or
            "dual-averaging".

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = step_size_control(step_size_rule, target_acceptance, proposal_scale, power=2)
    kernel = Partial(_kernel, step_size=optional_positive("step_size", step_size))
    return Sampler("mala", kernel, adaptation, num_warmup=5_000)


def _kernel(n, learned, *, step_size):
    return Metropolis(Langevin(scaled_start(n, step_size, learned)))
