"""Several modes: a search for those in which no chain starts, and chains in modes that hold next to no mass.

Modes are weighed by their mass, not by their height: a wide one is low and may hold as much as a narrow one.
"""

from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.ascent import Ascent, Points, ascend, gradients_rise, replacements, room_below

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

__all__ = ["discarded_chains", "distinct_starts", "replacements", "search_modes"]

STARTS, MOST_STARTS = 8, 128
"""ascents of a mode search for each chain, and in all"""
SPREAD = 3.0
"""by how much their starts are spread out more than the chains'"""
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


@np.errstate(all="ignore")
def search_modes(
    density: "AbstractDensity", starts: np.ndarray, ascent: Ascent, rng: np.random.Generator
) -> tuple[np.ndarray, int | None]:
    """Positions (chains, n) after an ascent, every second one in a mode that no chain had found, as long as there are.

    And how many these are; None where no modes were searched for: for one chain, in many coordinates, and where log π
    is concave between any two of the chains' `starts` (chains, n) and of those of the search, at the price of one
    gradient each. It is then taken to be so everywhere.
    """
    chains, n = starts.shape
    if chains == 1 or n > MOST_COORDINATES:
        return ascent.positions, None
    count = max(chains, min(STARTS * chains, MOST_STARTS))
    spread = np.mean(starts, 0) + SPREAD * np.std(starts, 0) * rng.standard_normal((count, n))
    points = np.concatenate([starts, spread])
    if not gradients_rise(Points(points, *density.value_and_grad(points))):
        return ascent.positions, None
    found = _other_modes(density, spread, ascent)[: chains // 2]
    positions = ascent.positions.copy()
    positions[1 : 2 * len(found) : 2] = found
    return positions, len(found)


def _other_modes(density: "AbstractDensity", starts: np.ndarray, ascent: Ascent) -> np.ndarray:
    """The ends, of shape (modes, n), of those ascents from starts that led to another mode than chains stand in.

    An eighth of the ascents is not waited for. Such an end lies no lower than a chain may that is not hopeless (see
    `climb_to_typical_set`), and on the straight way to the nearest chain, in whitened coordinates, log π falls below
    both ends. Where log π is concave it never does.
    """
    paths, positions = ascend(density, starts, behind=len(starts) // BEHIND), ascent.positions
    here = np.fmax(density.value(positions), -np.inf)
    lowest = np.median(np.sort(here)[len(here) // 2 :]) - room_below(positions.shape[1])
    high = paths.arrived & (paths.ends.value >= lowest)
    x, there = paths.ends.x[high], paths.ends.value[high]
    z, chains_z = ascent.coordinates.z(x), ascent.coordinates.z(positions)
    nearest = np.argmin(np.sum((z[:, None] - chains_z) ** 2, -1), 1)
    shares = np.arange(1, BETWEEN + 1)[:, None, None] / (BETWEEN + 1)
    between = x + shares * (positions[nearest] - x)
    lowest = np.min(density.value(between.reshape(-1, x.shape[1])).reshape(BETWEEN, -1), 0)
    return x[~(lowest >= np.minimum(there, here[nearest]) - BARRIER)]


def discarded_chains(draws: np.ndarray, lp: np.ndarray) -> np.ndarray:
    """Which chains stand where there is next to no mass beside that of others, from some draws of each; (chains,).

    A chain's mass is that of a Gaussian where it stands: log π on average, plus the logarithms of its draws' standard
    deviations. It may be larger by as much as draws that follow one another slowly spread less than their law (see
    `_variance_share`); where it hardly moved it may be that of three times those of the chain that has the largest. It
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
    own = np.minimum(volumes - 0.5 * n * np.log(_variance_share(draws)), widest)
    sure, most = masses(volumes), masses(np.where(moving, own, widest))
    error = np.sqrt((n / 2 + np.minimum(lp.var(0), 10.0 * n)) / (INDEPENDENT * t))
    best = max(np.median(np.sort(sure)[len(sure) // 2 :]), np.max(np.where(moving, sure - ERRORS * error, -np.inf)))
    return most < best - NEGLIGIBLE - ERRORS * error


def _variance_share(draws: np.ndarray) -> np.ndarray:
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
