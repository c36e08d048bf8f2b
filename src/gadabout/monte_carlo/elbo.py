r"""A Gaussian fitted to the target by maximising the evidence lower bound (ELBO).

$\mathcal L(m, L) = E_q[\log\pi - \log q] \le \log\int\pi$, $q = N(m, LL^\top)$ (lectures, "Importance sampling and
variational inference"). With x = m + Lz, z ~ N(0, I), in coordinates whitened by the present q, where x = m + L(a + Bz)
with a = 0 and B = I, the reparametrised gradients are

    u = Lᵀ ∇_x(log π(x) − log q(x)) = Lᵀ ∇ log π(x) + z                       _gradients
    ∇_a 𝓛 = E[u],  ∇_B 𝓛 = [E[u zᵀ]]_lower                                    factor.outer, pooled_sum
    m ← m + ρ_t L ∇_a,  L ← L (I + ρ_t ∇_B)                                   _ascend

The z in u is the gradient of −log q along the path (Roeder, Wu & Duvenaud 2017, equation 8); its mean over z is the
gradient of log|L|, the entropy. Taken at the draws, noise vanishes as q meets a Gaussian target. In whitened
coordinates steps have no units: this is natural-gradient ascent, but for a factor 2 on the diagonal of B.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.checks import check_one_of, check_whole
from gadabout.factors import AbstractFactor, Cholesky, Diagonal, isotropic, pooled_sum
from gadabout.monte_carlo.importance import lower_bound
from gadabout.monte_carlo.plain import Estimate
from gadabout.proposals import AbstractDistribution, Gaussian, importance_sample
from gadabout.target import Target

LARGEST_STEP = 0.5
"""in units of q's own scale: L shrinks to no less than half of itself in one step"""


@dataclass(frozen=True)
class GaussianFit:
    """The fitted `distribution`, its ELBO from fresh draws, and the trace of the ELBO, one value a step.

    With q its distribution, it is a start (`gad.sample(…, init=lambda key: q.sample(key))`), a proposal
    (`gad.independence(q)`) and an importance q (`importance(key, q, target, num_draws)`).
    """

    distribution: Gaussian
    elbo: Estimate
    trace: Float[np.ndarray, " steps"]
    warnings: tuple[str, ...] = ()


def elbo(key: Key[Array, ""], distribution: AbstractDistribution, target: Target, num_draws: int) -> Estimate:
    """E_q[log π − log q] with standard error, −∞ where a draw has no weight; ValueError for < 2 draws."""
    num_draws = check_whole("num_draws", num_draws, 2)
    return lower_bound(_log_weights(key, distribution, target, num_draws))


def fit_gaussian(
    key: Key[Array, ""],
    target: Target,
    start: Gaussian | Float[Array, " n"],
    *,
    factor: str = "dense",
    num_steps: int = 1_000,
    num_draws: int = 64,
    step_size: float = 0.3,
) -> GaussianFit:
    """The Gaussian that maximises the ELBO, by stochastic ascent with reparametrised gradients.

    Steps ρ_t = step_size / (1 + 10 t / num_steps) are shortened where they exceed half of q's scale. Draws at which
    log π or its gradient is not finite contribute nothing to a step, and are told of.

    Args:
        key: all randomness comes from it; the same key gives the same fit.
        target: log π, normalised or not, with a gradient.
        start: where to begin, a Gaussian whose factor is `Cholesky` or `Diagonal`, or a mean with L = I.
        factor: "dense" or "diagonal", where `start` is a mean.
        num_steps: steps of the ascent.
        num_draws: z's a step, all of which are evaluated at once.
        step_size: ρ₀, without units.

    Raises:
        TypeError: if the factor of `start` is neither `Cholesky` nor `Diagonal`.
        ValueError: if a setting is out of range, or no draw is finite at the start or the end.
    """
    num_steps = check_whole("num_steps", num_steps, 1)
    num_draws = check_whole("num_draws", num_draws, 2)
    if not 0 < step_size <= 1:
        raise ValueError(f"step_size must lie in (0, 1], got {step_size}")
    check_one_of("factor", factor, ("dense", "diagonal"))
    if not isinstance(start, Gaussian):
        mean = jnp.asarray(start, dtype=float)
        start = Gaussian(mean, isotropic(mean.shape[0], jnp.asarray(1.0), factor))
    if not isinstance(start.factor, Cholesky | Diagonal):
        raise TypeError(f"the factor of start must be Cholesky or Diagonal, got {type(start.factor).__name__}")
    fit_key, elbo_key = jax.random.split(key)
    q, trace, lost = _fit(fit_key, target, start, jnp.asarray(step_size, dtype=float), num_steps, num_draws)
    bound = elbo(elbo_key, q, target, max(num_draws, 1_000))
    if float(lost[0]) == num_draws or not jnp.isfinite(q.factor.log_det()):
        raise ValueError("log π or its gradient is not finite around start; choose a start inside the support")
    messages = ()
    if (total := int(lost.sum())) > 0:
        messages = (f"log π or its gradient was not finite at {total} of {num_steps * num_draws} draws of the fit",)
        warnings.warn(messages[0], stacklevel=2)
    return GaussianFit(q, bound, np.asarray(trace), messages)


@eqx.filter_jit
def _log_weights(key, distribution, target, num_draws):
    return importance_sample(key, distribution, target, num_draws)[1] + distribution.log_normaliser()


@eqx.filter_jit
def _fit(key, target, start, step_size, num_steps, num_draws):
    def step(q, t):
        z = jax.vmap(q.noise)(jax.random.split(jax.random.fold_in(key, t), num_draws))
        u, log_weights, finite = jax.vmap(lambda z: _gradients(q, target, z))(z)
        q = _ascend(q, u, z, step_size / (1 + 10 * t / num_steps))
        bound = jnp.sum(jnp.where(finite, log_weights, 0)) / jnp.sum(finite)
        return q, (bound, jnp.sum(~finite))

    q, (trace, lost) = jax.lax.scan(step, start, jnp.arange(num_steps))
    return q, trace, lost


def _gradients(q: Gaussian, target: Target, z: Float[Array, " n"]):
    """u = Lᵀ∇(log π − log q) at x = m + Lz, the log weight there, and whether both are finite; else u is zero."""
    here = target.at(q.draw(z), 1)
    u = q.factor.tmul(here.grad) + z
    return jnp.where(here.finite, u, 0), here.logp - q.normalised_log_density(here.x), here.finite


def _ascend(q: Gaussian, u: Float[Array, "draws n"], z: Float[Array, "draws n"], step_size: Array) -> Gaussian:
    """One step in whitened coordinates, shortened so that (a, B) moves by no more than LARGEST_STEP."""
    d_a = jnp.mean(u, 0)
    d_B = jax.tree.map(lambda g: g / len(z), pooled_sum(jax.vmap(q.factor.outer)(u, z)))
    length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves((d_a, d_B))))
    rate = jnp.minimum(step_size, LARGEST_STEP / length)
    return Gaussian(q.mean + rate * q.factor.mul(d_a), _times(q.factor, rate, d_B))


def _times(factor: AbstractFactor, rate: Array, d_B: Any) -> AbstractFactor:
    """L (I + rate · d_B), of the kind of L."""
    if isinstance(factor, Diagonal):
        return Diagonal(factor.scale * (1 + rate * d_B.scale))
    return Cholesky(factor.matrix + rate * factor.matrix @ d_B.matrix)  # pyright: ignore[reportAttributeAccessIssue]
