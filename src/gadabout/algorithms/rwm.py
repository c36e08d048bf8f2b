r"""Random walk Metropolis with one adapted step size: $q(y|x) = N(y|x, h^2 I)$ (paper, section 4, baseline i)."""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive, proposal_scale, scaled_start
from gadabout.algorithms.step_size import StepSizeRule, step_size_control
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


@recipe
def rwm(
    *,
    target_acceptance: float = 0.25,
    step_size: float | None = None,
    step_size_rule: StepSizeRule = "multiplicative",
) -> Sampler:
    """Random walk Metropolis; its one step size h follows the acceptance rate in warm-up.

    Args:
        target_acceptance: α*, in (0, 1).
        step_size: initial h, the proposal's standard deviation; √(0.5/n) by default.
        step_size_rule: "multiplicative" (the paper's, which moves h²), "proportional" (the lectures',
            h ← h exp(κ (α − α*))) or "dual-averaging" (Hoffman & Gelman's, whose averaged h is used for the draws).

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = step_size_control(step_size_rule, target_acceptance, proposal_scale, power=2)
    kernel = Partial(_kernel, step_size=optional_positive("step_size", step_size))
    return Sampler("rwm", kernel, adaptation, num_warmup=5_000)


def _kernel(n, learned, *, step_size):
    return Metropolis(RandomWalk(scaled_start(n, step_size, learned)))
