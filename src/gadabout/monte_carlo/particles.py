"""The particles of sequential Monte Carlo: the result that holds them, their whitening and their resampling."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, PyTree

from gadabout.checks import check_array, check_function, shown
from gadabout.monte_carlo.arguments import Seed, as_flat, key_of
from gadabout.monte_carlo.plain import Estimate, average, evaluate


@dataclass(frozen=True)
class SequentialMonteCarlo:
    """Particles of the last temperature, equally weighted, and the trace of K stages.

    `flat_draws` are the particles as flat positions, shape (N, n). `temperatures` begins with 0, shape (K + 1,). The
    others have shape (K,): `ess` of the weights before each resampling, `acceptance_rate` of each stage's moves with
    frozen θ, and `log_increments`, each stage's contribution to the log marginal likelihood.
    """

    flat_draws: Float[np.ndarray, "particles n"]
    temperatures: Float[np.ndarray, " stages_and_one"]
    ess: Float[np.ndarray, " stages"]
    acceptance_rate: Float[np.ndarray, " stages"]
    log_increments: Float[np.ndarray, " stages"]
    warnings: tuple[str, ...] = ()
    unravel: Callable[[Any], PyTree] = as_flat
    """maps flat positions to the user's form"""

    @cached_property
    def draws(self) -> PyTree:
        """The particles in the user's form: a pytree like the model's position, each leaf of shape (N, ...)."""
        return jax.tree.map(np.asarray, self.unravel(self.flat_draws))

    @property
    def log_marginal_likelihood(self) -> Estimate:
        r"""log Ẑ, with the standard error $\sqrt{\sum_k (N/\mathrm{ESS}_k - 1)/N}$ for moves that mix perfectly.

        If they do not, it is too small; the spread of runs with other seeds is the safe measure.
        """
        N = len(self.flat_draws)
        return Estimate(np.sum(self.log_increments), np.sqrt(np.sum(N / self.ess - 1) / N))

    def expectation(self, f: Callable[..., Any]) -> Estimate:
        """E[f] of a number or an array f(θ), θ one of `draws`, over the particles.

        The standard error is that of independent draws, too small where moves mix badly.
        """
        check_function("f", f, "of one draw")
        return average(evaluate(f, self.draws))


class TemperingLimit(RuntimeError):
    """Raised if λ < 1 at the limit on stages; `partial` holds the particles of that temperature and the trace."""

    def __init__(self, message: str, partial: SequentialMonteCarlo):
        super().__init__(message)
        self.partial = partial


def whitening(x: Float[Array, "N n"], weights: Float[Array, " N"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """The weighted mean and lower Cholesky factor of the weighted covariance, or of its diagonal if it has none."""
    m = weights @ x
    centred = x - m
    covariance = (weights * centred.T) @ centred
    variances = jnp.diagonal(covariance)
    variances = jnp.where(variances > 0, variances, 1.0)
    C = jnp.linalg.cholesky(covariance + 1e-6 * jnp.diag(variances))
    return m, jnp.where(jnp.isfinite(C).all(), C, jnp.diag(jnp.sqrt(variances)))


def whiten(x: Float[Array, "N n"], m: Float[Array, " n"], C: Float[Array, "n n"]) -> Float[Array, "N n"]:
    """Solves x = m + C z for z, for all particles."""
    return jax.scipy.linalg.solve_triangular(C, (x - m).T, lower=True).T


def _checked(weights: Any) -> Array:
    values = check_array("weights", weights, "an array of shape (N,)")
    if values.ndim != 1 or not (values >= 0).all() or not values.sum() > 0:
        raise ValueError(
            f"weights must be numbers of at least 0, of shape (N,), with a sum above 0, got {shown(weights)}"
        )
    return jnp.asarray(weights, dtype=float)


def systematic_resampling(weights: Float[Array, " N"], *, seed: Seed = 0) -> Int[Array, " N"]:
    """Indices of N offspring: i appears ⌊N w_i⌋ or ⌈N w_i⌉ times, N w_i on average; weights need not sum to one.

    Under `jit` or `vmap` the seed must be a key. The comb (u + 0 … N − 1)/N, with one uniform u, selects from the
    cumulative weights (Douc, Cappé & Moulines 2005).
    """
    if not isinstance(weights, Tracer):
        weights = _checked(weights)
    N = weights.shape[0]
    cumulated = jnp.cumsum(weights)
    comb = (jax.random.uniform(key_of(seed), dtype=weights.dtype) + jnp.arange(N)) / N
    return jnp.clip(jnp.searchsorted(cumulated, comb * cumulated[-1], side="right"), 0, N - 1)
