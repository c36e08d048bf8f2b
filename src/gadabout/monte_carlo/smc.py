r"""Sequential Monte Carlo by tempering, with the library's samplers as moves (Del Moral, Doucet & Jasra 2006).

From $q_0$ to π through $\pi_\lambda \propto q_0^{1-\lambda}\pi^\lambda$, $0 = \lambda_0 < \dots < \lambda_K = 1$:

    θ_i ~ q₀,  i = 1 … N.                                                                     _start
    while λ < 1:
        w_i = (π(θ_i)/q₀(θ_i))^Δ with the Δ ≤ 1 − λ at which ESS(w) = share · N.              _reweigh, bisection
        log Z ← log Z + log 1/N Σ_i w_i.                                                      _reweigh
        m, C Cᵀ = weighted mean and covariance of the particles.                              whitening
        Resample: systematic.                                                                 systematic_resampling
        Move by a kernel that leaves π_{λ+Δ} invariant.                                       _move

The moves are a recipe's own transitions in the coordinates z of θ − m = C z, so that any sampler starts from the
particles' covariance. The kernel's parameters and the adaptation's memory are kept from stage to stage. In each stage
the sampler adapts for `num_adapt` iterations, pooled over all particles, after which its windows end and its kernel
settles. It then makes `num_moves` iterations with frozen parameters. Deviation from the source: schedule, whitening and
adaptation depend on the particles, so that Ẑ is consistent but no longer exactly unbiased (Beskos, Jasra, Kantas &
Thiery 2016).
"""

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.checks import check_probability, check_whole
from gadabout.monte_carlo.arguments import Density, Seed, check_room, key_of, model_of, unraveller
from gadabout.monte_carlo.moves import check_moves, default_moves
from gadabout.monte_carlo.particles import (
    SequentialMonteCarlo,
    TemperingLimit,
    systematic_resampling,
    whiten,
    whitening,
)
from gadabout.programs import fresh_with, program
from gadabout.proposals import AbstractDistribution
from gadabout.sampler import Sampler
from gadabout.target import Target, fresh

BISECTIONS = 50
LOWEST_ACCEPTANCE = 0.05


def smc(
    model: Density,
    distribution: AbstractDistribution,
    *,
    sampler: Sampler | None = None,
    num_particles: int = 1_000,
    seed: Seed = 0,
    data: PyTree = None,
    ess_share: float = 0.5,
    num_adapt: int = 10,
    num_moves: int = 10,
    max_stages: int = 200,
) -> SequentialMonteCarlo:
    """Sequential Monte Carlo from q₀ to the model by adaptive tempering.

    Args:
        model: log π, as `sample` takes it, or a `Target`; where it is log p(θ, x), the marginal likelihood p(x) is
            estimated. A log density of anything but a vector is passed as `Model(log_density, position)`.
        distribution: q₀, of flat positions, with a `log_normaliser`; the prior, or a Gaussian that covers the model.
        sampler: the moves, any recipe's result whose draws are exact; MALA with a dual-averaged step size by default.
            Its proposal should start near unit scale, because it moves in whitened coordinates.
        num_particles: N, more than twice the number of coordinates.
        seed: an integer below 2³², or a key of `jax.random.key`; the same seed gives the same particles.
        data: a pytree of arrays passed to the log density, where `model` is a function of (position, data).
        ess_share: target ESS of each stage's weights, as a share of the number of particles where π is positive.
        num_adapt: iterations of each stage in which the sampler adapts, pooled over the particles.
        num_moves: iterations of each stage with θ frozen.
        max_stages: largest number of stages.

    Raises:
        ValueError: if a setting is out of range, the sampler's moves do not leave tempered targets invariant, or no
            particle of q₀ falls where the target is positive.
        TypeError: if an argument has the wrong type.
        TemperingLimit: if λ = 1 is not reached in `max_stages`; the error keeps the particles.

    Warns:
        UserWarning: if a stage accepted less than 5 % of its moves; the text is kept in the result's `warnings`.
    """
    model, key = model_of(model, data, distribution), key_of(seed)
    num_particles = check_whole("num_particles", num_particles, 2 * distribution.dim + 1)
    check_room("num_particles", num_particles, distribution.dim)
    num_moves = check_whole("num_moves", num_moves)
    num_adapt = check_whole("num_adapt", num_adapt, 0)
    max_stages = check_whole("max_stages", max_stages)
    share = jnp.asarray(check_probability("ess_share", ess_share, "0.5 is usual"), dtype=float)
    sampler = check_moves(default_moves() if sampler is None else sampler, distribution.dim)
    start_key, stages_key = jax.random.split(key)
    target = fresh(model.target, distribution.dim)
    target = fresh_with(target, (distribution, sampler), _each_once, distribution, sampler, num_particles, key)
    bridge = Bridge(distribution, target)
    x, state = _start(start_key, sampler, bridge, num_particles)
    λ, trace = jnp.zeros(()), []
    while λ < 1 and len(trace) < max_stages:
        λ, log_weights, ess, increment = _reweigh(bridge, x, λ, share)
        if not np.isfinite(increment):
            raise ValueError("no particle falls where the target is positive; choose q₀ on its support")
        stage_key = jax.random.fold_in(stages_key, len(trace))
        x, state, acceptance = _stage(stage_key, sampler, bridge, x, state, λ, log_weights, num_adapt, num_moves)
        trace.append([float(number) for number in (λ, ess, acceptance, increment)])
    result = _result(x, trace, unraveller(model))
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


