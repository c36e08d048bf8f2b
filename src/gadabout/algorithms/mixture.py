r"""Gaussian-mixture proposals learned by online EM (Andrieu & Moulines 2006, section 7).

Start the components at the chains' positions.                     OnlineEM.init
for k = 1, 2, 3, …
    Propose from the mixture, or walk with its local shape.        Independent.move, MixtureWalk.move
    Accept or reject.                                              Metropolis.step
    r_j ∝ w_j N(x | μ_j, Σ_j) at the new state.                    OnlineEM.observe
    S ← S + γ_k (s − S), w, μ, Σ from S.                           OnlineEM.update
"""

from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import ArrayLike

from gadabout.adaptations import Gain, OnlineEM, PowerGain, check_gains
from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import for_ever, gain_sequence, optional_positive, positive
from gadabout.checks import check_array, check_whole
from gadabout.factors import Cholesky
from gadabout.kernels import Metropolis
from gadabout.proposals import GaussianMixture, Independent, MixtureWalk
from gadabout.sampler import Sampler


@recipe
def mixture_independence(
    num_components: int = 2,
    *,
    scale: float = 1.0,
    means: ArrayLike | None = None,
    gain: Gain | None = None,
    regularisation: float = 1e-6,
    adapt_for_ever: bool = False,
) -> Sampler:
    """Independence Metropolis–Hastings from a Gaussian mixture that online EM learns along the chains.

    It jumps between modes that the chains have visited, but finds none by itself: start chains in all of them. `scale`
    should be within a few times a mode's width; otherwise chains rarely move for long before the mixture is learned.

    Args:
        num_components: K.
        scale: initial standard deviation of the components.
        means: initial means of the components, shape (K, n); by default the chains' positions, as far apart as these
            allow.
        gain: γ, a function of k = 1, 2, …, at most 1, such as the default `PowerGain(1.0, 0.7, 100)`, (k + 100)^−0.7.
        regularisation: added to the diagonal of every covariance, in units of x².
        adapt_for_ever: whether adaptation continues, with its diminishing gains, while draws are kept.

    Raises:
        ValueError: if a setting is out of range.

    Warns:
        UserWarning: if the gains violate a condition of convergence (see `check_gains`).
    """
    settings = _checked(num_components, scale, means)
    adaptation = _online_em(_independent_mixture, gain, means is None, regularisation, settings["K"])
    kernel = Partial(_independence, **settings)
    return Sampler("mixture-independence", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=5_000)


@recipe
def mixture_walk(
    num_components: int = 2,
    *,
    step_size: float | None = None,
    scale: float = 1.0,
    means: ArrayLike | None = None,
    gain: Gain | None = None,
    regularisation: float = 1e-6,
    adapt_for_ever: bool = False,
) -> Sampler:
    """Random walk Metropolis with a covariance for each mode, from a Gaussian mixture that online EM learns.

    Components are drawn by their responsibilities for the current state; the acceptance ratio corrects for that.

    Args:
        num_components: K.
        step_size: h, which multiplies the components' standard deviations; 2.38/√n by default.
        scale: initial standard deviation of the components.
        means: initial means of the components, shape (K, n); by default the chains' positions, as far apart as these
            allow.
        gain: γ, a function of k = 1, 2, …, at most 1, such as the default `PowerGain(1.0, 0.7, 100)`, (k + 100)^−0.7.
        regularisation: added to the diagonal of every covariance, in units of x².
        adapt_for_ever: whether adaptation continues, with its diminishing gains, while draws are kept.

    Raises:
        ValueError: if a setting is out of range.

    Warns:
        UserWarning: if the gains violate a condition of convergence (see `check_gains`).
    """
    settings = _checked(num_components, scale, means)
    adaptation = _online_em(_walk_mixture, gain, means is None, regularisation, settings["K"])
    kernel = Partial(_walk, step_size=optional_positive("step_size", step_size), **settings)
    return Sampler("mixture-walk", kernel, for_ever(adaptation, adapt_for_ever), num_warmup=5_000)


def _checked(num_components: int, scale: float, means: ArrayLike | None) -> dict[str, Any]:
    K = check_whole("num_components", num_components)
    start, wanted = None, f"an array of shape (num_components, n) = ({K}, n)"
    if means is not None:
        start = jnp.asarray(check_array("means", means, wanted), dtype=float)
        if start.ndim != 2 or start.shape[0] != K or not start.size:
            raise ValueError(f"means must have the shape (num_components, n) = ({K}, n), got {start.shape}")
    return {"K": K, "scale": positive("scale", scale), "means": start}


def _online_em(where, gain: Gain | None, start_at_chains: bool, regularisation: float, K: int) -> OnlineEM:
    if gain is None:
        gain = PowerGain(1.0, 0.7, 100.0)
    else:
        check_gains(gain_sequence(gain, largest_first=1))
    return OnlineEM(where, gain, positive("regularisation", regularisation), 0.01 / K, start_at_chains)


def _start(n, K, scale, means):
    means = jnp.zeros((K, n)) if means is None else means
    if means.shape[1] != n:
        raise ValueError(f"means are for {means.shape[1]} coordinates, the position has {n}")
    factors = Cholesky(jnp.broadcast_to(scale * jnp.eye(n), (K, n, n)))
    return GaussianMixture(jnp.full(K, 1 / K, dtype=float), means, factors)


def _independence(n, learned, *, K, scale, means):
    return Metropolis(Independent(_start(n, K, scale, means)))


def _walk(n, learned, *, K, scale, means, step_size):
    step_size = jnp.asarray(2.38 / n**0.5, dtype=float) if step_size is None else step_size
    return Metropolis(MixtureWalk(_start(n, K, scale, means), step_size))


def _independent_mixture(kernel: Any):
    return kernel.proposal.distribution


def _walk_mixture(kernel: Any):
    return kernel.proposal.mixture
