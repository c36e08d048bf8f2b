r"""The Barker proposal with one adapted step size (Livingstone & Zanella 2022): $y = x + h\,(\pm z)$."""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive, proposal_scale, scaled_start
from gadabout.algorithms.step_size import StepSizeRule, step_size_control
from gadabout.kernels import Metropolis
from gadabout.proposals import Barker
from gadabout.sampler import Sampler


@recipe
def barker(
    *,
    target_acceptance: float = 0.4,
    step_size: float | None = None,
    step_size_rule: StepSizeRule = "multiplicative",
) -> Sampler:
    """Barker's proposal: the gradient chooses only the sign of each step, so that too large a step size does no harm.

    Args:
        target_acceptance: α*, in (0, 1).
        step_size: initial h, the standard deviation of a step; √(0.5/n) by default.
        step_size_rule: how h follows the acceptance rate in warm-up: "multiplicative", "proportional" or
            "dual-averaging".

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = step_size_control(step_size_rule, target_acceptance, proposal_scale, power=2)
    kernel = Partial(_kernel, step_size=optional_positive("step_size", step_size))
    return Sampler("barker", kernel, adaptation, num_warmup=5_000)


def _kernel(n, learned, *, step_size):
    return Metropolis(Barker(scaled_start(n, step_size, learned)))
