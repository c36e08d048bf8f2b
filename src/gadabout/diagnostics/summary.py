"""Effective sample sizes and R-hat of all coordinates."""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gadabout.diagnostics.initial_monotone import MIN_DRAWS, check_draws, initial_monotone_ess
from gadabout.diagnostics.split_ranks import Judged, ess_of_mean, judged_rows, rhat_rows

MOST_JUDGED = 100_000
"""Largest number of draws of each chain, evenly spaced, from which diagnostics are computed."""

MOST_IN_ALL = 4_000_000
"""Largest number of draws of one coordinate, over all chains, from which diagnostics are computed."""

BLOCK = 100_000  # values that are sorted and transformed at once
_RANKED = 20_000  # the same for ranks alone: beside other work, larger arrays are allocated on fresh pages
_SMALL = 20_000  # values for which one thread is as fast as several
THREADS = min(os.cpu_count() or 1, 8)


def ess_table(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Effective sample sizes of each coordinate, arrays of shape (n,), from draws of shape (chain, draw, n).

    `paper` is Geyer's initial monotone estimator averaged over chains. The others combine all chains (Vehtari et al.
    2021): `bulk` and `tail` (the smaller of the 5 % and 95 % quantiles) of x, and `square`, the ESS of (x − mean)², not
    of its ranks, with the mean over all draws. `square` is reported because antithetic moves estimate means better than
    variances. A coordinate that never moves in any chain counts as one draw. NaN for fewer than 4 draws, and where a
    draw is not finite.
    """
    draws = check_draws(draws)
    found = judged(draws)
    return {"paper": initial_monotone_ess(draws), "bulk": found.bulk, "tail": found.tail, "square": square_ess(draws)}


def judged(draws: np.ndarray) -> Judged:
    """Bulk and tail ESS as in `ess_table`; R-hat as in `rhat`, but for a single chain that of its two halves."""
    return Judged(*_by_coordinate(draws, judged_rows, (1.0, 1.0, 1.0, np.nan)))


def mean_ess(draws: np.ndarray) -> np.ndarray:
    """ESS of the mean of each coordinate, shape (n,), from draws (chain, draw, n); 1 or NaN as in `ess_table`."""
    return _by_coordinate(draws, lambda x: (ess_of_mean(x),), (1.0,))[0]


def square_ess(draws: np.ndarray) -> np.ndarray:
    """ESS of the mean of (x − mean)² of each coordinate; shapes and special cases as in `mean_ess`."""

    def one(x):
        x = x - x.mean(axis=(1, 2), keepdims=True)
        return (ess_of_mean((x / np.abs(x).max(axis=(1, 2), keepdims=True)) ** 2),)  # squares do not overflow

    return _by_coordinate(draws, one, (1.0,))[0]


def rhat(draws: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat (Vehtari et al. 2021) of each coordinate, shape (n,), from (chain, draw, n).

    Constant chains with different values give infinity or a huge number. NaN for a single chain, fewer
    than 4 draws, a coordinate that is constant over all chains, and where a draw is not finite.
    """
    draws = check_draws(draws)
    if len(draws) == 1:
        return np.full(draws.shape[2], np.nan)
    return _by_coordinate(draws, _rhat_alone, (np.nan,))[0]


def rhat_as_judged(draws: np.ndarray) -> np.ndarray:
    """R-hat as in `judged`, without the ESS."""
    return _by_coordinate(draws, _rhat_alone, (np.nan,), _RANKED)[0]


def _rhat_alone(rows: np.ndarray) -> tuple[np.ndarray]:
    return (rhat_rows(rows),)


def spread(values: np.ndarray) -> dict[str, float]:
    """Smallest, median and largest of some values; all NaN if one value is NaN. Raises ValueError for no values."""
    values = np.asarray(values, np.float64)
    if values.size == 0:
        raise ValueError("values must not be empty; pass at least one number")
    if np.isnan(values).any():
        return dict.fromkeys(("min", "median", "max"), float("nan"))
    return {"min": float(values.min()), "median": float(np.median(values)), "max": float(values.max())}


def _by_coordinate(
    draws: np.ndarray,
    function: Callable[[np.ndarray], tuple[np.ndarray, ...]],
    standing: tuple[float, ...],
    block: int | None = None,
) -> list[np.ndarray]:
    """Results of a function for each coordinate: `standing` if it never moves, NaN for too few or non-finite draws.

    Threads compute them block by block, unless there is little work.
    """
    num_chains, num_draws, n = draws.shape
    figures = [np.full(n, np.nan) for _ in standing]

    def judge(start):
        rows = np.ascontiguousarray(np.moveaxis(draws[:, :, start : start + step], 2, 0), np.float64)
        usable = np.isfinite(rows).all(axis=(1, 2))
        moving = usable & (rows.max(axis=(1, 2)) > rows.min(axis=(1, 2)))
        found = function(rows[moving]) if moving.any() else [np.empty(0)] * len(standing)
        for figure, value, values in zip(figures, standing, found, strict=True):
            figure[start : start + step][usable & ~moving] = value
            figure[start : start + step][moving] = values

    each = max(num_chains * num_draws, 1)
    small, step = n * each <= _SMALL, max(1, (block or BLOCK) // each)
    step = step if small else min(step, -(-n // THREADS))
    starts = range(0, n, step) if num_draws >= MIN_DRAWS else range(0)
    for _ in (map if small else _threads().map)(judge, starts):  # re-raises exceptions of threads
        pass
    return figures


@functools.cache
def _threads() -> ThreadPoolExecutor:
    """Threads for blocks of coordinates: sorts and transforms release the GIL, so cores work in parallel."""
    return ThreadPoolExecutor(THREADS, "gadabout-judge")


def spacing_of(chains: int, draws: int) -> int:
    """Spacing of the draws that enter the diagnostics: one in this many."""
    return max(1, -(-draws // min(MOST_JUDGED, max(1, MOST_IN_ALL // chains))))
