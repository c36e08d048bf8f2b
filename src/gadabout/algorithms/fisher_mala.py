r"""Fisher-adaptive MALA (Titsias, *Optimal Preconditioning and Fisher Adaptive Langevin Sampling*, NeurIPS 2023).

A Langevin proposal of covariance s A, with A the current estimate of the inverse Fisher information:

    Initialise R = I, σ².                                             _kernel, R = I/√λ (see InverseFisher)
    for t = 1, 2, 3, …
        y ~ N(x + ½ s A g(x), s A), A = R Rᵀ, s = σ²/(tr A/n).        Langevin.move, Scaled, SquareRoot
        α = min{1, π(y) q(x|y) / π(x) q(y|x)}; accept y with α.       Metropolis.step
        After the first 500 iterations:
            d = √α (g(y) − g(x)), and R by a rank-one update.         InverseFisher.observe, fold
        σ² ← σ² [1 + ρ (α − α*)].                                     InverseFisher.update
    Freeze R and σ², and collect.                                     the sampling stage
"""

import math
from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import InverseFisher
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive, positive, probability
from gadabout.checks import check_whole
from gadabout.factors import Scaled, SquareRoot
from gadabout.kernels import Metropolis
from gadabout.proposals import Langevin
from gadabout.sampler import Sampler, known_factor


@recipe
def fisher_mala(
    *,
    target_acceptance: float = 0.574,
    step_size: float | None = None,
    step_size_rate: float = 0.015,
    damping: float = 10.0,
    plain_iterations: int = 500,
) -> Sampler:
    """Fisher-adaptive MALA: preconditioned by the inverse Fisher information, learned from gradient differences.

    Args:
        target_acceptance: α*, in (0, 1).
        step_size: initial σ, the square root of a proposal's mean variance over coordinates; √(0.5/n) by default.
        step_size_rate: ρ.
        damping: λ, the weight of the identity in the Fisher information.
        plain_iterations: iterations of plain MALA before R is learned; part of the warm-up.

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = InverseFisher(
        probability("target_acceptance", target_acceptance),
        _factor,
        positive("step_size_rate", step_size_rate),
        check_whole("plain_iterations", plain_iterations),
    )
    start = optional_positive("step_size", step_size)
    kernel = Partial(_kernel, step_size=start, damping=positive("damping", damping))
    return Sampler("fisher-mala", kernel, adaptation, num_warmup=20_000)


def _kernel(n, learned, *, step_size, damping):
    sigma = jnp.asarray(math.sqrt(0.5 / n), dtype=float) if step_size is None else step_size
    known = known_factor(learned)
    L = jnp.eye(n) if known is None else known.dense()
    return Metropolis(Langevin(Scaled(sigma * jnp.sqrt(damping), SquareRoot(L / jnp.sqrt(damping)))))


def _factor(kernel: Any):
    return kernel.proposal.factor
