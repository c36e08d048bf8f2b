r"""Sequential Monte Carlo by tempering, with our samplers as moves (Del Moral, Doucet & Jasra 2006).

From $q_0$ to π through $\pi_\lambda \propto q_0^{1-\lambda}\pi^\lambda$, $0 = \lambda_0 < \dots < \lambda_K = 1$:

    θ_i ~ q₀,  i = 1 … N.                                                                     _start
    while λ < 1:
        w_i = (π(θ_i)/q₀(θ_i))^Δ with the Δ ≤ 1 − λ at which ESS(w) = share · N.              _reweigh, bisection
        log Z ← log Z + log 1/N Σ_i w_i.                                                      _reweigh
        m, C Cᵀ = weighted mean and covariance of the particles.                              whitening
        Resample: systematic.                                                                 systematic_resampling
        Move by a kernel that leaves π_{λ+Δ} invariant.                                       _move

The moves are a recipe's own transitions in the coordinates (θ − m) = C z, so that any sampler starts from the
particles' covariance; θ of its kernel and its memory are kept from stage to stage. In each stage it adapts for
`num_adapt` iterations, pooled over all particles, and is frozen for `num_moves`. Deviation from the source: schedule,
whitening and adaptation look at the particles, so that Ẑ is consistent but no longer exactly unbiased (Beskos, Jasra,
Kantas & Thiery 2016).
"""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.algorithms import mala
from gadabout.checks import check_probability, check_whole
from gadabout.monte_carlo.particles import (
    SequentialMonteCarlo,
    TemperingLimit,
    systematic_resampling,
    whiten,
    whitening,
)
from gadabout.proposals import AbstractDistribution
from gadabout.sampler import Sampler, State
from gadabout.target import Target

BISECTIONS = 50
LOWEST_ACCEPTANCE = 0.05


def smc(
    key: Key[Array, ""],
    distribution: AbstractDistribution,
    target: Target,
    num_particles: int = 1_000,
    *,
    sampler: Sampler | None = None,
    ess_share: float = 0.5,
    num_adapt: int = 10,
    num_moves: int = 10,
    max_stages: int = 200,
) -> SequentialMonteCarlo:
    """Sequential Monte Carlo from q₀ to the target by adaptive tempering.

    Args:
        key: all randomness comes from it; the same key gives the same particles.
        distribution: q₀, which must know its `log_normaliser`; the prior, or a Gaussian that covers the target.
        target: log π; where it is log p(θ, x), the marginal likelihood p(x) is estimated.
        num_particles: N, more than twice the number of coordinates.
        sampler: the moves, any recipe's result; MALA with a dual-averaged step size by default. Its proposal should
            begin near unit scale, for it moves in whitened coordinates.
        ess_share: the ESS that each stage's weights are tempered to, as a share of N.
        num_adapt: iterations a stage in which the sampler adapts, pooled over the particles.
        num_moves: iterations a stage with θ frozen.
        max_stages: where to give up.

    Raises:
        ValueError: if a setting is out of range, or no particle of q₀ falls where the target is positive.
        TemperingLimit: if λ = 1 is not reached in `max_stages`; the error keeps what was drawn.

    Warns:
        UserWarning: if a stage accepted less than 5 % of its moves; the text is kept in the result's `warnings`.
    """
    num_particles = check_whole("num_particles", num_particles, 2 * distribution.dim + 1)
    num_moves = check_whole("num_moves", num_moves)
    num_adapt = check_whole("num_adapt", num_adapt, 0)
    max_stages = check_whole("max_stages", max_stages)
    check_probability("ess_share", ess_share, "0.5 is usual")
    sampler = mala(step_size=0.2, step_size_rule="dual-averaging") if sampler is None else sampler
    bridge = Bridge(distribution, target)
    start_key, stages_key = jax.random.split(key)
    x, learned = _start(start_key, sampler, bridge, num_particles)
    λ, share, trace = jnp.zeros(()), jnp.asarray(ess_share, dtype=float), []
    while λ < 1 and len(trace) < max_stages:
        λ, log_weights, ess, increment = _reweigh(bridge, x, λ, share)
        if not np.isfinite(increment):
            raise ValueError("no particle falls where the target is positive; choose q₀ on its support")
        stage_key = jax.random.fold_in(stages_key, len(trace))
        x, learned, acceptance = _stage(stage_key, sampler, bridge, x, learned, λ, log_weights, num_adapt, num_moves)
        trace.append([float(number) for number in (λ, ess, acceptance, increment)])
    result = _result(x, trace)
    if λ < 1:
        raise TemperingLimit(
            f"λ = {float(λ):.3g} after max_stages = {max_stages}: q₀ is far from the target; choose a closer one "
            "(fit_gaussian), a lower ess_share or more stages. The particles so far are kept in this error's `partial`",
            result,
        )
    for message in result.warnings:
        warnings.warn(message, stacklevel=2)
    return result


