r"""Checks that log π can belong to a proper posterior, by its values along rays at distances that grow by decades.

Along a ray from the typical set a proper density falls faster than 1/t in the end, hence log π by more than log 10 a
decade. Where log π rises decade after decade, as if −log π was returned, it grows without bound. Exceptions are only
rays that no chain can hit by chance, such as the axis of a cusp.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.gaussian import precision_of
from gadabout.target import LogDensityError

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

FARTHEST = 1e100
"""the distance at which a ray ends"""
FEWEST = 12
"""decades in a row, at the end of a ray, that determine how log π continues"""
NEAREST = 2
"""decades of a ray, from its unit on, that are left out: there a chain may stand outside of the typical set"""
FALL = 0.9 * np.log(10)
"""smallest fall of log π, in nats a decade, of a proper density"""
UNREACHED = 1000.0
"""nats below the start that no chain reaches: the behaviour of log π beyond them is irrelevant"""
RELEVANT, REACHED = 150.0, 50.0
"""fall of log π along a ray, in nats, up to which it is followed (`RELEVANT`), and refused if flat (`REACHED`)"""
NO_VARIANCE, ROUNDING = 0.5, 1e-3
"""`NO_VARIANCE`: tail index from which on there is no variance. `ROUNDING`: its relative error by rounding"""
POWER = (4, 7, 10)
"""decades between which log π must fall by the same slope to fall as a power"""
MOST_COORDINATES = 300
"""number of coordinates beyond which rays along all axes take too many values"""
MOST_NAMED = 3
SMALL, MOST_DIRECTIONS = 1e-2, 4
"""`SMALL`: share of the largest curvature below which directions off the axes are followed. `MOST_DIRECTIONS`: how many
of them are followed"""
LEAST_WIDTH = 1e-2
"""share of the chains' range in a coordinate that its width must exceed: where it is less, widths are not learned yet,
and no direction off the axes is followed"""
RISE = 1e-3
"""nats a decade that log π rises by along such a direction, beyond rounding"""
DIRECTED = 12
"""decade before which a direction off the axes must be flat, as far as float64 resolves directions"""


class Improper(LogDensityError):
    """The log density rises, or does not fall, for as far as numbers reach."""


def refuse_growth(density: "AbstractDensity", start: np.ndarray, direction: np.ndarray, names: Sequence[str]) -> None:
    """Raises Improper where log π rises without end from start (n,) in a direction (n,)."""
    size = np.max(np.abs(direction))
    if not (np.isfinite(size) and size > 0):
        return
    unit = direction / size
    if grows(along(density, start, unit[None]))[0]:
        raise Improper(_growth(unit, names))


def tail_indices(
    density: "AbstractDensity", positions: np.ndarray, value: np.ndarray, widths: np.ndarray, names: Sequence[str]
) -> dict[str, float]:
    """The tail indices k ≥ 1/2, by name, of coordinates without a variance; rays begin at one of positions (chains, n).

    Along a coordinate's axis, with all others fixed, log π falls by 1 + 1/k for each unit of log |x|; along a ray in
    general position it falls by n + 1/k.

    Args:
        density: log π.
        positions: in the typical set, (chains, n).
        value: log π there, (chains,).
        widths: the scale of each coordinate there, (n,).
        names: of coordinates.

    Raises Improper where log π rises, or falls too little for a proper posterior, along an axis or another direction.
    """
    n, best = len(widths), int(np.argmax(np.fmax(value, -np.inf)))
    if n > MOST_COORDINATES or not (np.isfinite(widths).all() and np.all(widths > 0)):
        return {}
    x, general = positions[best], positions[:2] - positions.mean(0)
    units = np.concatenate([np.diag(widths), np.diag(-widths), general, -general])
    dims = np.repeat([1, n], [2 * n, len(units) - 2 * n])
    far = density.value(x + 10.0**FEWEST * units)
    followed = np.flatnonzero((far >= value[best] - RELEVANT - 30 * dims) & np.any(units != 0, 1))
    if np.all(widths > LEAST_WIDTH * np.ptp(positions, 0)):
        refuse_directions(density, x, value[best], widths, names)
    if not len(followed):
        return {}
    values, axes = along(density, x, units[followed]), followed[followed < 2 * n]
    _refuse_improper(values[: len(axes)], units[axes], value[best], names)
    found: dict[str, float] = {}
    for k, ray in zip(_indices(values, dims[followed]), followed, strict=True):
        if k >= NO_VARIANCE:
            concerned = [int(ray) % n] if ray < 2 * n else range(n)
            found |= {_name(i, names): max(float(k), found.get(_name(i, names), 0.0)) for i in concerned}
    return found


def _refuse_improper(values: np.ndarray, units: np.ndarray, here: float, names: Sequence[str]) -> None:
    """Raises Improper by log π along the axes of coordinates, (rays, decades), and at the start of the rays, `here`."""
    if not len(values):
        return
    within_reach = ~(values.min(1) < here - UNREACHED)
    if (rising := grows(values) & within_reach).any():
        raise Improper(_growth(units[np.argmax(rising)], names))
    if (flat := too_flat(values) & within_reach & (values[:, FEWEST] >= here - REACHED)).any():
        where = _list(np.unique(np.argmax(np.abs(units[flat]), 1)).tolist(), names)
        raise Improper(
            f"the log density does not fall along {where}, at whatever distance: the posterior is not proper; give "
            "each variable a proper prior, or leave out what the log density does not depend on"
        )


def refuse_directions(
    density: "AbstractDensity", x: np.ndarray, here: float, widths: np.ndarray, names: Sequence[str]
) -> None:
    """Raises Improper where log π rises or is flat along a direction of several coordinates, from x (n,) on.

    `here` is log π at x; `widths` (n,) are the scales of coordinates. In single precision no direction is found, since
    rounding hides the course of log π after a few decades.
    """
    units = _of_little_curvature(density, x, widths)
    if not len(units):
        return
    rows = x + 10.0 ** np.arange(NEAREST, DIRECTED)[None, :, None] * units[:, None]
    values = density.value(rows.reshape(-1, len(x))).reshape(len(units), -1)
    near, slopes = np.all(values > here - REACHED, 1), np.diff(values)
    if (rising := near & np.all(slopes > RISE, 1)).any():
        raise Improper(_growth(units[np.argmax(rising)], names))
    if (flat := near & np.all(slopes > -FALL, 1)).any():
        shares = np.abs(units[np.argmax(flat)])
        where = _list([int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0.1 * shares.max()], names)
        raise Improper(
            f"the log density does not fall where {where} change together, at whatever distance: the posterior is not "
            "proper; give each variable a proper prior, or fix one of them"
        )


def _of_little_curvature(density: "AbstractDensity", x: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Directions (m, n), both ways, along which log π is almost straight at x, by differences of gradients.

    They are corrected far out, where a component across them has a gradient.
    """
    n, none = len(x), np.empty((0, len(x)))
    steps = 0.2 * np.concatenate([np.eye(n), -np.eye(n), np.zeros((1, n))])
    grad = density.value_and_grad(x + steps * widths)[1] * widths
    if n < 2 or not np.isfinite(grad).all() or precision_of(grad / widths) > np.finfo(float).eps:
        return none
    H = (grad[n:-1] - grad[:n]) / 0.4
    curvatures, vectors = np.linalg.eigh((H + H.T) / 2)
    small = np.abs(curvatures) < SMALL * np.abs(curvatures).max()
    if small.all() or not small.any():
        return none
    inverse = (vectors[:, ~small] / curvatures[~small]) @ vectors[:, ~small].T
    units = vectors[:, small].T[:MOST_DIRECTIONS]
    units = np.concatenate([units, -units])
    for t in 10.0 ** np.arange(1, DIRECTED - 1):
        there = density.value_and_grad(x + t * units * widths)[1] * widths
        units = units + np.where(np.isfinite(there), there - grad[-1], 0.0) @ inverse / t
    several = np.sum(np.abs(units) > 0.1 * np.abs(units).max(1, keepdims=True), 1) > 1  # axes are followed elsewhere
    return (units * widths)[several]


