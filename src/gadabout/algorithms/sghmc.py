r"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox & Guestrin 2014, equation 15).

for t = 1, 2, …
    ĝ = ∇log p(θ) + (N/|B|) Σ_B ∇log p(y_i | θ)                     EstimatedDensity, RowFeed
    v ← v + ε_t ĝ − α v + N(0, 2 (α − β̂) ε_t I)                     StochasticHamiltonian.move
    θ ← θ + v                                                       StochasticHamiltonian.move

Friction removes the energy that the gradient's noise adds; without friction (naive minibatch HMC) the energy grows for
ever (their theorem 3.1). ε_t is the square of a leapfrog step size, and v is that step size times the momentum. The
momentum starts at zero and is never resampled.
"""

from jax.tree_util import Partial

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import positive, unadjusted
from gadabout.checks import check_non_negative, check_probability
from gadabout.kernels import StochasticHamiltonian
from gadabout.minibatch.step_sizes import StepSizes, bias_of, step_sizes
from gadabout.sampler import Sampler


@recipe
def sghmc(step_size: float | StepSizes, *, friction: float = 0.1, noise_estimate: float = 0.0) -> Sampler:
    """Stochastic gradient HMC: moves with momentum, along gradients of minibatches, with friction.

    Args:
        step_size: ε_t, the variance of v.
        friction: α in (0, 1), the share of the momentum that a move loses.
        noise_estimate: β̂ = ½ ε Var ĝ, the gradient's own share of the noise; at least 0 and below α.

    Raises:
        ValueError: if a setting is out of range.
    """
    check_probability("friction", friction, "typical values are 0.01 to 0.1")
    if check_non_negative("noise_estimate", noise_estimate) >= friction:
        raise ValueError(f"noise_estimate must be at least 0 and below friction = {friction}, got {noise_estimate}")
    epsilon = step_sizes(step_size)
    alpha = positive("friction", friction)
    kernel = Partial(_kernel, step_size=epsilon, friction=alpha, noise_estimate=alpha * (noise_estimate / friction))
    return unadjusted("sghmc", kernel, bias_of("moves with momentum", epsilon))


def _kernel(n, learned, *, step_size, friction, noise_estimate):
    return StochasticHamiltonian(step_size, friction, noise_estimate)
