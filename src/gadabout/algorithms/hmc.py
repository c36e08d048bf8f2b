"""Hamiltonian Monte Carlo with a fixed number of leapfrog steps and an adapted step size (paper, baseline iv)."""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import AcceptanceRate
from gadabout.algorithms.settings import count, optional_positive, probability
from gadabout.driver import Sampler
from gadabout.factors import Diagonal
from gadabout.kernels import Metropolis
from gadabout.proposals import Hamiltonian


def hmc(num_steps: int = 10, *, target_acceptance: float = 0.651, step_size: float | None = None) -> Sampler:
    """Hamiltonian Monte Carlo with the unit metric; the step size follows the acceptance rate in warm-up.

    Args:
        num_steps: leapfrog steps of a trajectory, and gradient evaluations of an iteration.
        target_acceptance: α*, in (0, 1). The paper gives 0.651, its slides 0.67, its code 0.7.
        step_size: initial leapfrog step size; 0.5/n by default.

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = AcceptanceRate(probability("target_acceptance", target_acceptance), _step_size)
    start = optional_positive("step_size", step_size)
    kernel = Partial(_kernel, num_steps=count("num_steps", num_steps), step_size=start)
    return Sampler("hmc", kernel, adaptation, num_warmup=5_000)


def _kernel(n, *, num_steps, step_size):
    step_size = jnp.asarray(0.5 / n, dtype=float) if step_size is None else step_size
    return Metropolis(Hamiltonian(Diagonal(jnp.ones(n)), step_size, num_steps))


def _step_size(kernel: Any):
    return kernel.proposal.step_size
