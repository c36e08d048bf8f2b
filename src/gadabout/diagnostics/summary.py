"""Effective sample sizes and R-hat of all coordinates."""

import numpy as np

from gadabout.diagnostics.initial_monotone import MIN_DRAWS, check_draws, initial_monotone_ess


def ess_table(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Effective sample sizes of each coordinate, arrays of shape (n,), from draws of shape (chain, draw, n).

    `paper` is Geyer's initial monotone estimator averaged over chains; the others are of all chains together (Vehtari
    et al. 2021): `bulk` and `tail` (the smaller of the 5 % and 95 % quantiles) of x, and `square`, the ESS of
    (x − mean)², not of its ranks, with the mean over all draws: antithetic moves give means that are better than
    their variances. A coordinate that never moves in any chain counts as one draw. NaN for fewer than 4 draws, and
    where a draw is not finite.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import: only where it is used

    draws = check_draws(draws)
    table = {"paper": initial_monotone_ess(draws)}
    coordinates, usable, moving = _by_coordinate(draws)
    for key in ("bulk", "tail", "square"):
        table[key] = np.where(usable, 1.0, np.nan)
    if moving.any():
        x = coordinates[moving]
        table["bulk"][moving] = array_stats.ess(x, method="bulk")
        table["tail"][moving] = array_stats.ess(x, method="tail", prob=(0.05, 0.95))
        x = (x - x.mean(axis=(1, 2), keepdims=True)) ** 2
        table["square"][moving] = array_stats.ess(x, method="mean")
    return table


def rhat(draws: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat (Vehtari et al. 2021) of each coordinate, shape (n,), from (chain, draw, n).

    Chains that each stand still at a place of their own give infinity or a huge number. NaN for a single chain, fewer
    than 4 draws, a coordinate that is constant over all chains, and where a draw is not finite.
    """
    from arviz_stats.base.array import array_stats

    draws = check_draws(draws)
    result = np.full(draws.shape[2], np.nan)
    coordinates, _, moving = _by_coordinate(draws)
    if len(draws) > 1 and moving.any():
        with np.errstate(divide="ignore", invalid="ignore"):
            result[moving] = array_stats.rhat(coordinates[moving], method="rank")
    return result


def spread(values: np.ndarray) -> dict[str, float]:
    """Smallest, median and largest of some values; all NaN where one of them is."""
    values = np.asarray(values, np.float64)
    if values.size == 0:
        raise ValueError("values must not be empty; pass at least one number")
    if np.isnan(values).any():
        return dict.fromkeys(("min", "median", "max"), float("nan"))
    return {"min": float(values.min()), "median": float(np.median(values)), "max": float(values.max())}


def _by_coordinate(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The draws as (n, chain, draw), which coordinates can be judged, and which of those move in some chain."""
    coordinates = np.ascontiguousarray(np.moveaxis(draws, 2, 0))
    usable = np.isfinite(coordinates).all(axis=(1, 2)) & (draws.shape[1] >= MIN_DRAWS)
    moving = usable & (coordinates.max(axis=(1, 2)) > coordinates.min(axis=(1, 2)))
    return coordinates, usable, moving
