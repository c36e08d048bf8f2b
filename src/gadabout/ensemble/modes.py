"""Search for modes in which no chain starts, and detection of chains in modes with negligible mass.

Modes are compared by mass, not by height: a wide mode is low and may hold as much mass as a narrow one.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gadabout.ensemble.ascent import Ascent, Points, ascend, beneath_tangents, gradients_rise, replacements, room_below

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

__all__ = ["discarded_chains", "distinct_starts", "replacements", "search_modes"]

STARTS, MOST_STARTS = 16, 256
"""`STARTS`: ascents of a mode search per chain. `MOST_STARTS`: their maximum in total, unless there are more chains."""
SPREADS = (3.0, 2.0, 3.0, 10.0)
"""factors of the chains' standard deviations by which the starts of these ascents are spread, used in turn"""
MOST_COORDINATES = 300
"""coordinates above which no search is made: random points would miss every mode"""
BEHIND = 8
"""one in so many ascents is not waited for: the last one takes as many turns as all the others"""
NEIGHBOURS = 3
"""lines from each mode to points of others that are tried at a time"""
BETWEEN = 7
"""points on the line to another mode"""
BARRIER, DEPTH = 3.0, 3.0
"""A fall of log π parts modes if it exceeds `BARRIER` nats by `DEPTH` times √(n/2), its deviation in a Gaussian."""
NEGLIGIBLE = 10.0
"""smallest distance of a negligible log mass below the best one, in nats: a share of 1 in 22,000"""
ERRORS = 5.0
"""standard errors of the estimate by which this distance is increased"""
INDEPENDENT = 0.2
"""assumed share of independent draws in this standard error"""
WIDER = 3.0
"""factor by which a mode of unknown width may be wider, per coordinate, than the widest known one"""
MOVING = 0.5
"""share of iterations in which a chain moved below which its draws do not show the width of its mode"""


class ModeSearch(NamedTuple):
    """Result of a search for modes.

    Args:
        positions: positions of the chains, (chains, n). Every second chain is in a new mode, as long as there are any.
        elsewhere: number of chains in new modes; None if no search was made.
        ends: ends of those ascents of the search that came high enough, and of the chains' own ascents, (m, n).
        apart: whether two modes hold at least two of them each.
    """

    positions: np.ndarray
    elsewhere: int | None
    ends: np.ndarray
    apart: bool


