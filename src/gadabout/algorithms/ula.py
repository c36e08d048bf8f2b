r"""Unadjusted Langevin algorithm: MALA without its accept–reject step (scalable-MCMC slides, "Langevin MC").

for t = 1, 2, …
    θ ← θ + ½ ε ∇log π(θ) + N(0, ε I)                              LangevinDynamics.move

The stationary law has an error of O(ε) (Roberts & Tweedie 1996, section 1.4.1).
"""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import unadjusted
from gadabout.kernels import LangevinDynamics
from gadabout.minibatch.step_sizes import StepSizes, bias_of, constant, step_sizes
from gadabout.sampler import Sampler


@recipe
def ula(step_size: float | StepSizes) -> Sampler:
    """Unadjusted Langevin algorithm: full gradients, no rejection, a bias of the order of the step size.

    Args:
        step_size: ε, the variance of a move's noise; or a schedule such as `polynomial(a, b, gamma)`.

    Raises:
        ValueError: if a setting is out of range.
    """
    epsilon = step_sizes(step_size) if callable(step_size) else constant(step_size)
    bias = bias_of("Langevin moves", epsilon)
    return unadjusted("ula", Partial(_kernel, step_size=epsilon), bias)


def _kernel(n, learned, *, step_size):
    return LangevinDynamics(step_size)