class Bridge(eqx.Module):
    r"""$\log\pi_\lambda = (1 - \lambda)\log q_0 + \lambda\log\pi$ between a normalised q₀ and a target."""

    distribution: AbstractDistribution
    target: Target

    def log_ratio(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """log π − log q₀; −∞ where log π is not a number or +∞."""
        log_ratio = self.target.log_density(x) - self.distribution.normalised_log_density(x)
        return jnp.where(log_ratio < jnp.inf, log_ratio, -jnp.inf)

    def __call__(self, z: Float[Array, " n"], data: tuple[Array, Array, Array]) -> Float[Array, ""]:
        """log π_λ at x = m + C z, for data (λ, m, C) and λ > 0."""
        λ, m, C = data
        x = m + C @ z
        return (1 - λ) * self.distribution.normalised_log_density(x) + λ * self.target.log_density(x)


@eqx.filter_jit
def _start(key, sampler, bridge, num_particles):
    """Particles from q₀, and a kernel and memory that have learned nothing yet."""
    draw_key, sampler_key = jax.random.split(key)
    x = jax.vmap(bridge.distribution.sample)(jax.random.split(draw_key, num_particles))
    m, C = whitening(x, jnp.full(num_particles, 1 / num_particles))
    fresh = sampler.init(sampler_key, Target(bridge, (jnp.ones(()), m, C)), whiten(x, m, C))
    return x, (fresh.kernel, fresh.memory)


@eqx.filter_jit
def _reweigh(bridge, x, λ, share):
    """The next λ, the log weights that lead to it, their ESS, and the log of their mean.

    ESS falls as Δ grows. Particles where π is zero lose all weight at any Δ: the ESS is measured against the others.
    """
    log_ratio = jax.vmap(bridge.log_ratio)(x)
    aim = share * jnp.sum(jnp.isfinite(log_ratio))

    def log_ess(Δ):
        w = Δ * log_ratio
        return 2 * jax.nn.logsumexp(w) - jax.nn.logsumexp(2 * w)

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        enough = log_ess(middle) >= jnp.log(aim)
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    rest = 1 - λ
    _, Δ = jax.lax.fori_loop(0, BISECTIONS, halve, (jnp.zeros_like(λ), rest))
    last = log_ess(rest) >= jnp.log(aim)
    Δ = jnp.where(last, rest, Δ)
    weights = Δ * log_ratio
    increment = jax.nn.logsumexp(weights) - jnp.log(len(x))
    return jnp.where(last, 1.0, λ + Δ), weights, jnp.exp(log_ess(Δ)), increment


@eqx.filter_jit
def _stage(key, sampler, bridge, x, learned, λ, log_weights, num_adapt, num_moves):
    """Resamples the particles and moves them under π_λ; kernel and memory are those of the stage before."""
    resample_key, adapt_key, move_key = jax.random.split(key, 3)
    weights = jax.nn.softmax(log_weights)
    m, C = whitening(x, weights)
    x = x[systematic_resampling(resample_key, weights)]
    target, (kernel, memory) = Target(bridge, (λ, m, C)), learned
    state = State(kernel, memory, jax.vmap(lambda z: kernel.init(z, target))(whiten(x, m, C)))
    state, _ = _moves(adapt_key, sampler, state, target, num_adapt, True)
    state = sampler.finish(state) if num_adapt else state
    state, acceptance = _moves(move_key, sampler, state, target, num_moves, False)
    return m + state.position @ C.T, (state.kernel, state.memory), acceptance


def _moves(key, sampler, state, target, count, adapt):
    """The state after `count` iterations, and their mean acceptance rate."""

    def move(i, carry):
        state, total = carry
        state, record = sampler.step(jax.random.fold_in(key, i), state, target, adapt)
        return state, total + jnp.mean(record["acceptance_rate"])

    state, total = jax.lax.fori_loop(0, count, move, (state, jnp.zeros(())))
    return state, total / max(count, 1)


def _result(x: Array, trace: list[list[float]]) -> SequentialMonteCarlo:
    temperatures, ess, acceptance, increments = np.transpose(trace)
    messages, worst = (), int(np.argmin(acceptance))
    if acceptance[worst] < LOWEST_ACCEPTANCE:
        messages = (
            f"only {acceptance[worst]:.1%} of the moves of stage {worst + 1} were accepted: the particles hardly moved "
            "and the estimates are not to be trusted; use a larger num_adapt, another sampler or a smaller step size",
        )
    temperatures = np.concatenate([[0.0], temperatures])
    return SequentialMonteCarlo(np.asarray(x), temperatures, ess, acceptance, increments, messages)
