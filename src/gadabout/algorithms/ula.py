r"""Unadjusted Langevin algorithm: MALA without its accept–reject step (scalable-MCMC slides, "Langevin MC").

for t = 1, 2, …
    θ ← θ + ½ ε ∇log π(θ) + N(0, ε I)                              LangevinDynamics.move

The stationary law is off by O(ε). Roberts & Tweedie 1996, section 1.4.1.
"""

from jax.tree_util import Partial

from gadabout.adaptations import Together
from gadabout.algorithms.schedules import Schedule, bias_of, constant, schedule
from gadabout.driver import Sampler
from gadabout.kernels import LangevinDynamics


def ula(step_size: float | Schedule) -> Sampler:
    """Unadjusted Langevin algorithm: full gradients, no rejection, a bias of the order of the step size.

    Args:
        step_size: ε, the variance of a move's noise; or a schedule such as `polynomial(a, b, gamma)`.

    Raises:
        ValueError: if a setting is out of range.
    """
    epsilon = schedule(step_size) if callable(step_size) else constant(step_size)
    bias = bias_of("Langevin moves", epsilon)
    return Sampler("ula", Partial(_kernel, step_size=epsilon), Together(()), num_warmup=1_000, bias=bias)


def _kernel(n, *, step_size):
    return LangevinDynamics(step_size)
