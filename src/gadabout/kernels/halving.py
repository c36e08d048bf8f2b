"""Leapfrog steps in as many parts as their energy asks for (Bou-Rabee, Carpenter, Kleppe & Liu 2025, "WALNUTS").

A stride is `STRIDE` leapfrogs of size ε, or each of them in 2, 4, 8, … parts. The range r of the energy along it says
with what chance more parts are tried, `refined`(r): never where r is small, always where it is large, and in between so
that from a place to the next nothing changes at once. On the way back, from a stride's end with the momentum turned,
other ranges are seen; the logarithm of the chance to take the same way back, less that of the chance with which it was
taken, is added to log π there, in the weights with which NUTS draws from a trajectory. Where there is no such chance
the stride leads one way only: the trajectory ends before it, as before a divergence. With strides of one leapfrog that
happens where the energy oscillates along the trajectory, as on a curved ridge, since what range a leapfrog sees depends
on where in its oscillation it starts.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

SMALL, LARGE = 0.5, 1.5
"""ranges of the energy along a stride, in nats, up to which no more parts are tried, and from which more always are"""
STRIDE = 2
"""leapfrogs of size ε"""
NOWHERE = -1e30
"""log π at the end of a stride that must not be made"""


class Toll(eqx.Module):
    """What the way from a trajectory's start has cost: gradients, the sum of acceptance probabilities of whole strides.

    `one_way` says whether its last stride does not lead back, `steps` how many were made, `coins` is the key of coins,
    and `odds` the logarithm of the chance to take all strides back, less that of the chance with which they were taken,
    which is contained in the log π of a trajectory's states.
    """

    evaluations: Int[Array, ""]
    acceptance: Float[Array, ""]
    one_way: Bool[Array, ""]
    steps: Int[Array, ""]
    coins: Any
    odds: Float[Array, ""]


class Attempt(eqx.Module):
    """A stride that is tried with 2^`level` parts, `made` of them so far, from `origin`; then its way back, from `end`.

    `enough` is the level of the stride that was found, and `found` whether one was; `forth` is the chance to come to
    where the attempt is, and `back` that to come to the same level from the end.
    """

    origin: Any
    here: Any
    end: Any
    low: Float[Array, ""]
    high: Float[Array, ""]
    made: Int[Array, ""]
    level: Int[Array, ""]
    enough: Int[Array, ""]
    found: Bool[Array, ""]
    done: Bool[Array, ""]
    forth: Float[Array, ""]
    back: Float[Array, ""]
    toll: Toll


def no_toll(like: Array, coins: Any) -> Toll:
    """At a trajectory's start, with a key for its coins."""
    nought = jnp.zeros_like(like)
    return Toll(jnp.asarray(0), nought, jnp.asarray(False), jnp.asarray(0), coins, nought)


def both_ways(path: Any) -> Toll:
    """The toll of a trajectory, which is that of its two ends."""
    left, right = (end.logdensity_grad[2] for end in (path.leftmost_state, path.rightmost_state))
    both = left.evaluations + right.evaluations, left.acceptance + right.acceptance
    return Toll(*both, left.one_way | right.one_way, left.steps + right.steps, left.coins, left.odds)


def energy_of(state: Any) -> Float[Array, ""]:
    """−log π + ‖p‖²/2 of a phase state."""
    return 0.5 * state.momentum @ state.momentum - state.logdensity


def refined(spread: Float[Array, ""]) -> Float[Array, ""]:
    """The chance that a stride is tried with more parts, from the range of its energy; 1 where that is not a number."""
    return jnp.where(spread < LARGE, jnp.maximum(spread - SMALL, 0.0) / (LARGE - SMALL), 1.0)


def halved(leapfrog: Callable, halvings: int) -> Callable:
    """The stride of a phase state, its leapfrogs in as many parts as it takes, 2^`halvings` at most.

    The third part of its `logdensity_grad` is a `Toll`. Where more parts were needed, or the stride does not lead back,
    log π at its end is `NOWHERE`.
    """

    def step(state: Any, step_size: Any) -> Any:
        *grads, toll = state.logdensity_grad
        state = state._replace(logdensity=state.logdensity - toll.odds, logdensity_grad=tuple(grads))
        nought, no, before = jnp.asarray(0), jnp.asarray(False), energy_of(state)
        coin = _coin(toll, step_size, before.dtype)
        toll = eqx.tree_at(lambda toll: toll.steps, toll, toll.steps + 1)

        def turn(at: Attempt) -> Attempt:
            there = leapfrog(at.here, step_size * 0.5**at.level)
            energy, made = energy_of(there), at.made + 1
            low, high = jnp.minimum(at.low, energy), jnp.maximum(at.high, energy)
            chance = refined(high - low)
            again = (made == STRIDE * 2**at.level) | (chance >= 1)
            finer = again & ~at.found & (coin < at.forth * chance)
            here, back = again & ~at.found & ~finer, again & at.found
            first = again & ~at.found & (at.level == 0)
            accepted = jnp.where(first, jnp.nan_to_num(jnp.exp(jnp.minimum(before - energy, 0.0))), 0.0)
            found, enough = at.found | here, jnp.where(here, at.level, at.enough)
            forth = at.forth * jnp.where(finer, chance, jnp.where(here, 1 - chance, 1.0))
            retaken = jnp.where(here, 1 - chance, at.back * jnp.where(back, chance, 1.0))
            origin = _where(here, there._replace(momentum=-there.momentum), at.origin)
            level = jnp.where(here, 0, at.level + again)
            over = jnp.where(found, (level >= enough) | (retaken <= 0), level > halvings)
            start = energy_of(origin)
            paid = (at.toll.evaluations + 1, at.toll.acceptance + accepted)
            return Attempt(
                origin, _where(again, origin, there), _where(here, there, at.end), jnp.where(again, start, low),
                jnp.where(again, start, high), jnp.where(again, 0, made), level, enough, found, again & over, forth,
                retaken, eqx.tree_at(lambda toll: (toll.evaluations, toll.acceptance), at.toll, paid),
            )  # fmt: skip

        one = jnp.ones_like(before)
        begin = Attempt(state, state, state, before, before, nought, nought, nought, no, no, one, one, toll)
        return _ended(jax.lax.while_loop(lambda at: ~at.done, turn, begin))

    return step


def _ended(at: Attempt) -> Any:
    """The phase state at the end of a stride, with what it has cost and the odds of its way back."""
    one_way = at.toll.one_way | (at.found & (at.back <= 0))
    odds = at.toll.odds + _odds(at.forth, at.back)
    toll = eqx.tree_at(lambda toll: (toll.one_way, toll.odds), at.toll, (one_way, odds))
    logp = jnp.where(_may_be_made(at.found, one_way), at.end.logdensity + odds, NOWHERE)
    return at.end._replace(logdensity=logp, logdensity_grad=(*at.end.logdensity_grad, toll))


def _odds(forth: Array, back: Array) -> Float[Array, ""]:
    return jnp.where(back > 0, jnp.log(jnp.where(back > 0, back, 1.0) / forth), 0.0)


def _may_be_made(found: Array, one_way: Array) -> Bool[Array, ""]:
    return found & ~one_way


def _coin(toll: Toll, step_size: Any, dtype: Any) -> Float[Array, ""]:
    """A number in [0, 1), another for each stride to the left and to the right."""
    key = jax.random.fold_in(jax.random.fold_in(toll.coins, step_size > 0), toll.steps)
    return jax.random.uniform(key, (), dtype)


def _where(condition: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
