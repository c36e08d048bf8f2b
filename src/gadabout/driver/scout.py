"""Other modes, looked for from starts that are spread out more widely than the chains'."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from gadabout.driver.descend import MOST_TURNS, convex, descend, room_below
from gadabout.driver.programs import program
from gadabout.factors import AbstractFactor
from gadabout.target import Target
from gadabout.threefry import quick

SCOUTS, MOST_SCOUTS = 8, 128
"""for each chain, and in all"""
WIDER = 3.0
"""by how much they are spread out more"""
MOST_COORDINATES = 300
"""beyond which nobody is sent out: points at random miss whatever there is"""
BEHIND = 8
"""of so many scouts the last is not waited for: it takes as many turns as all the others"""
BETWEEN, BARRIER = 7, 3.0
"""points on the way to another mode, and by how much log π is lower at one of them than at both ends"""


class Scouts(NamedTuple):
    """Where scouts set out, and whether log π fails to be concave between any two of their and the chains' points."""

    starts: Float[Array, "scouts n"]
    convex: Bool[Array, ""]


class Report(NamedTuple):
    """Where scouts arrived, which of them stand in another mode than the chains, and what it took."""

    positions: Float[Array, "scouts n"]
    elsewhere: Bool[Array, " scouts"]
    evaluations: Int[Array, ""]


def scouts_of(chains: int) -> int:
    """How many are sent out."""
    return max(chains, min(SCOUTS * chains, MOST_SCOUTS))


@program(brief=True)
def send_out(target: Target, positions: Float[Array, "chains n"], key: Key[Array, ""]) -> Scouts:
    """Scouts about the chains' starts, `WIDER` times as far apart, and whether there is anything for them to find.

    One that is concave between all of these points is taken to be so everywhere, at the price of one gradient each.
    """
    chains, n = positions.shape
    mean, sd = jnp.mean(positions, 0), jnp.std(positions, 0)
    noise = jax.random.normal(jax.random.fold_in(quick(key), 1), (scouts_of(chains), n), positions.dtype)
    starts = mean + WIDER * sd * noise
    points = jax.vmap(lambda x: target.at(x, 1))(jnp.concatenate([positions, starts]))
    return Scouts(starts, convex(points))


@program
def look_round(
    target: Target,
    starts: Float[Array, "scouts n"],
    positions: Float[Array, "chains n"],
    factor: AbstractFactor,
    most_turns: Any = MOST_TURNS,
) -> Report:
    """The descents of scouts, and which of them have found another mode than those in which chains stand.

    An eighth of the scouts is not waited for. Such a scout has arrived, no lower than a chain may lie that is not lost
    (see `land`), and on the straight way to the nearest chain, in coordinates whitened by the factor, log π falls below
    both ends. Where log π is concave it never does.
    """
    ways = descend(target, starts, most_turns, len(starts) // BEHIND)
    x, value = ways.here.x, jax.vmap(target.log_density)
    there, here = (jnp.where(jnp.isnan(logp), -jnp.inf, logp) for logp in (ways.here.logp, value(positions)))
    whitened = jax.vmap(factor.solve)
    away = jnp.sum((whitened(x)[:, None] - whitened(positions)) ** 2, -1)
    nearest = jnp.argmin(away, 1)
    shares = jnp.arange(1, BETWEEN + 1) / (BETWEEN + 1)
    between = lambda a, b: jnp.min(value(a + shares[:, None] * (b - a)))
    lowest = jax.vmap(between)(x, positions[nearest])
    high = there >= jnp.median(jnp.sort(here)[len(here) // 2 :]) - room_below(positions.shape[1])
    beyond = ~(lowest >= jnp.minimum(there, here[nearest]) - BARRIER)
    return Report(x, ways.arrived & high & beyond, jnp.sum(ways.turns + 1) + len(x))