@np.errstate(all="ignore")
def search_modes(
    density: "AbstractDensity", starts: np.ndarray, ascent: Ascent, rng: np.random.Generator
) -> ModeSearch:
    """Search for modes by ascents from points spread about `starts` (chains, n), after the chains' own `ascent`.

    No search is made for one chain, in more than `MOST_COORDINATES` coordinates, or if log π is concave between any two
    of the starts and those points. It is then assumed to be concave everywhere. The check costs one gradient per point.
    """
    (chains, n), positions = starts.shape, ascent.positions
    if chains == 1 or n > MOST_COORDINATES:
        return ModeSearch(positions, None, positions, False)
    count = max(chains, min(STARTS * chains, MOST_STARTS))
    widths = np.resize(SPREADS, count)[:, None] * np.std(starts, 0)
    spread = np.mean(starts, 0) + widths * rng.standard_normal((count, n))
    points = Points(x := np.concatenate([starts, spread]), *density.value_and_grad(x))
    if beneath_tangents(points) and not gradients_rise(points):
        return ModeSearch(positions, None, positions, False)
    ends = np.concatenate([_high_ends(density, spread, ascent), positions])
    modes = connected(density, ends, ascent.coordinates.z(ends))
    elsewhere = ~np.isin(modes, modes[-chains:])
    found, positions = ends[elsewhere][: chains // 2], positions.copy()
    positions[1 : 2 * len(found) : 2] = found
    apart = np.sum(np.bincount(modes) > 1) > 1  # a single point may be the far end of a ridge
    return ModeSearch(positions, len(found), ends, bool(apart))


def _high_ends(density: "AbstractDensity", starts: np.ndarray, ascent: Ascent) -> np.ndarray:
    """The ends, (m, n), of ascents that came high enough: no lower than a chain may be that is not hopeless (see
    `climb_to_typical_set`). The last eighth of the ascents is not waited for."""
    paths = ascend(density, starts, behind=len(starts) // BEHIND)
    here = np.fmax(density.value(ascent.positions), -np.inf)
    lowest = np.median(np.sort(here)[len(here) // 2 :]) - room_below(starts.shape[1])
    return paths.ends.x[paths.arrived & (paths.ends.value >= lowest)]


def connected(density: "AbstractDensity", x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """The number of each point's mode, (m,), from 0: modes are parted by a fall of log π that no way around avoids.

    Of the shortest lines from each mode to others, `NEIGHBOURS` at a time, the highest first, each joins two modes if
    log π falls on it by less than `BARRIER` and `DEPTH` deviations below the best point of the lower one. The ends of a
    curved ridge, which no straight line connects, are thus in one mode. A saddle between two modes is in one of them.

    Args:
        density: log π.
        x: points of shape (m, n).
        z: the same points in coordinates in which distances are compared, (m, n).
    """
    modes, square, room = np.arange(len(x)), np.sum(z**2, 1), BARRIER + DEPTH * np.sqrt(x.shape[1] / 2)
    distance = square[:, None] + square - 2 * z @ z.T
    value = np.nan_to_num(density.value(x), nan=-np.inf, posinf=-np.inf)
    best = value.copy()
    while True:
        floor = np.minimum.outer(best[modes], best[modes]) - room
        possible = (modes[:, None] != modes) & (np.minimum.outer(value, value) >= floor)
        apart = np.where(possible, distance, np.inf)
        nearest = np.argmin(apart, 1)
        order = np.argsort(apart[np.arange(len(x)), nearest], kind="stable")
        first = np.concatenate([order[modes[order] == mode][:NEIGHBOURS] for mode in np.unique(modes)])
        second, before = nearest[first], modes.copy()
        lowest = np.minimum(lowest_between(density, x[first], x[second]), np.minimum(value[first], value[second]))
        for k in np.argsort(-lowest, kind="stable"):
            one, other = modes[first[k]], modes[second[k]]
            if lowest[k] >= min(best[one], best[other]) - room:
                modes[modes == other], best[one] = one, max(best[one], best[other])
        if np.array_equal(before, modes):
            return np.unique(modes, return_inverse=True)[1]


def lowest_between(density: "AbstractDensity", x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The lowest log π at `BETWEEN` points on each line from x to y, (m, n) each; −inf where it is not finite."""
    shares = np.arange(1, BETWEEN + 1)[:, None, None] / (BETWEEN + 1)
    value = density.value((x + shares * (y - x)).reshape(-1, x.shape[1])).reshape(BETWEEN, -1)
    return np.min(np.nan_to_num(value, nan=-np.inf, posinf=-np.inf), 0)


def discarded_chains(draws: np.ndarray, lp: np.ndarray) -> np.ndarray:
    """Mask (chains,) of the chains in modes of negligible mass compared with other chains, from some draws of each.

    The log mass of a chain is that of a Gaussian: the mean of log π plus the log standard deviations of its draws. An
    upper bound corrects for correlated draws, which spread less than their distribution (see `variance_share`). For a
    chain that hardly moved, this bound uses the volume of the widest chain, times `WIDER` per coordinate. A chain is
    discarded if its bound is negligible beside a reference. The reference is the median of the better half of the
    chains' masses, or, if larger, the best mass of a chain that moves, less its error: a chain that stands still in a
    narrow mode does not make the others negligible.

    Args:
        draws: of shape (t, chains, n).
        lp: log π of the draws, of shape (t, chains).
    """
    t, _, n = draws.shape
    volumes = 0.5 * np.sum(np.log(np.maximum(draws.var(0), np.finfo(float).tiny)), -1)
    moving = np.mean(np.any(draws[1:] != draws[:-1], -1), 0) >= MOVING
    masses = lambda volumes: np.nan_to_num(lp.mean(0) + volumes, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    widest = volumes.max() + n * np.log(WIDER)
    own = np.minimum(volumes - 0.5 * n * np.log(variance_share(draws)), widest)
    sure, most = masses(volumes), masses(np.where(moving, own, widest))
    error = np.sqrt((n / 2 + np.minimum(lp.var(0), 10.0 * n)) / (INDEPENDENT * t))
    best = max(np.median(np.sort(sure)[len(sure) // 2 :]), np.max(np.where(moving, sure - ERRORS * error, -np.inf)))
    return most < best - NEGLIGIBLE - ERRORS * error


def variance_share(draws: np.ndarray) -> np.ndarray:
    """Expected variance of each chain's draws, (t, chains, n), about their mean, as a share of the target's; (chains,).

    It is 1 − τ/t, with the autocorrelation time τ of an autoregression. Its coefficient ρ is the mean first
    autocorrelation over coordinates, plus the bias of short series, (1 + 3ρ)/t (Kendall 1954).
    """
    t, centred = len(draws), draws - draws.mean(0)
    square = np.maximum(np.sum(centred**2, 0), np.finfo(float).tiny)
    rho = np.mean(np.sum(centred[1:] * centred[:-1], 0) / square, -1)
    rho = np.clip(rho + (1 + 3 * rho) / t, 0.0, 0.999)
    return np.maximum(1 - (1 + rho) / (1 - rho) / t, np.finfo(float).tiny)


def distinct_starts(distinct: int, discarded: np.ndarray) -> int:
    """The number of distinct starting points, at least 1, without those of the `discarded` chains, (chains,)."""
    return max(1, distinct - int(discarded.sum()))
