r"""The ascent from any point to the typical set: each chain climbs its own log π until $\nabla^\top H\nabla \le n$.

H is the inverse Hessian of −log π, estimated from the last steps of L-BFGS (Nocedal 1980). Step sizes follow Armijo's
rule. On a Gaussian the form averages n in the typical set. An ascent therefore ends there, and neither in a mode nor in
the neck of a funnel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.gaussian import curvature, curved, of_paths, precision_of
from gadabout.ensemble.growth import FEWEST, refuse_growth, tail_indices

MEMORY = 8
"""number of pairs in L-BFGS, and of points of a path that the first factor is fitted to"""
MOST_TURNS = 400
SHRINK, SMALLEST = 0.3, 1e-12
"""`SHRINK`: factor of the step size after a step that did not climb. `SMALLEST`: step size below which the direction is
abandoned"""
GIVE_UP = 4
"""directions that a chain abandons before it stays where it is"""
LIKENESS, ROUNDING = 0.5, 1e-6
"""tolerances of the difference between the gain of the last step and half the sum of its slopes, besides one nat:
`LIKENESS` as a share of that half, `ROUNDING` as a share of log π"""
STRAIGHT = 100
"""steps in a row, each twice as long, on which log π rises without curvature, after which a chain has run off to
infinity"""
CURVATURE = 1_600
"""gradients in a measurement of curvature at most, unless the directions of one point need more"""


class Points(NamedTuple):
    """Positions x of shape (m, n), log π there, of shape (m,), and its gradients, of shape (m, n)."""

    x: np.ndarray
    value: np.ndarray
    grad: np.ndarray

    @property
    def finite(self) -> np.ndarray:
        """Whether log π and its gradient are finite, of shape (m,)."""
        return np.isfinite(self.value) & np.isfinite(self.grad).all(1)


class Paths(NamedTuple):
    """The ends of ascents, the last points of each path, (chains, MEMORY, n), and which chains arrived or ran off."""

    ends: Points
    x: np.ndarray
    grad: np.ndarray
    arrived: np.ndarray
    ran_off: np.ndarray


class Ascent(NamedTuple):
    """Chains after their ascent, and the first Gaussian.

    `distinct` counts chains whose own path led to where they stand. `apart` says whether log π is not concave and a
    chain that arrived lies lower than others by more than draws of one mode differ. `tails` holds the tail indices of
    coordinates without a variance (`ensemble.growth`).
    """

    positions: np.ndarray
    coordinates: Coordinates
    distinct: int
    apart: bool
    tails: Mapping[str, float] = {}


@dataclass(frozen=True)
class Whitened:
    """A density of the coordinates z, without their Jacobian, for `ascend`."""

    density: Any
    coordinates: Coordinates

    def value_and_grad(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π(x(z)), of shape (m,), and its gradients with respect to z, of shape (m, n)."""
        return self.coordinates.value_and_grad(self.density, z)


