r"""The ascent from anywhere to the typical set: each chain climbs its own log π until $\nabla^\top H\nabla \le n$.

H is the inverse Hessian of −log π by the last steps of L-BFGS (Nocedal 1980), with step sizes by Armijo's rule. On a
Gaussian the form is n on average in the typical set, so that an ascent ends there: not in a mode, nor in the neck of a
funnel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.gaussian import curvature, curved, of_paths, precision_of
from gadabout.ensemble.growth import FEWEST, refuse_growth, tail_indices

MEMORY = 8
"""pairs of L-BFGS, and points of a path that the first factor is fitted to"""
MOST_TURNS = 400
SHRINK, SMALLEST = 0.3, 1e-12
"""of a step that did not climb, and the step at which its direction is given up"""
GIVE_UP = 4
"""directions that a chain gives up before it stays where it is"""
LIKENESS, ROUNDING = 0.5, 1e-6
"""shares of half the sum of its slopes, and of log π, by which, and by a nat, the gain of the last step may differ from
that half"""
STRAIGHT = 100
"""steps in a row, each twice as long, on which log π rises without curvature, after which a chain has run off"""
CURVATURE = 1_600
"""gradients that curvature is measured with at most, unless one point's directions need more"""


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
    """Where ascents ended, the last points of each path, of shape (chains, MEMORY, n), which arrived, which ran off."""

    ends: Points
    x: np.ndarray
    grad: np.ndarray
    arrived: np.ndarray
    ran_off: np.ndarray


class Ascent(NamedTuple):
    """Chains after their ascent, and the first Gaussian.

    `distinct` counts chains that stand where their own path led; `apart` says whether log π is not concave and one that
    arrived lies lower than others by more than draws of one mode do; `outside`, of shape (chains,), which stand outside
    of the typical set by the Gaussian, where log π is concave; `tails` the indices of coordinates without a variance
    (`ensemble.growth`).
    """

    positions: np.ndarray
    coordinates: Coordinates
    distinct: int
    apart: bool
    outside: np.ndarray
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
    """The ascents of chains from positions (chains, n), one batch of evaluations a turn, of those that have not ended.

    Where widths differ by orders of magnitude, eight steps show too little of them, and it ends some way outside. A
    step along which the density is convex adds no curvature, and the next one is twice as long. Fewer than three steps
    say too little of H, unless the chain stands in the mode itself, where a first Newton step on a round density leads,
    or where it began there. None ends after a step that gained other than its slopes say of a quadratic: down a wall of
    e^x a long first step makes H so small that the end seems near.

    Args:
        density: has `value_and_grad`; an `AbstractDensity`, or one that is `Whitened`.
        positions: where chains start.
        most_turns: evaluations after the first.
        behind: ascents that are left where they are once no more than so many have not ended.
        near: the share of n that the form has to come down to, less than 1 for a mode itself.
        known: whether H is near the identity, so that only what differs is taken from steps.
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
    """H ∇ by the two loops of L-BFGS; along the gradient, at length 1, where there is no pair.

    Between them stands a multiple of the identity, by the last pair; the identity where H is known to be near it.
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

    A chain is hopeless that did not arrive and lies lower than the upper half of the others by more than 15 + 6 √(n/2),
    six standard deviations of log π in the typical set of a Gaussian and some more: it is put where another stands. One
    that arrived stays where it is: it may have found a mode of its own.

    A dense Gaussian is then made as curved as log π is along all axes where chains stand (`curved`). With 785
    coefficients of a regression an ascent ends after six turns, a thousand nats below the typical set, as eight steps
    show little of H; the curvature shows all of it. Where log π is concave there is one typical set, and chains outside
    of it, by their height or by $∇ᵀ H ∇$, which is twice what log π lies below its height there, go on in the whitened
    coordinates. A chain that is further outside in the end stays where it was.

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
    x, outside = here.x, np.zeros(chains, bool)
    if kind == "dense":
        order = np.argsort(low_here, kind="stable")[: max(1, min(chains, CURVATURE // (2 * n)))]
        factor = curved(curvature(density, here.x[order], factor), factor, precision_of(ends.grad))
        form = np.sum((here.grad @ factor) ** 2, 1)
        outside = (low_here | (form > n + 2 * room_below(n))) & beneath_tangents(here)
        if outside.any():
            x, outside = _gone_on(density, Coordinates(np.mean(x, 0), factor), x, outside, form, most_turns)
    coordinates = Coordinates(np.mean(x, 0), factor)
    tails = tail_indices(density, x, here.value, coordinates.deviations(), names)
    return Ascent(x, coordinates, int(np.sum(~hopeless)), apart, outside, tails)


def _gone_on(
    density: Any, coordinates: Coordinates, x: np.ndarray, outside: np.ndarray, form: np.ndarray, most_turns: int
) -> tuple[np.ndarray, np.ndarray]:
    """Positions, with those that were outside where they come nearer, and which are outside still."""
    ends = ascend(Whitened(density, coordinates), coordinates.z(x[outside]), most_turns, known=True).ends
    nearer = np.sum(ends.grad**2, 1) < form[outside]
    moved, x, outside = np.flatnonzero(outside)[nearer], x.copy(), outside.copy()
    x[moved], outside[moved] = coordinates.x(ends.x[nearer]), False
    return x, outside


def gradients_rise(points: Points) -> bool:
    """Whether log π fails to be concave between any two of some points, by their gradients; not finite ones aside.

    A concave log density has one mode, and its gradient falls along the way from any point to any other.
    """
    x, _, grad = _about_their_mean(points)
    size, slope = np.linalg.norm(x, axis=1), np.linalg.norm(grad, axis=1)
    own, products = _dot(x, grad), grad @ x.T
    rise = own[:, None] + own - products - products.T
    rounding = precision_of(grad) ** 0.5 * (size[:, None] + size) * (slope[:, None] + slope)
    return bool(np.any(rise > rounding))


def beneath_tangents(points: Points) -> bool:
    """Whether log π lies beneath its tangent at each of some points at all others; points that are not finite aside.

    It says more than `gradients_rise`, to which two modes are alike: gradients are zero in both.
    """
    x, value, grad = _about_their_mean(points)
    size = np.linalg.norm(grad, axis=1)[:, None] * np.linalg.norm(x, axis=1) + np.abs(value)
    above = value - value[:, None] - grad @ x.T + _dot(grad, x)[:, None]
    rounding = precision_of(grad) ** 0.5 * (size + np.diagonal(size)[:, None])
    return bool(np.all(above <= rounding))


def room_below(n: int) -> float:
    """By how much log π may lie below the others' of a chain that is not hopeless (see `climb_to_typical_set`)."""
    return 15 + 6 * np.sqrt(n / 2)


def replacements(discarded: np.ndarray) -> np.ndarray:
    """For each chain whose place it takes: its own, or in turn that of one that is not discarded; (chains,)."""
    sources = np.arange(len(discarded))
    sources[discarded] = np.resize(np.flatnonzero(~discarded), discarded.sum())
    return sources


def _about_their_mean(points: Points) -> Points:
    """Those of some points that are finite, x less its mean over them."""
    x, value, grad = (part[points.finite] for part in points)
    return Points(x - np.sum(x, 0) / max(len(x), 1), value, grad)


def _low(value: np.ndarray, n: int) -> np.ndarray:
    """Which chains lie lower than the upper half of all by more than there is room, of shape (chains,)."""
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
