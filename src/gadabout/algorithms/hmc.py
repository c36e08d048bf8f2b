"""Hamiltonian Monte Carlo with an adapted step size (paper, baseline iv), which may be jittered (lectures)."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import ArrayLike

from gadabout.algorithms.recipe import recipe
from gadabout.algorithms.settings import optional_positive
from gadabout.algorithms.step_size import StepSizeRule, step_size_control
from gadabout.checks import check_array, check_non_negative, check_whole
from gadabout.factors import AbstractFactor, Cholesky, Diagonal
from gadabout.kernels import Metropolis
from gadabout.proposals import Hamiltonian, JitteredHamiltonian
from gadabout.sampler import Sampler, known_factor

MASS = "symmetric and positive definite, of shape (n, n), or (n,) if diagonal"


@recipe
def hmc(
    num_steps: int = 10,
    *,
    target_acceptance: float = 0.651,
    step_size: float | None = None,
    step_jitter: float = 0.0,
    steps_jitter: int = 0,
    step_size_rule: StepSizeRule = "multiplicative",
    inverse_mass_matrix: ArrayLike | None = None,
) -> Sampler:
    """Hamiltonian Monte Carlo; the step size follows the acceptance rate in warm-up and may be jittered.

    Args:
        num_steps: leapfrog steps per trajectory, and gradient evaluations per iteration.
        target_acceptance: α*, in (0, 1). The paper gives 0.651, its slides 0.67, its code 0.7.
        step_size: initial leapfrog step size h; 0.5/n by default.
        step_jitter: j in [0, 1): each trajectory's step size is uniform on h (1 ± j).
        steps_jitter: J from 0 to num_steps − 1: each trajectory's number of steps is uniform on num_steps ± J. Chains
            advance together, so that each waits for the longest trajectory among them.
        step_size_rule: "multiplicative" (the paper's), "proportional" (the lectures') or "dual-averaging" (Hoffman &
            Gelman's, whose averaged step size is used for the draws).
        inverse_mass_matrix: M⁻¹ = Σ, an estimate of the posterior's covariance: shape (n, n), or (n,) if
            diagonal; the identity by default.

    Raises:
        ValueError: if a setting is out of range.
    """
    N = check_whole("num_steps", num_steps)
    if check_non_negative("step_jitter", step_jitter) >= 1:
        raise ValueError(f"step_jitter must be at least 0 and below 1, got {step_jitter}; 0.1 to 0.5 are usual")
    steps_jitter = check_whole("steps_jitter", steps_jitter, 0, N - 1, wanted=f"from 0 to num_steps - 1 = {N - 1}")
    jittered = step_jitter > 0 or steps_jitter > 0
    known = None if inverse_mass_matrix is None else check_array("inverse_mass_matrix", inverse_mass_matrix, MASS)
    kernel = Partial(
        _jittered_kernel if jittered else _kernel,
        num_steps=N,
        step_size=optional_positive("step_size", step_size),
        factor=None if known is None else _factor(known),
        **({"jitters": (jnp.asarray(step_jitter, dtype=float), steps_jitter)} if jittered else {}),
    )
    adaptation = step_size_control(step_size_rule, target_acceptance, _base_step_size if jittered else _step_size)
    return Sampler("hmc", kernel, adaptation, num_warmup=5_000)


def _factor(Sigma: np.ndarray) -> AbstractFactor:
    """L with L Lᵀ = Σ."""
    dense = np.diag(Sigma) if Sigma.ndim == 1 else Sigma
    try:
        L = np.linalg.cholesky(dense)
    except np.linalg.LinAlgError:
        L = None
    if L is None or L.ndim != 2 or not L.size or not np.allclose(L @ L.T, dense):
        raise ValueError(f"inverse_mass_matrix must be {MASS}; got an array of shape {Sigma.shape}")
    return Diagonal(jnp.sqrt(Sigma)) if Sigma.ndim == 1 else Cholesky(jnp.asarray(L))


def _hamiltonian(n, learned, num_steps, step_size, factor):
    step_size = jnp.asarray(0.5 / n, dtype=float) if step_size is None else step_size
    if factor is None:
        known = known_factor(learned)
        factor = Diagonal(jnp.ones(n)) if known is None else known
    if factor.dim != n:
        raise ValueError(f"inverse_mass_matrix is for {factor.dim} coordinates, the position has {n}")
    return Hamiltonian(factor, step_size, num_steps)


def _kernel(n, learned, *, num_steps, step_size, factor):
    return Metropolis(_hamiltonian(n, learned, num_steps, step_size, factor))


def _jittered_kernel(n, learned, *, num_steps, step_size, factor, jitters):
    return Metropolis(JitteredHamiltonian(_hamiltonian(n, learned, num_steps, step_size, factor), *jitters))


def _step_size(kernel: Any):
    return kernel.proposal.step_size


def _base_step_size(kernel: Any):
    return kernel.proposal.base.step_size