@np.errstate(all="ignore")
def ascend(
    density: Any,
    positions: np.ndarray,
    most_turns: int = MOST_TURNS,
    behind: int = 0,
    known: bool = False,
    near: float = 1.0,
) -> Paths:
    """The ascents of chains from positions (chains, n), one batch of evaluations a turn, of the chains still climbing.

    Where widths differ by orders of magnitude, eight steps reveal too little of them, and an ascent ends somewhat
    outside. A step along which log π is convex adds no curvature, and the next one is twice as long. An ascent needs
    three steps to end, since fewer determine H poorly. It may end sooner in the mode itself, if a first Newton step on
    a round density led there or the chain began there. No ascent ends after a step whose gain differs from that of a
    quadratic with the same slopes: after a long first step down a wall of e^x, H is so small that the end seems near.

    Args:
        density: an `AbstractDensity` or a `Whitened`; only `value_and_grad` is used.
        positions: where chains start.
        most_turns: batches of evaluations after the first, at most.
        behind: all ascents stop once no more than so many have not ended.
        known: whether H is near the identity, so that steps only correct it.
        near: the share of n that the form must fall to, less than 1 for a mode itself.
    """
    chains, n = positions.shape
    x, memory = np.array(positions, float), (chains, MEMORY, n)
    value, grad = (np.array(part) for part in density.value_and_grad(x))
    steps, falls, pairs = np.zeros(memory), np.zeros(memory), np.zeros((chains, MEMORY), bool)
    path_x, path_grad = np.repeat(x[:, None], MEMORY, 1), np.repeat(grad[:, None], MEMORY, 1)
    direction, size, given_up = _unit(grad), np.ones(chains), np.zeros(chains, int)
    arrived = Points(x, value, grad).finite & (grad == 0).all(1)
    straight = np.zeros(chains, int)
    for _ in range(most_turns):
        c = np.flatnonzero(~arrived & (given_up < GIVE_UP) & (straight < STRAIGHT))
        if len(c) <= behind:
            break
        d, t = direction[c], size[c]
        there = Points(y := x[c] + t[:, None] * d, *density.value_and_grad(y))
        climbed = there.finite & (there.value >= value[c] + 1e-4 * t * _dot(grad[c], d))
        step, fall = there.x - x[c], grad[c] - there.grad
        gain, of_slopes = there.value - value[c], 0.5 * _dot(step, grad[c] + there.grad)
        quadratic = np.abs(gain - of_slopes) <= LIKENESS * np.abs(of_slopes) + 1 + ROUNDING * np.abs(there.value)
        bends = climbed & (_dot(step, fall) > 1e-10 * np.linalg.norm(step, axis=1) * np.linalg.norm(fall, axis=1))
        for rows, new, where in (
            (steps, step, bends), (falls, fall, bends), (pairs, np.ones(len(c), bool), bends),
            (path_x, there.x, climbed), (path_grad, there.grad, climbed),
        ):  # fmt: skip
            rows[c[where], :-1] = rows[c[where], 1:]
            rows[c[where], -1] = new[where]
        for now, new in zip((x, value, grad), there, strict=True):
            now[c[climbed]] = new[climbed]
        newton = _newton(grad[c], steps[c], falls[c], pairs[c], known)
        failed = ~climbed & (t < SMALLEST)
        d = np.where(bends[:, None], newton, d)
        direction[c] = np.where((failed | ~(_dot(d, grad[c]) > 0))[:, None], _unit(grad[c]), d)
        size[c] = np.where(bends | failed, 1.0, np.where(climbed, 2.0, SHRINK) * t)
        given_up[c] += failed
        without_bound = (there.value == np.inf) & (straight[c] >= FEWEST)
        straight[c] = np.where(without_bound, STRAIGHT, np.where(climbed & ~bends, straight[c] + 1, 0))
        form = _dot(grad[c], newton)
        arrived[c] = bends & quadratic & (((pairs[c].sum(1) >= min(3, n)) & (form <= near * n)) | (form <= 1e-3 * n))
    far = ~arrived & (np.max(np.abs(x - positions), 1) > 2.0**STRAIGHT)
    return Paths(Points(x, value, grad), path_x, path_grad, arrived, far | (straight >= STRAIGHT))


def _newton(grad: np.ndarray, steps: np.ndarray, falls: np.ndarray, pairs: np.ndarray, known: bool) -> np.ndarray:
    """H ∇ by the two loops of L-BFGS; the gradient scaled to length 1 where there is no pair.

    Between the loops H is a multiple of the identity, by the last pair; if `known`, it is the identity.
    """
    inner, square = _dot(steps, falls), _dot(falls[:, -1], falls[:, -1])
    rho = np.where(pairs, 1 / np.where(pairs, inner, 1), 0)
    q, a = grad.copy(), np.zeros(rho.shape)
    for i in reversed(range(MEMORY)):
        a[:, i] = rho[:, i] * _dot(steps[:, i], q)
        q -= a[:, i, None] * falls[:, i]
    last = 1.0 if known else inner[:, -1] / np.where(square > 0, square, 1)
    q *= np.where(pairs[:, -1] & (square > 0), last, 1 / _norm(grad))[:, None]
    for i in range(MEMORY):
        q += steps[:, i] * (a[:, i] - rho[:, i] * _dot(falls[:, i], q))[:, None]
    return q


