"""Leapfrog steps in as many parts as their energy asks for (Bou-Rabee, Carpenter, Kleppe & Liu 2025, "WALNUTS").

A stride is `STRIDE` leapfrogs of size ε. Let k be the smallest number for which the energy along it, with each of them
made in 2^k parts, ranges over no more than `LARGEST`. A coin says whether it is made so, or in twice as many. On the
way back, from its end with the momentum turned, the smallest number may be another; where it is as large as the one
used, or one less, the coin takes the same way back with the same chance, and a volume is kept, which is all that NUTS
asks of an integrator. Elsewhere the stride leads one way only: the trajectory ends before it, as before a divergence.
Without the coin that happens wherever k changes; with strides of one leapfrog it happens where the energy oscillates
along the trajectory, as on a curved ridge, since what range a leapfrog sees depends on where in its oscillation it
starts.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LARGEST = 1.0
"""the range of the energy along a stride, in nats"""
STRIDE = 2
"""leapfrogs of size ε"""
NOWHERE = -1e30
"""log π at the end of a stride that must not be made"""


class Toll(eqx.Module):
    """What the way from a trajectory's start has cost: gradients, the sum of acceptance probabilities of whole strides.

    `one_way` says whether its last stride does not lead back, `steps` how many were made, `coins` is the key of coins.
    """

    evaluations: Int[Array, ""]
    acceptance: Float[Array, ""]
    one_way: Bool[Array, ""]
    steps: Int[Array, ""]
    coins: Any


class Attempt(eqx.Module):
    """A stride that is tried with 2^`level` parts, `made` of them so far, from `origin`; then its way back, from `end`.

    `finer` says whether what is tried is the level above the smallest, for the coin's sake, `enough` is the level of
    the stride that was found, and `found` whether one was.
    """

    origin: Any
    here: Any
    end: Any
    low: Float[Array, ""]
    high: Float[Array, ""]
    made: Int[Array, ""]
    level: Int[Array, ""]
    finer: Bool[Array, ""]
    enough: Int[Array, ""]
    found: Bool[Array, ""]
    done: Bool[Array, ""]
    toll: Toll


def no_toll(like: Array, coins: Any) -> Toll:
    """At a trajectory's start, with a key for its coins."""
    return Toll(jnp.asarray(0), jnp.zeros_like(like), jnp.asarray(False), jnp.asarray(0), coins)


def both_ways(path: Any) -> Toll:
    """The toll of a trajectory, which is that of its two ends."""
    left, right = (end.logdensity_grad[2] for end in (path.leftmost_state, path.rightmost_state))
    both = left.evaluations + right.evaluations, left.acceptance + right.acceptance
    return Toll(*both, left.one_way | right.one_way, left.steps + right.steps, left.coins)


def energy_of(state: Any) -> Float[Array, ""]:
    """−log π + ‖p‖²/2 of a phase state."""
    return 0.5 * state.momentum @ state.momentum - state.logdensity


def halved(leapfrog: Callable, halvings: int) -> Callable:
    """The stride of a phase state, its leapfrogs in as many parts as it takes, 2^(`halvings` + 1) at most.

    The third part of its `logdensity_grad` is a `Toll`. Where more parts were needed, or the stride does not lead back,
    log π at its end is `NOWHERE`.
    """

    def step(state: Any, step_size: Any) -> Any:
        *grads, toll = state.logdensity_grad
        state = state._replace(logdensity_grad=tuple(grads))
        nought, no, before = jnp.asarray(0), jnp.asarray(False), energy_of(state)
        coin = _coin(toll, step_size)
        toll = eqx.tree_at(lambda toll: toll.steps, toll, toll.steps + 1)

        def turn(at: Attempt) -> Attempt:
            there = leapfrog(at.here, step_size * 0.5**at.level)
            energy, made = energy_of(there), at.made + 1
            low, high = jnp.minimum(at.low, energy), jnp.maximum(at.high, energy)
            smooth = high - low <= LARGEST  # False where it is not a number
            good, bad = smooth & (made == STRIDE * 2**at.level), ~smooth
            again = good | bad
            once_more = good & ~at.found & ~at.finer & coin
            forth, back = good & ~at.found & ~once_more, good & at.found
            lost = back | (bad & at.finer & ~at.found)
            first = again & (at.level == 0) & ~at.found & ~at.finer
            accepted = jnp.where(first, jnp.nan_to_num(jnp.exp(jnp.minimum(before - energy, 0.0))), 0.0)
            found, enough = at.found | forth, jnp.where(forth, at.level, at.enough)
            origin = _where(forth, there._replace(momentum=-there.momentum), at.origin)
            level = jnp.where(forth, 0, at.level + (bad | once_more))
            over = jnp.where(found, level >= enough - 1, level > halvings + at.finer + once_more)
            start = energy_of(origin)
            one_way, acceptance = at.toll.one_way | lost, at.toll.acceptance + accepted
            paid = Toll(at.toll.evaluations + 1, acceptance, one_way, toll.steps, toll.coins)
            return Attempt(
                origin, _where(again, origin, there), _where(forth, there, at.end), jnp.where(again, start, low),
                jnp.where(again, start, high), jnp.where(again, 0, made), level, at.finer | once_more, enough, found,
                (again & over) | lost, paid,
            )  # fmt: skip

        begin = Attempt(state, state, state, before, before, nought, nought, no, nought, no, no, toll)
        at = jax.lax.while_loop(lambda at: ~at.done, turn, begin)
        logp = jnp.where(_may_be_made(at), at.end.logdensity, NOWHERE)
        return at.end._replace(logdensity=logp, logdensity_grad=(*at.end.logdensity_grad, at.toll))

    return step


def _coin(toll: Toll, step_size: Any) -> Bool[Array, ""]:
    """Another for each stride to the left and to the right."""
    key = jax.random.fold_in(jax.random.fold_in(toll.coins, step_size > 0), toll.steps)
    return jax.random.bernoulli(key)


def _may_be_made(at: Attempt) -> Bool[Array, ""]:
    return at.found & ~at.toll.one_way


def _where(condition: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