def _each_once(target, distribution, sampler, num_particles, key):
    """Calls all programs once, with one move each."""
    bridge = Bridge(distribution, target)
    x, state = _start(key, sampler, bridge, num_particles)
    λ, log_weights, *_ = _reweigh(bridge, x, jnp.zeros(()), jnp.asarray(0.5))
    return _stage(key, sampler, bridge, x, state, λ, log_weights, 1, 1)


@program
def _start(key, sampler, bridge, num_particles):
    """Particles from q₀, and the initial state of the sampler."""
    x = jax.vmap(bridge.distribution.sample)(jax.random.split(key, num_particles))
    m, C = whitening(x, jnp.full(num_particles, 1 / num_particles))
    return x, sampler.init(Target(bridge, (jnp.ones(()), m, C)), whiten(x, m, C))


@program
def _reweigh(bridge, x, λ, share):
    """The next λ, the log weights that lead to it, their ESS, and the log of their mean.

    ESS falls as Δ grows. Particles where π is zero have zero weight at any Δ > 0: the target is a share of the others.
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


@program
def _stage(key, sampler, bridge, x, state, λ, log_weights, num_adapt, num_moves):
    """Resamples the particles and moves them under π_λ, with θ and memory from `state`, that of the previous stage.

    The returned state is the one before the kernel settles, which can continue to adapt.
    """
    resample_key, adapt_key, move_key = jax.random.split(key, 3)
    weights = jax.nn.softmax(log_weights)
    m, C = whitening(x, weights)
    x = x[systematic_resampling(weights, seed=resample_key)]
    target = Target(bridge, (λ, m, C))
    state, _ = _moves(adapt_key, sampler, sampler.moved(state, target, whiten(x, m, C)), target, num_adapt, True)
    if num_adapt:
        state = sampler.end_window(state, sampler.adaptation.ending(num_adapt, num_adapt))
    drawn, acceptance = _moves(move_key, sampler, sampler.settle(state), target, num_moves, False)
    return m + drawn.position @ C.T, state, acceptance


def _moves(key, sampler, state, target, count, adapt):
    """The state after `count` iterations, and their mean acceptance rate."""

    def move(i, carry):
        state, total = carry
        state, record = sampler.step(jax.random.fold_in(key, i), state, target, adapt)
        return state, total + jnp.mean(record["acceptance_rate"])

    state, total = jax.lax.fori_loop(0, count, move, (state, jnp.zeros(())))
    return state, total / max(count, 1)


def _result(x: Array, trace: list[list[float]], unravel: Callable[[Any], PyTree]) -> SequentialMonteCarlo:
    temperatures, ess, acceptance, increments = np.transpose(trace)
    messages, worst = (), int(np.argmin(acceptance))
    if acceptance[worst] < LOWEST_ACCEPTANCE:
        messages = (
            f"only {acceptance[worst]:.1%} of the moves of stage {worst + 1} were accepted: the particles hardly moved "
            "and the estimates are not to be trusted; use a larger num_adapt, another sampler or a smaller step size",
        )
    temperatures = np.concatenate([[0.0], temperatures])
    return SequentialMonteCarlo(np.asarray(x), temperatures, ess, acceptance, increments, messages, unravel)