def _indices(values: np.ndarray, dims: np.ndarray) -> np.ndarray:
    """The tail indices k of rays (rays, decades) in dimensions (rays,); 0 where log π does not fall as a power."""
    near, middle, end = (values[:, decade - NEAREST] for decade in POWER)
    falls = (middle - end) / ((POWER[2] - POWER[1]) * np.log(10))
    before = (near - middle) / ((POWER[1] - POWER[0]) * np.log(10))
    is_power = np.abs(falls - before) < 0.01 * np.abs(falls)
    return np.where(is_power & (falls > dims), 1 / np.where(falls > dims, falls - dims, 1), 0.0) * (1 + ROUNDING)


def along(density: "AbstractDensity", x: np.ndarray, units: np.ndarray) -> np.ndarray:
    """log π at x + 10ᵏ units for k = NEAREST, NEAREST + 1, … up to `FARTHEST`, of shape (rays, decades)."""
    largest = np.max(np.abs(units))
    decades = NEAREST + np.arange(max(int(np.log10(FARTHEST / largest)) - NEAREST, FEWEST + 1))
    rows = x + 10.0 ** decades[None, :, None] * units[:, None]
    return density.value(rows.reshape(-1, len(x))).reshape(len(units), -1)


def grows(values: np.ndarray) -> np.ndarray:
    """Whether log π rises in each of the last decades of rays (rays, decades), to infinity or until it is NaN."""
    rises = (np.diff(values) > 0) | ((values[:, 1:] == np.inf) & (values[:, :-1] == np.inf))
    return _at_the_end(rises, values)


def too_flat(values: np.ndarray) -> np.ndarray:
    """Whether log π falls in each of the last decades of rays by less than that of a proper density."""
    return _at_the_end(np.diff(values) > -FALL, values)


def _at_the_end(holds: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Whether a condition holds in each of the last `FEWEST` decades, of those before log π is first NaN."""
    known = np.cumprod(~np.isnan(values), 1).astype(bool)
    since = np.where(known[:, 1:] & ~holds, np.arange(holds.shape[1])[None] + 1, 0).max(1)
    return known.sum(1) - 1 - since >= FEWEST


def _growth(direction: np.ndarray, names: Sequence[str]) -> str:
    shares = np.abs(direction) / np.max(np.abs(direction))
    largest = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0.1]
    return (
        f"the log density grows without bound along {_list(largest, names)}; is the sign right (logdensity returns log "
        "π, not −log π), and is the posterior proper?"
    )


def _list(numbers: Sequence[int], names: Sequence[str]) -> str:
    """The names of the first `MOST_NAMED` coordinates, and the number of the others."""
    told = [_name(i, names) for i in numbers[:MOST_NAMED]]
    return ", ".join(told) + (f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else "")


def _name(i: int, names: Sequence[str]) -> str:
    return names[i] if i < len(names) else f"coordinate {i}"
