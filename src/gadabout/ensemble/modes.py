"""Several modes: a search for those in which no chain starts, and chains in modes that hold next to no mass.

Modes are weighed by their mass, not by their height: a wide one is low and may hold as much as a narrow one.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gadabout.ensemble.ascent import Ascent, Points, ascend, beneath_tangents, gradients_rise, replacements, room_below

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

__all__ = ["discarded_chains", "distinct_starts", "replacements", "search_modes"]

STARTS, MOST_STARTS = 16, 256
"""ascents of a mode search for each chain, and in all"""
SPREADS = (3.0, 2.0, 3.0, 10.0)
"""by how much their starts are spread out more than the chains', in turn"""
MOST_COORDINATES = 300
"""beyond which no modes are searched for: points at random miss whatever there is"""
BEHIND = 8
"""of so many ascents the last is not waited for: it takes as many turns as all the others"""
BETWEEN, BARRIER = 7, 3.0
"""points on the way to another mode, and by how much log π is lower at one of them than at both ends"""
NEGLIGIBLE = 10.0
"""by how much a log mass lies below the best before it is negligible, at the least: a share of 1 in 22,000"""
ERRORS = 5.0
"""and how many standard errors of the estimate more"""
INDEPENDENT = 0.2
"""the share of independent draws that is taken for granted when that error is worked out"""
WIDER = 3.0
"""by how much a mode of which only its height is known may be wider than the widest that is known"""
MOVING = 0.5
"""the share of draws at which a chain has moved, below which its own draws do not show how wide its mode is"""


class ModeSearch(NamedTuple):
    """What a search for modes found.

    Args:
        positions: of chains, (chains, n), every second one in a mode that no chain had found, as long as there are.
        elsewhere: how many these are; None where nothing was searched for.
        ends: where ascents ended that came high enough, chains' and others', (m, n).
        apart: whether log π falls between some of them.
    """

    positions: np.ndarray
    elsewhere: int | None
    ends: np.ndarray
    apart: bool


@np.errstate(all="ignore")
def search_modes(
    density: "AbstractDensity", starts: np.ndarray, ascent: Ascent, rng: np.random.Generator
) -> ModeSearch:
    """A search for modes by ascents from points spread about the chains' `starts` (chains, n), after these ascended.

    There is none for one chain, in many coordinates, and where log π is concave between any two of the starts and those
    points, at the price of one gradient each. It is then taken to be so everywhere.
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
    ends, other = _other_modes(density, spread, ascent)
    apart = bool(other.any() or between(density, positions, np.roll(positions, 1, 0)).any())
    found, positions = ends[other][: chains // 2], positions.copy()
    positions[1 : 2 * len(found) : 2] = found
    return ModeSearch(positions, len(found), np.concatenate([ends, ascent.positions]), apart)


def _other_modes(density: "AbstractDensity", starts: np.ndarray, ascent: Ascent) -> tuple[np.ndarray, np.ndarray]:
    """The ends (m, n) of ascents from starts, and which of them, (m,), are in another mode than chains stand in.

    An eighth of the ascents is not waited for. Such an end lies no lower than a chain may that is not hopeless (see
    `climb_to_typical_set`), and log π falls on the way to the chain that is nearest in whitened coordinates.
    """
    paths, positions = ascend(density, starts, behind=len(starts) // BEHIND), ascent.positions
    here = np.fmax(density.value(positions), -np.inf)
    lowest = np.median(np.sort(here)[len(here) // 2 :]) - room_below(positions.shape[1])
    x = paths.ends.x[paths.arrived & (paths.ends.value >= lowest)]
    z, chains_z = ascent.coordinates.z(x), ascent.coordinates.z(positions)
    nearest = np.argmin(np.sum((z[:, None] - chains_z) ** 2, -1), 1)
    return x, between(density, x, positions[nearest])


def between(density: "AbstractDensity", x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether log π falls below both ends on the straight way from x to y, (m, n) each; where it is concave never."""
    shares = np.arange(BETWEEN + 2)[:, None, None] / (BETWEEN + 1)
    value = density.value((x + shares * (y - x)).reshape(-1, x.shape[1])).reshape(BETWEEN + 2, -1)
    return ~(np.min(value[1:-1], 0) >= np.minimum(value[0], value[-1]) - BARRIER)


def discarded_chains(draws: np.ndarray, lp: np.ndarray) -> np.ndarray:
    """Which chains stand where there is next to no mass beside that of others, from some draws of each; (chains,).

    A chain's mass is that of a Gaussian where it stands: log π on average, plus the logarithms of its draws' standard
    deviations. It may be larger by as much as draws that follow one another slowly spread less than their law (see
    `variance_share`); where it hardly moved it may be that of three times those of the chain that has the largest. It
    is compared with the median of the better half of the chains, by what they moved, and with the best of those that
    move, less what its estimate may be too large: a chain that stands still in a narrow mode does not make the others
    negligible.

    Args:
        draws: of shape (t, chains, n).
        lp: log π of them, of shape (t, chains).
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
    """The share of their law's variance that draws of a chain, (t, chains, n), have about their own mean; (chains,).

    1 − τ/t, with τ that of an autoregression with the mean over coordinates of the first autocorrelation, to which the
    bias of short series, (1 + 3ρ)/t, is added (Kendall 1954).
    """
    t, centred = len(draws), draws - draws.mean(0)
    square = np.maximum(np.sum(centred**2, 0), np.finfo(float).tiny)
    rho = np.mean(np.sum(centred[1:] * centred[:-1], 0) / square, -1)
    rho = np.clip(rho + (1 + 3 * rho) / t, 0.0, 0.999)
    return np.maximum(1 - (1 + rho) / (1 - rho) / t, np.finfo(float).tiny)


def distinct_starts(distinct: int, discarded: np.ndarray) -> int:
    """Of so many distinct starting points, those that remain after these chains, (chains,), are discarded."""
    return max(1, distinct - int(discarded.sum()))
