r"""Stochastic gradient Nosé–Hoover thermostat (Ding et al. 2014, algorithm 2, with v = p h, ε = h², a = A h).

for t = 1, 2, …
    ĝ = ∇log p(θ) + (N/|B|) Σ_B ∇log p(y_i | θ)                     EstimatedDensity, RowFeed
    v ← v + ε_t ĝ − ξ v + N(0, 2 a ε_t I)                           NoseHooverThermostat.move
    θ ← θ + v                                                       NoseHooverThermostat.move
    ξ ← ξ + vᵀv/n − ε_t, from ξ = a                                 NoseHooverThermostat.move

The thermostat ξ replaces α in the drag only, and finds the friction at which v has the variance ε_t. It removes the
energy that the gradient's noise adds, without an estimate of that noise, as far as the noise is isotropic. Momentum
starts at zero.
"""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import probability, unadjusted
from gadabout.kernels import NoseHooverThermostat
from gadabout.minibatch.step_sizes import StepSizes, bias_of, step_sizes
from gadabout.sampler import Sampler


@recipe
def sgnht(step_size: float | StepSizes, *, friction: float = 0.1) -> Sampler:
    """Stochastic gradient Nosé-Hoover thermostat: stochastic gradient HMC whose friction adapts to the noise.

    Args:
        step_size: ε_t, the variance of v.
        friction: a in (0, 1), the initial friction ξ and the scale of the added noise.

    Raises:
        ValueError: if a setting is out of range.
    """
    epsilon = step_sizes(step_size)
    kernel = Partial(_kernel, step_size=epsilon, friction=probability("friction", friction))
    return unadjusted("sgnht", kernel, bias_of("moves with momentum", epsilon))


def _kernel(n, learned, *, step_size, friction):
    return NoseHooverThermostat(step_size, friction)
