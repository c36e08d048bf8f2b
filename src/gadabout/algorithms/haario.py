r"""Adaptive Metropolis of Haario, Saksman and Tamminen (2001), and with a global scale (Andrieu & Thoms 2008).

    Initialise μ_0 = mean of the starts, Γ_0 = scale² I, λ = 2.38²/n.      _kernel, Haario.init
    for k = 1, 2, 3, …
        Propose Y_k ~ N(X_{k-1}, λ (Γ_{k-1} + εI)), accept or reject.      RandomWalk, Metropolis.step
        log λ ← log λ + γ_k [α(X_{k-1}, Y_k) − α*]      (scaled only)      GlobalScale.update
        μ_k = μ_{k-1} + γ_k (X_k − μ_{k-1})                                Haario.update
        Γ_k = Γ_{k-1} + γ_k [(X_k − μ_{k-1})(X_k − μ_{k-1})ᵀ − Γ_{k-1}]    Haario.update

γ_k = 1/(k + 1) gives the source's sample covariance; the default forgets the start faster.
"""

import math
from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial

from gadabout.adaptations import Gain, GlobalScale, Haario, PowerGain, Together, check_gains
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import (
    for_ever,
    gain_sequence,
    initial_factor,
    non_negative,
    positive,
    probability,
    proposal_scale,
)
from gadabout.factors import Scaled
from gadabout.kernels import Metropolis
from gadabout.proposals import RandomWalk
from gadabout.sampler import Sampler


@recipe
def haario(
    *,
    gain: Gain | None = None,
    scale: float = 1.0,
    regularisation: float = 1e-8,
    adapt_for_ever: bool = False,
) -> Sampler:
    """Adaptive Metropolis of Haario, Saksman & Tamminen: a random walk with the chain's own covariance.

    Args:
        gain: γ as a function of k = 1, 2, …, at most 1; by default `PowerGain(1, 0.8, 20)`.
        scale: Γ starts at scale² I, in the units of x.
        regularisation: ε, added to the diagonal of Γ, in the squared units of x; 0 is Andrieu & Moulines' algorithm,
            whose covariance can collapse unless it is `reprojected`.
        adapt_for_ever: whether adaptation continues, with its diminishing gains, while draws are kept.

    Raises:
        ValueError: if a setting is out of range.
    """
    adaptation = Haario(_checked(gain), _factor, non_negative("regularisation", regularisation))
    return _sampler("haario", adaptation, scale, adapt_for_ever)


@recipe
def haario_scaled(
    *,
    target_acceptance: float = 0.234,
    gain: Gain | None = None,
    scale: float = 1.0,
    regularisation: float = 1e-8,
    adapt_for_ever: bool = False,
) -> Sampler:
    """Adaptive Metropolis with a global scale that follows the acceptance rate (Andrieu & Thoms, algorithm 4).

    Args:
        target_acceptance: α*, in (0, 1).
        gain: γ as a function of k = 1, 2, …, at most 1; by default `PowerGain(1, 0.8, 20)`.
        scale: Γ starts at scale² I, in the units of x.
        regularisation: ε, added to the diagonal of Γ, in the squared units of x; 0 is Andrieu & Moulines' algorithm,
            whose covariance can collapse unless it is `reprojected`.
        adapt_for_ever: whether adaptation continues, with its diminishing gains, while draws are kept.

    Raises:
        ValueError: if a setting is out of range.
    """
    gain = _checked(gain)
    alpha = probability("target_acceptance", target_acceptance)
    covariance = Haario(gain, _factor, non_negative("regularisation", regularisation))
    adaptation = Together((GlobalScale(gain, alpha, proposal_scale), covariance))
    return _sampler("haario-scaled", adaptation, scale, adapt_for_ever)


def _checked(gain: Gain | None) -> Gain:
    if gain is None:
        return PowerGain(1.0, 0.8, 20.0)
    check_gains(gain_sequence(gain, largest_first=1))  # a larger gain could make Γ indefinite
    return gain


def _sampler(name, adaptation, scale, adapt_for_ever):
    kernel = Partial(_kernel, scale=positive("scale", scale))
    return Sampler(name, kernel, for_ever(adaptation, adapt_for_ever), num_warmup=20_000)


def _kernel(n, learned, *, scale):
    h = jnp.asarray(2.38 / math.sqrt(n), dtype=float)
    return Metropolis(RandomWalk(Scaled(h, initial_factor(n, "dense", scale, learned))))


def _factor(kernel: Any):
    return kernel.proposal.factor.base
