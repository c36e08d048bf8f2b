r"""A Gaussian fitted to the target by maximising the evidence lower bound (ELBO).

$\mathcal L(m, L) = E_q[\log\pi - \log q] \le \log\int\pi$, $q = N(m, LL^\top)$ (lectures, "Importance sampling and
variational inference"). With x = m + Lz, z ~ N(0, I), in coordinates whitened by the current q, where x = m + L(a + Bz)
with a = 0 and B = I, the reparametrised gradients are

    u = Lᵀ ∇_x(log π(x) − log q(x)) = Lᵀ ∇ log π(x) + z                       gradients
    ∇_a 𝓛 = E[u],  ∇_B 𝓛 = [E[u zᵀ]]_lower                                    factor.outer, pooled_sum
    m ← m + ρ_t L ∇_a,  L ← L (I + ρ_t ∇_B)                                   _ascend, factor.times

The z in u is the gradient of −log q along the path (Roeder, Wu & Duvenaud 2017, equation 8); its mean over z is the
gradient of log|L|, the entropy. With z taken at the draws, gradient noise vanishes as q approaches a Gaussian target.
Steps in whitened coordinates have no units: this is natural-gradient ascent, but for a factor 2 on the diagonal of B.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gadabout.checks import check_one_of, check_positive, check_whole
from gadabout.driver import check_memory
from gadabout.factors import FactorKind, isotropic, pooled_sum
from gadabout.layout import Layout
from gadabout.monte_carlo.arguments import Density, Seed, check_room, flat_start, fresh_for, key_of, model_of
from gadabout.monte_carlo.importance import lower_bound, weigh
from gadabout.monte_carlo.plain import Estimate
from gadabout.programs import program
from gadabout.proposals import AbstractDistribution, Gaussian
from gadabout.target import Target, fresh

LARGEST_STEP = 0.5
"""largest step in units of q's own scale, with which L shrinks to no less than half of itself"""

STATIONARY = 0.1
"""largest entry of the remaining gradient of a converged fit, in units of q's own scale"""


@dataclass(frozen=True)
class GaussianFit:
    """The fitted `distribution` of flat positions, its ELBO from fresh draws, and the ELBO's trace, one value a step.

    It provides a start (`gad.sample(…, init=fit.start)`); its distribution q can be a proposal (`gad.independence(q)`)
    or the q of importance sampling (`importance(model, q)`).
    """

    distribution: Gaussian
    elbo: Estimate
    trace: Float[np.ndarray, " steps"]
    warnings: tuple[str, ...] = ()
    layout: Layout | None = None
    """layout of the model's position; None where the position is a vector"""

    def start(self, key: Key[Array, ""]) -> PyTree:
        """A draw from the distribution, as a position that the log density takes."""
        x = self.distribution.sample(key)
        return x if self.layout is None else self.layout.unravel(x)


def elbo(
    model: Density,
    distribution: AbstractDistribution,
    *,
    num_draws: int = 1_000,
    seed: Seed = 0,
    data: PyTree = None,
) -> Estimate:
    """E_q[log π − log q] with standard error; −∞ if any draw has zero weight.

    Args:
        model: log π, as `sample` takes it, or a `Target`.
        distribution: q, of flat positions, with a `log_normaliser`.
        num_draws: draws from q, at least 2.
        seed: an integer below 2³², or a key of `jax.random.key`.
        data: a pytree of arrays passed to the log density, where `model` is a function of (position, data).

    Raises:
        ValueError, TypeError: for an argument out of range or of the wrong type.
    """
    target, key = fresh_for(model_of(model, data, distribution).target, distribution), key_of(seed)
    num_draws = check_room("num_draws", check_whole("num_draws", num_draws, 2), distribution.dim)
    return lower_bound(weigh(key, distribution, target, num_draws)[1])


def fit_gaussian(
    model: Density,
    init: Gaussian | PyTree | Callable[[Any], PyTree] = None,
    *,
    factor: FactorKind = "dense",
    num_steps: int = 1_000,
    num_draws: int = 64,
    step_size: float = 0.3,
    seed: Seed = 0,
    data: PyTree = None,
) -> GaussianFit:
    """The Gaussian that maximises the ELBO, by stochastic ascent with reparametrised gradients.

    Steps ρ_t = step_size / (1 + 10 t / num_steps) are shortened where they exceed half of q's scale. Draws at which
    log π or its gradient is not finite contribute nothing to a step. They cause a warning, as does a fit that has not
    converged after `num_steps`.

    Args:
        model: log π, normalised or not, with a gradient, as `sample` takes it, or a `Target`.
        init: the start: a position in the user's form, or a function of a key that draws one, as the mean with L = I;
            or a Gaussian of flat positions, whose factor has a product `times`. May be left out if the model has a
            start of its own.
        factor: "dense" or "diagonal"; unused if `init` is a Gaussian.
        num_steps: steps of the ascent.
        num_draws: draws of z in each step, all evaluated at once.
        step_size: ρ₀, in (0, 1], without units.
        seed: an integer below 2³², or a key of `jax.random.key`; the same seed gives the same fit.
        data: a pytree of arrays passed to the log density, where `model` is a function of (position, data).

    Raises:
        TypeError: if an argument has the wrong type, or the factor of `init` has no product `times`.
        ValueError: if a setting is out of range, no draw is finite at the start, or the fitted log |L| is not finite.

    Warns:
        UserWarning: if draws were not finite, or the fit did not converge; the texts are kept in `warnings`.
    """
    num_steps = check_whole("num_steps", num_steps, 1)
    num_draws = check_whole("num_draws", num_draws, 2)
    if check_positive("step_size", step_size) > 1:
        raise ValueError(f"step_size must lie in (0, 1], got {step_size}")
    check_one_of("factor", factor, ("dense", "diagonal"))
    start_key, fit_key, elbo_key, check_key = jax.random.split(key_of(seed), 4)
    model, start = _begin(model, data, init, factor, start_key)
    target = fresh(model.target, start.dim, 1)
    q, trace, lost = _fit(fit_key, target, start, jnp.asarray(step_size, dtype=float), num_steps, num_draws)
    if float(lost[0]) == num_draws or not jnp.isfinite(q.factor.log_det()):
        raise ValueError("log π or its gradient is not finite around init; choose a start inside the support")
    bound = lower_bound(weigh(elbo_key, q, target, max(num_draws, 1_000))[1])
    messages = []
    if (total := int(lost.sum())) > 0:
        messages.append(f"log π or its gradient was not finite at {total} of {num_steps * num_draws} draws of the fit")
    if not (left := float(_remaining(check_key, q, target, max(num_draws, 1_000)))) <= STATIONARY:
        messages.append(
            f"the fit did not converge: its next full step would still be {left:.2g} of its own standard deviations; "
            f"take more steps (num_steps above {num_steps}) or a start nearer to the target"
        )
    for message in messages:
        warnings.warn(message, stacklevel=2)
    return GaussianFit(q, bound, np.asarray(trace), tuple(messages), model.layout)


