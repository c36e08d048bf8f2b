r"""Robust adaptive Metropolis (Vihola 2012).

    Initialise S = scale · I.                                              _kernel
    for k = 1, 2, 3, …
        Propose Y_k = X_{k-1} + S U_k, U_k ~ N(0, I), accept or reject.    RandomWalk, Metropolis.step
        S Sᵀ ← S (I + η_k (α_k − α*) U_k U_kᵀ / |U_k|²) Sᵀ                 Robust.update

with η_k = min(½, n (k + 1)^−0.66) by default.
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import Gain, PowerGain, Robust, check_gains
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import for_ever, gain_sequence, initial_factor, optional_positive, probability
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


@recipe
def ram(
    *,
    target_acceptance: float = 0.234,
    gain: Gain | None = None,
    scale: float | None = None,
    adapt_for_ever: bool = False,
) -> Sampler:
    """Robust adaptive Metropolis: a random walk whose factor follows the acceptance rate in each direction.

    Args:
        target_acceptance: α*, in (0, 1).
        gain: γ as a function of k = 1, 2, …; η = min(½, n γ); by default `PowerGain(1, 0.66, 1)`.
        scale: S starts at scale · I, in the units of x; 2.38/√n by default.
        adapt_for_ever: whether adaptation continues, with its diminishing gains, while draws are kept.

    Raises:
        ValueError: if a setting is out of range.
    """
    gain = PowerGain(1.0, 0.66, 1.0) if gain is None else gain_sequence(gain)
    check_gains(gain)
    adaptation = Robust(gain, probability("target_acceptance", target_acceptance), _factor)
    kernel = Partial(_kernel, scale=optional_positive("scale", scale))
    return Sampler("ram", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _kernel(n, learned, *, scale):
    scale = jnp.asarray(2.38 / n**0.5, dtype=float) if scale is None else scale
    return Metropolis(RandomWalk(initial_factor(n, "dense", scale, learned)))


def _factor(kernel: Any):
    return kernel.proposal.factor
