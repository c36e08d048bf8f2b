r"""Stochastic gradient Langevin dynamics (Welling & Teh 2011, equation 4; scalable-MCMC slides, "SGLD").

for t = 1, 2, …
    ĝ = ∇log p(θ) + (N/|B|) Σ_B ∇log p(y_i | θ), B a random batch   EstimatedDensity, RowFeed
    θ ← θ + ½ ε_t ĝ + N(0, ε_t I)                                   LangevinDynamics.move

The slides subtract the gradient of the log density and swap the conditions on ε_t. Here the gradient is added, and
Σ ε_t = ∞, Σ ε_t² < ∞ are checked. The gradient's own noise, ¼ ε_t² Var ĝ per move, is of higher order than ε_t and not
corrected.
"""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import unadjusted
from gadabout.kernels import LangevinDynamics
from gadabout.minibatch.step_sizes import StepSizes, bias_of, step_sizes
from gadabout.sampler import Sampler


@recipe
def sgld(step_size: float | StepSizes) -> Sampler:
    """Stochastic gradient Langevin dynamics: Langevin moves along gradients of minibatches.

    Args:
        step_size: ε_t, the variance of a move's noise: a number, or a schedule such as `polynomial(a, b, gamma)`.

    Raises:
        ValueError: if a setting is out of range.
    """
    epsilon = step_sizes(step_size)
    bias = bias_of("Langevin moves", epsilon)
    return unadjusted("sgld", Partial(_kernel, step_size=epsilon), bias)


def _kernel(n, learned, *, step_size):
    return LangevinDynamics(step_size)