def _begin(model: Density, data: PyTree, init: Any, factor: FactorKind, key: Key[Array, ""]):
    """The model, laid out unless `init` is a Gaussian, and the initial Gaussian."""
    if isinstance(init, AbstractDistribution):
        model = model_of(model, data, init)
        if not (isinstance(init, Gaussian) and hasattr(init.factor, "times")):
            kind = type(init.factor if isinstance(init, Gaussian) else init).__name__
            raise TypeError(
                f"init: two factors of a fitted Gaussian must have a product of their kind, as Cholesky and Diagonal "
                f"have; its factor must be Cholesky or Diagonal, got {kind}"
            )
        return model, init
    model, mean = flat_start(model_of(model, data), init, key)
    n, size = mean.shape[0], mean.dtype.itemsize
    needed = 2 * n * n * size if factor == "dense" else n * size
    check_memory(needed, 1, f"init: factors of {n:,} coordinates", "use factor='diagonal'")
    return model, Gaussian(mean, isotropic(mean.shape[0], jnp.ones((), mean.dtype), factor))


@program
def _remaining(key, q, target, num_draws):
    """Largest |entry| of (∇_a, ∇_B) at q beyond four standard errors; 0 where the lower bound is stationary."""
    z = jax.vmap(q.noise)(jax.random.split(key, num_draws))
    u = jax.vmap(lambda z: gradients(q, target, z)[0])(z)
    totals = lambda u, z: (jnp.sum(u, 0), pooled_sum(jax.vmap(q.factor.outer)(u, z)))
    means, squares = (jax.tree.map(lambda g: g / num_draws, totals(u**p, z**p)) for p in (1, 2))
    error = lambda m, s: jnp.sqrt(jnp.maximum(s - m**2, 0) / num_draws)
    beyond = jax.tree.map(lambda m, s: jnp.max(jnp.abs(m) - 4 * error(m, s)), means, squares)
    return jnp.max(jnp.stack([jnp.maximum(leaf, 0) for leaf in jax.tree.leaves(beyond)]))


@program
def _fit(key, target, start, step_size, num_steps, num_draws):
    def step(q, t):
        z = jax.vmap(q.noise)(jax.random.split(jax.random.fold_in(key, t), num_draws))
        u, log_weights, finite = jax.vmap(lambda z: gradients(q, target, z))(z)
        q = _ascend(q, u, z, step_size / (1 + 10 * t / num_steps))
        bound = jnp.sum(jnp.where(finite, log_weights, 0)) / jnp.sum(finite)
        return q, (bound, jnp.sum(~finite))

    q, (trace, lost) = jax.lax.scan(step, start, jnp.arange(num_steps))
    return q, trace, lost


def gradients(q: Gaussian, target: Target, z: Float[Array, " n"]):
    """u = Lᵀ∇(log π − log q) at x = m + Lz, the log weight, and whether log π and ∇ log π are finite; else u = 0."""
    here = target.at(q.draw(z), 1)
    u = q.factor.tmul(here.grad) + z
    return jnp.where(here.finite, u, 0), here.logp - q.normalised_log_density(here.x), here.finite


def _ascend(q: Gaussian, u: Float[Array, "draws n"], z: Float[Array, "draws n"], step_size: Array) -> Gaussian:
    """One step in whitened coordinates, shortened so that (a, B) moves by no more than LARGEST_STEP."""
    d_a = jnp.mean(u, 0)
    d_B = jax.tree.map(lambda g: g / len(z), pooled_sum(jax.vmap(q.factor.outer)(u, z)))
    length = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves((d_a, d_B))))
    rate = jnp.minimum(step_size, LARGEST_STEP / length)
    factor: Any = q.factor
    factor = jax.tree.map(lambda L, d_L: L + rate * d_L, factor, factor.times(d_B))  # L (I + rate · ∇_B)
    return Gaussian(q.mean + rate * q.factor.mul(d_a), factor)
