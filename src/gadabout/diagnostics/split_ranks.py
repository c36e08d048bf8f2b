r"""Bulk and tail ESS and R-hat of many coordinates at once (Vehtari et al. 2021).

The results equal those of `arviz_stats` up to rounding. `arviz_stats` computes one coordinate after another, five times
as slowly. It treats a coordinate as constant if its draws differ by less than 1e-15 because its unit is large.

Rows are coordinates: arrays have the shape (k, chain, draw), and all draws are finite.
"""

from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np


def split(rows: np.ndarray) -> np.ndarray:
    """The first and the last half of every chain as separate chains; without the middle draw of an odd number."""
    half = rows.shape[2] // 2
    return np.concatenate([rows[:, :, :half], rows[:, :, rows.shape[2] - half :]], axis=1)


class Judged(NamedTuple):
    """Diagnostics of k coordinates, shape (k,) each.

    `tail` is the smaller ESS of the 5 % and the 95 % quantile. `within` is the smaller of bulk and tail ESS computed
    without the differences between chains. `rhat` is the larger of two R-hats: that of the ranks, and that of the ranks
    of distances from the median. For a single chain, `rhat` compares the two halves.
    """

    bulk: np.ndarray
    tail: np.ndarray
    within: np.ndarray
    rhat: np.ndarray


def judged_rows(rows: np.ndarray) -> Judged:
    """Diagnostics of each row; a chain needs at least 4 draws."""
    halves = split(rows)
    z, folded = normal_scores(halves)
    quantiles = np.quantile(rows, (0.05, 0.95), axis=(1, 2))
    bulk, *tails = (_ess(z), *(_ess(split((rows <= q[:, None, None]).astype(float))) for q in quantiles))
    tail = np.minimum(*(both for both, _ in tails))
    within = np.minimum.reduce([bulk[1], *(own for _, own in tails)])
    return Judged(bulk[0], tail, within, np.fmax(_rhat(z), _rhat(folded)))


def rhat_rows(rows: np.ndarray) -> np.ndarray:
    """R-hat alone, as in `judged_rows`, at a third of the cost."""
    return np.fmax(*map(_rhat, normal_scores(split(rows))))


def ess_of_mean(rows: np.ndarray) -> np.ndarray:
    """ESS of the mean of each row, shape (k,); for a constant row, the number of draws."""
    return _ess(split(np.asarray(rows, np.float64)))[0]


def normal_scores(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Normal scores $\Phi^{-1}((r - 3/8)/(S + 1/4))$ of each row's S draws, and of their distances from its median.

    r is the rank; equal values have their mean rank. Distances are sorted by merging both sides of the median.
    """
    flat = rows.reshape(len(rows), -1)
    S = flat.shape[1]
    scores = _scores(S)
    begin = S * np.arange(len(flat))[:, None]
    order = np.argsort(flat, axis=1) + begin
    ordered, z, folded = flat.ravel()[order], np.empty(flat.size), np.empty(flat.size)
    z[order] = _of_ranks(ordered, scores)
    distances = np.abs(ordered - 0.5 * (ordered[:, [(S - 1) // 2]] + ordered[:, [S // 2]]))
    outwards = np.argsort(distances, axis=1, kind="stable") + begin
    folded[order.ravel()[outwards]] = _of_ranks(distances.ravel()[outwards], scores)
    return z.reshape(rows.shape), folded.reshape(rows.shape)


@lru_cache(2)
def _scores(S: int) -> np.ndarray:
    """Normal scores of the ranks 1 to S and of the half-way ranks between them, in ascending order: 2 S - 1 numbers.

    Quantiles come from Python's `statistics`: importing SciPy takes longer than a short run.
    """
    lower = ((np.arange(S) / 2 + 5 / 8) / (S + 1 / 4)).tolist()
    scores = np.fromiter(map(NormalDist().inv_cdf, lower), float, S)
    scores = np.concatenate([scores, -scores[-2::-1]])
    scores.setflags(write=False)
    return scores


def _of_ranks(ordered: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Scores of sorted values, shape (k, S), given `scores` of all ranks and half-way ranks."""
    S, begins = ordered.shape[1], np.ones(ordered.shape, bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=begins[:, 1:])
    alone = np.broadcast_to(scores[::2], ordered.shape)
    if begins.all():
        return alone
    begins, found = begins.ravel(), alone.flatten()
    goes_on = np.append(~begins[1:], False)  # the next value is equal
    first, last = np.flatnonzero(begins & goes_on), np.flatnonzero(~begins & ~goes_on)
    equals = last - first + 1
    found[begins <= goes_on] = np.repeat(scores[2 * (first % S) + equals - 1], equals)
    return found.reshape(ordered.shape)


def _rhat(chains: np.ndarray) -> np.ndarray:
    """R-hat of chains without splitting or ranking; infinite for constant chains with different values."""
    draws = chains.shape[2]
    between, within = chains.mean(2).var(1, ddof=1), chains.var(2, ddof=1).mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(between / within + (draws - 1) / draws)


def _ess(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ESS of the mean over all chains, and the same without the differences between the chains' means."""
    _, num_chains, draws = chains.shape
    covariance, means = _autocovariance(chains)
    between = means.var(1, ddof=1)[:, None] if num_chains > 1 else np.zeros((len(chains), 1))
    constant = np.ptp(chains, axis=(1, 2)) == 0
    within = covariance[:, :1] * draws / (draws - 1)
    ess = []
    for total in (covariance[:, :1] + between, covariance[:, :1]):
        rho = 1 - (within - covariance) / np.where(total > 0, total, 1)
        time = np.where(total[:, 0] > 0, _geyer(rho), num_chains * draws)  # constant chains count as one draw
        time = np.maximum(time, 1 / np.log10(num_chains * draws))
        ess.append(np.where(constant, float(num_chains * draws), num_chains * draws / time))
    return ess[0], ess[1]


def _geyer(rho: np.ndarray) -> np.ndarray:
    r"""Integrated time from autocorrelations (k, draw) by the initial monotone sequence, cut as in Stan and arviz."""
    rho[:, 0] = 1
    most = max(0, (rho.shape[1] - 3) // 2)  # largest index of a pair that may be used
    pairs = rho[:, : 2 * most + 2].reshape(len(rho), -1, 2).sum(2)
    positive = np.logical_and.accumulate(pairs > 0, axis=1)
    K = np.minimum(positive.sum(1), most)
    inside = np.arange(pairs.shape[1]) < K[:, None]
    even = np.take_along_axis(rho, 2 * K[:, None], 1)[:, 0]
    even = np.where(np.take_along_axis(positive, K[:, None], 1)[:, 0], even, np.maximum(even, 0))
    return -1 + 2 * np.sum(np.minimum.accumulate(pairs, axis=1), axis=1, where=inside) + even


def _autocovariance(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Autocovariances averaged over chains (k, draw), and chains' means (k, chain), scaled by each row's own unit."""
    draws = chains.shape[2]
    centred = chains - chains.mean(axis=(1, 2), keepdims=True)
    scale = np.abs(centred).max(axis=(1, 2), keepdims=True)
    centred /= np.where(scale > 0, scale, 1)  # no underflow or overflow in the squares
    means = centred.mean(2)
    centred -= means[:, :, None]
    padded = 2 ** (2 * draws - 1).bit_length()
    transform: Any = np.fft.rfft(centred, padded, axis=2)
    power = (transform.real**2 + transform.imag**2).mean(1)
    covariance: Any = np.fft.irfft(power, padded, axis=1)
    return covariance[:, :draws] / draws, means