@np.errstate(all="ignore")
def climb_to_typical_set(
    density: Any, positions: np.ndarray, kind: Literal["dense", "diagonal"], most_turns: int = MOST_TURNS,
    names: Sequence[str] = (),
) -> Ascent:  # fmt: skip
    """The ascents of all chains from positions (chains, n), and a first Gaussian from their paths.

    A chain is hopeless if it did not arrive and lies lower than the median of the upper half by more than
    15 + 6 √(n/2): six standard deviations of log π in the typical set of a Gaussian, and a margin. It moves to the
    position of another chain. A chain that arrived stays where it is, since it may have found a mode of its own.

    A dense Gaussian is then given the curvature of log π along all axes where chains stand (`curved`), since eight
    steps reveal little of H. With 785 coefficients of a regression an ascent ends after six turns, a thousand nats
    below the typical set. A concave log π has one typical set. Chains outside of it, by their height or by $∇ᵀ H ∇$,
    continue in the whitened coordinates; on a Gaussian the form exceeds n by twice the depth of log π below its mean. A
    chain that ends further outside stays where it was.

    Raises Improper, with the `names` of coordinates, where log π rises or does not fall (`ensemble.growth`).
    """
    paths = ascend(density, positions, most_turns)
    for c in np.flatnonzero(paths.ran_off)[:1]:
        refuse_growth(density, positions[c], paths.ends.x[c] - positions[c], names)
    ends, (chains, n) = paths.ends, positions.shape
    low = _low(ends.value, n)
    hopeless = ~paths.arrived & low
    sources = replacements(hopeless)
    here, low_here = Points(*(part[sources] for part in ends)), low[sources]
    apart = bool(np.any(low & paths.arrived)) and gradients_rise(ends)
    near = ends.value > np.nanmax(ends.value, initial=-np.inf) - (30 + 10 * np.sqrt(n / 2))
    factor = of_paths(paths.x[near].reshape(-1, n), paths.grad[near].reshape(-1, n), kind)
    x = here.x
    if kind == "dense":
        order = np.argsort(low_here, kind="stable")[: max(1, min(chains, CURVATURE // (2 * n)))]
        factor = curved(curvature(density, here.x[order], factor), factor, precision_of(ends.grad))
        form = np.sum((here.grad @ factor) ** 2, 1)
        outside = (low_here | (form > n + 2 * room_below(n))) & beneath_tangents(here)
        if outside.any():
            x = _gone_on(density, Coordinates(np.mean(x, 0), factor), x, outside, form, most_turns)
    coordinates = Coordinates(np.mean(x, 0), factor)
    tails = tail_indices(density, x, here.value, coordinates.deviations(), names)
    return Ascent(x, coordinates, int(np.sum(~hopeless)), apart, tails)


def _gone_on(
    density: Any, coordinates: Coordinates, x: np.ndarray, outside: np.ndarray, form: np.ndarray, most_turns: int
) -> np.ndarray:
    """Positions after a further ascent of the chains `outside` of the typical set, where it led nearer."""
    ends = ascend(Whitened(density, coordinates), coordinates.z(x[outside]), most_turns, known=True).ends
    nearer = np.sum(ends.grad**2, 1) < form[outside]
    x = x.copy()
    x[np.flatnonzero(outside)[nearer]] = coordinates.x(ends.x[nearer])
    return x


def gradients_rise(points: Points) -> bool:
    """Whether log π is not concave between any two of the points, by their gradients; non-finite points are left out.

    A concave log density has one mode, and its gradient falls along the way from any point to any other.
    """
    x, _, grad = _about_their_mean(points)
    size, slope = np.linalg.norm(x, axis=1), np.linalg.norm(grad, axis=1)
    own, products = _dot(x, grad), grad @ x.T
    rise = own[:, None] + own - products - products.T
    rounding = precision_of(grad) ** 0.5 * (size[:, None] + size) * (slope[:, None] + slope)
    return bool(np.any(rise > rounding))


def beneath_tangents(points: Points) -> bool:
    """Whether log π lies beneath its tangent at each point at all other points; non-finite points are left out.

    It is stricter than `gradients_rise`, which does not distinguish two modes: gradients are zero in both.
    """
    x, value, grad = _about_their_mean(points)
    size = np.linalg.norm(grad, axis=1)[:, None] * np.linalg.norm(x, axis=1) + np.abs(value)
    above = value - value[:, None] - grad @ x.T + _dot(grad, x)[:, None]
    rounding = precision_of(grad) ** 0.5 * (size + np.diagonal(size)[:, None])
    return bool(np.all(above <= rounding))


def room_below(n: int) -> float:
    """The nats by which log π of a chain must lie below the others' for it to be hopeless (`climb_to_typical_set`)."""
    return 15 + 6 * np.sqrt(n / 2)


def replacements(discarded: np.ndarray) -> np.ndarray:
    """The chain whose position each chain takes, (chains,): itself, or, if discarded, one of the others in turn."""
    sources = np.arange(len(discarded))
    sources[discarded] = np.resize(np.flatnonzero(~discarded), discarded.sum())
    return sources


def _about_their_mean(points: Points) -> Points:
    """The points that are finite, with x centred at its mean over them."""
    x, value, grad = (part[points.finite] for part in points)
    return Points(x - np.sum(x, 0) / max(len(x), 1), value, grad)


def _low(value: np.ndarray, n: int) -> np.ndarray:
    """Whether each chain lies lower than the median of the upper half by more than `room_below`, of shape (chains,)."""
    value, chains = np.fmax(value, -np.inf), len(value)
    return ~(value >= np.sort(value)[chains - (chains + 3) // 4] - room_below(n))


def _dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", a, b)


def _norm(rows: np.ndarray) -> np.ndarray:
    return np.maximum(np.linalg.norm(rows, axis=1), np.finfo(float).tiny)


def _unit(rows: np.ndarray) -> np.ndarray:
    top = np.max(np.abs(rows), 1, keepdims=True)
    rows = rows / np.where(top > 0, top, 1)
    return rows / _norm(rows)[:, None]
