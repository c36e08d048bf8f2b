"""Modes are weighed by their mass, not by their height: a wide one is low and may hold as much as a narrow one."""

from collections.abc import Mapping
from typing import Any

import numpy as np

LEAST = 10.0
"""by how much a log mass lies below the best before it is called negligible, at the least: a share of 1 in 22,000"""
ERRORS = 5.0
"""and how many standard errors of the estimate more"""
INDEPENDENT = 0.2
"""the share of independent draws that is taken for granted when that error is worked out"""


WIDER = 3.0
"""by how much a mode of which nothing is known but its height may be wider than the widest that is known"""
MOVING = 0.5
"""the share of draws at which a chain has moved, below which its own draws do not tell how wide its mode is"""


def negligible(draws: np.ndarray, lp: np.ndarray) -> np.ndarray:
    """Which chains stand where there is no mass to speak of beside that of others, from some draws of each.

    A chain's mass is that of a Gaussian where it stands: log π on average, plus the logarithms of its draws' standard
    deviations. It may be larger by as much as draws that follow one another slowly spread less than their law (see
    `_spread`); where it hardly moved it may be that of three times those of the chain that has the largest. It is held
    against the median of the better half of the chains, by what they moved, and against the best of those that move,
    less what its estimate may be too large: a chain that stands still in a narrow mode does not make the others
    negligible.

    Args:
        draws: of shape (t, chains, n).
        lp: log π of them, of shape (t, chains).

    Returns:
        shape (chains,).
    """
    t, _, n = draws.shape
    volumes = 0.5 * np.sum(np.log(np.maximum(draws.var(0), np.finfo(draws.dtype).tiny)), -1)
    moving = np.mean(np.any(draws[1:] != draws[:-1], -1), 0) >= MOVING
    masses = lambda volumes: np.nan_to_num(lp.mean(0) + volumes, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
    widest = volumes.max() + n * np.log(WIDER)
    own = np.minimum(volumes - 0.5 * n * np.log(_spread(draws)), widest)
    sure, most = masses(volumes), masses(np.where(moving, own, widest))
    error = np.sqrt((n / 2 + np.minimum(lp.var(0), 10.0 * n)) / (INDEPENDENT * t))
    best = max(np.median(np.sort(sure)[len(sure) // 2 :]), np.max(np.where(moving, sure - ERRORS * error, -np.inf)))
    return most < best - LEAST - ERRORS * error


def _spread(draws: np.ndarray) -> np.ndarray:
    """What share of their law's variance draws of a chain, shape (t, chains, n), have about their own mean; (chains,).

    1 − τ/t, with τ that of an autoregression with the mean over coordinates of the first autocorrelation, of which
    (1 + 3ρ)/t is put back that short series hide (Kendall 1954).
    """
    t, centred = len(draws), draws - draws.mean(0)
    square = np.maximum(np.sum(centred**2, 0), np.finfo(draws.dtype).tiny)
    rho = np.mean(np.sum(centred[1:] * centred[:-1], 0) / square, -1)
    rho = np.clip(rho + (1 + 3 * rho) / t, 0.0, 0.999)
    return np.maximum(1 - (1 + rho) / (1 - rho) / t, np.finfo(float).tiny)


def distinct_starts(evidence: Mapping[str, Any], lost: np.ndarray) -> int:
    """Of the places to start in that the evidence tells of, how many remain where these chains leave theirs."""
    return max(1, evidence.get("distinct_starts", len(lost)) - int(lost.sum()))


def others(lost: np.ndarray) -> np.ndarray:
    """For each chain where it starts again: where it stands, or in turn where one stands that is not lost."""
    sources = np.arange(len(lost))
    sources[lost] = np.resize(np.flatnonzero(~lost), lost.sum())
    return sources
