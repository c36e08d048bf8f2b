r"""Bulk and tail ESS and R-hat of many coordinates at once (Vehtari et al. 2021).

The figures are those of `arviz_stats`, to rounding; that computes one coordinate after another, five times as slowly,
and counts a coordinate whose unit is so large that its draws differ by less than 1e-15 as one that never moves.

Rows are coordinates: arrays have the shape (k, chain, draw), and all draws are finite.
"""

from typing import Any

import numpy as np


def split(rows: np.ndarray) -> np.ndarray:
    """The first and the last half of every chain as chains of their own; of an odd number the middle draw is left."""
    half = rows.shape[2] // 2
    return np.concatenate([rows[:, :, :half], rows[:, :, rows.shape[2] - half :]], axis=1)


def bulk_tail_rhat(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bulk ESS, tail ESS (the smaller of the 5 % and 95 % quantiles') and R-hat of each row, shape (k,) each.

    R-hat is the larger of that of ranks and that of the ranks of distances from the median; of a single chain it
    compares the two halves. At least 4 draws a chain.
    """
    halves = split(rows)
    z = normal_scores(halves)
    low, high = np.quantile(rows, (0.05, 0.95), axis=(1, 2))
    tail = np.minimum(*(ess_of_mean(rows <= q[:, None, None]) for q in (low, high)))
    folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
    return _ess(z), tail, np.fmax(_rhat(z), _rhat(normal_scores(folded)))


def ess_of_mean(rows: np.ndarray) -> np.ndarray:
    """ESS of the mean of each row, shape (k,); of one that never moves, the number of draws."""
    return _ess(split(np.asarray(rows, np.float64)))


def normal_scores(rows: np.ndarray) -> np.ndarray:
    r"""$\Phi^{-1}((r - 3/8)/(S + 1/4))$ with the rank r of each of a row's S draws, a mean rank of equals."""
    from scipy.special import ndtri  # takes a while to import: only where it is used

    flat = rows.reshape(len(rows), -1)
    S = flat.shape[1]
    order = np.argsort(flat, axis=1)
    ordered = np.take_along_axis(flat, order, 1)
    place, differs = np.arange(S), ordered[:, 1:] != ordered[:, :-1]
    edge = np.ones((len(rows), 1), bool)
    first = np.maximum.accumulate(np.where(np.hstack([edge, differs]), place, 0), axis=1)
    last = np.minimum.accumulate(np.where(np.hstack([differs, edge]), place, S - 1)[:, ::-1], axis=1)[:, ::-1]
    scores = ndtri((np.arange(2 * S - 1) / 2 + 5 / 8) / (S + 1 / 4))  # of all ranks, and of those half-way
    z = np.empty(flat.shape)
    np.put_along_axis(z, order, scores[first + last], 1)
    return z.reshape(rows.shape)


def _rhat(chains: np.ndarray) -> np.ndarray:
    """R-hat of chains as they are; infinite where each stands still at a place of its own."""
    draws = chains.shape[2]
    between, within = chains.mean(2).var(1, ddof=1), chains.var(2, ddof=1).mean(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt(between / within + (draws - 1) / draws)


def _ess(chains: np.ndarray) -> np.ndarray:
    """ESS of the mean by Geyer's initial monotone sequence of the autocorrelations of all chains together."""
    _, num_chains, draws = chains.shape
    size, constant = num_chains * draws, np.ptp(chains, axis=(1, 2)) == 0
    covariance, means = _autocovariance(chains)
    within = covariance[:, :1] * draws / (draws - 1)
    total = covariance[:, :1] + (means.var(1, ddof=1)[:, None] if num_chains > 1 else 0)
    rho = 1 - (within - covariance) / np.where(constant[:, None], 1, total)
    rho[:, 0] = 1
    most = max(0, (draws - 3) // 2)  # no further than the pair of this number
    pairs = rho[:, : 2 * most + 2].reshape(len(rho), -1, 2).sum(2)
    positive = np.logical_and.accumulate(pairs > 0, axis=1)
    K = np.minimum(positive.sum(1), most)
    inside = np.arange(pairs.shape[1]) < K[:, None]
    even = np.take_along_axis(rho, 2 * K[:, None], 1)[:, 0]
    even = np.where(np.take_along_axis(positive, K[:, None], 1)[:, 0], even, np.maximum(even, 0))
    time = -1 + 2 * np.sum(np.minimum.accumulate(pairs, axis=1), axis=1, where=inside) + even
    return np.where(constant, float(size), size / np.maximum(time, 1 / np.log10(size)))


def _autocovariance(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Autocovariances, means over chains, (k, draw), and the chains' means (k, chain), in a unit of each row's own."""
    from scipy import fft

    draws = chains.shape[2]
    centred = chains - chains.mean(axis=(1, 2), keepdims=True)
    scale = np.abs(centred).max(axis=(1, 2), keepdims=True)
    centred /= np.where(scale > 0, scale, 1)  # no underflow or overflow in the squares
    means = centred.mean(2)
    centred -= means[:, :, None]
    padded = fft.next_fast_len(2 * draws, real=True)
    transform: Any = fft.rfft(centred, padded, axis=2)
    power = (transform.real**2 + transform.imag**2).mean(1)
    covariance: Any = fft.irfft(power, padded, axis=1)
    return covariance[:, :draws] / draws, means
