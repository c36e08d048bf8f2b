"""A leapfrog step in as many parts as its energy asks for (Bou-Rabee, Carpenter, Kleppe & Liu 2025, "WALNUTS").

The step of size ε is made in 2^k parts, k = 0, 1, 2, … until the energy along it ranges over no more than `LARGEST`.
The way back, from its end with the momentum turned, makes the same parts if no smaller k would do there: then the step
is undone by itself, and a volume is kept, which is what NUTS asks of an integrator. Where a smaller k would do, the
step leads one way only: the trajectory ends before it, as before a divergence. Differs from the source, which also
draws k at random near the smallest to lose fewer trajectories in that way.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

LARGEST = 1.0
"""the range of the energy along a step, in nats"""
NOWHERE = -1e30
"""log π at the end of a step that must not be made"""


class Toll(eqx.Module):
    """What the way from a trajectory's start has cost: gradients, the sum of acceptance probabilities of whole steps.

    `one_way` says whether its last step does not lead back.
    """

    evaluations: Int[Array, ""]
    acceptance: Float[Array, ""]
    one_way: Bool[Array, ""]


class Attempt(eqx.Module):
    """A step that is tried in 2^`level` parts, `made` of them so far, from `origin`; then its way back is, from `end`.

    `enough` is the level of the step that was found, and `found` whether one was.
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
    toll: Toll


def no_toll(like: Array) -> Toll:
    """At a trajectory's start."""
    return Toll(jnp.asarray(0), jnp.zeros_like(like), jnp.asarray(False))


def both_ways(path: Any) -> Toll:
    """The toll of a trajectory, which is that of its two ends."""
    left, right = (end.logdensity_grad[2] for end in (path.leftmost_state, path.rightmost_state))
    both = left.evaluations + right.evaluations, left.acceptance + right.acceptance
    return Toll(*both, left.one_way | right.one_way)


def energy_of(state: Any) -> Float[Array, ""]:
    """−log π + ‖p‖²/2 of a phase state."""
    return 0.5 * state.momentum @ state.momentum - state.logdensity


def halved(leapfrog: Callable, halvings: int) -> Callable:
    """The step of a phase state in as many parts as it takes, 2^`halvings` at most.

    The third part of its `logdensity_grad` is a `Toll`. Where more parts were needed, or the way back would be made in
    fewer, log π at its end is `NOWHERE`.
    """

    def step(state: Any, step_size: Any) -> Any:
        *grads, toll = state.logdensity_grad
        state = state._replace(logdensity_grad=tuple(grads))
        level, before = jnp.asarray(0), energy_of(state)

        def turn(at: Attempt) -> Attempt:
            there = leapfrog(at.here, step_size * 0.5**at.level)
            energy, made = energy_of(there), at.made + 1
            low, high = jnp.minimum(at.low, energy), jnp.maximum(at.high, energy)
            smooth = high - low <= LARGEST  # False where it is not a number
            good, bad = smooth & (made == 2**at.level), ~smooth
            found, forth, back = at.found | good, good & ~at.found, good & at.found
            first = (at.level == 0) & (at.made == 0) & ~at.found
            accepted = jnp.where(first, jnp.nan_to_num(jnp.exp(jnp.minimum(before - energy, 0.0))), 0.0)
            one_way = at.toll.one_way | back
            toll = Toll(at.toll.evaluations + 1, at.toll.acceptance + accepted, one_way)
            end, enough = _where(forth, there, at.end), jnp.where(forth, at.level, at.enough)
            turned = there._replace(momentum=-there.momentum)
            origin = _where(forth, turned, at.origin)
            level = jnp.where(forth, 0, at.level + bad)
            last = jnp.where(found, enough, halvings + 1)
            again = forth | bad
            start = energy_of(origin)
            return Attempt(
                origin, _where(again, origin, there), end, jnp.where(again, start, low), jnp.where(again, start, high),
                jnp.where(again, 0, made), level, enough, found, (level >= last) | back, toll,
            )  # fmt: skip

        no = jnp.asarray(False)
        begin = Attempt(state, state, state, before, before, level, level, level, no, no, toll)
        at = jax.lax.while_loop(lambda at: ~at.done, turn, begin)
        logp = jnp.where(_may_be_made(at), at.end.logdensity, NOWHERE)
        return at.end._replace(logdensity=logp, logdensity_grad=(*at.end.logdensity_grad, at.toll))

    return step


def _may_be_made(at: Attempt) -> Bool[Array, ""]:
    return at.found & ~at.toll.one_way


def _where(condition: Array, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
