"""What importance weights say of the distribution that they were made with."""

import numpy as np


def pareto_k(log_weights: np.ndarray) -> float:
    """Pareto k̂ of the weights' tail, of shape (draws,) (Vehtari et al. 2024).

    −∞ where the largest weights are all alike, ∞ where few draws have a weight, NaN with fewer than 25 draws.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import: only where it is used

    if len(log_weights) < 25:
        return float("nan")
    finite = np.isfinite(log_weights)
    tail = np.sort(log_weights)[-min(len(log_weights) // 5, int(3 * np.sqrt(len(log_weights)))) :]
    if finite.sum() <= len(tail):
        return float("inf")  # the tail would be made of draws without weight
    if np.ptp(tail) <= max(1e-8, 1e3 * np.finfo(log_weights.dtype).eps):
        return float("-inf")  # alike up to rounding
    lowest = log_weights[finite].min() - 1e3
    with np.errstate(divide="ignore", invalid="ignore"):  # of candidates that the fit leaves aside
        return float(array_stats.psislw(-np.where(finite, log_weights, lowest))[1])  # it takes log q − log π


def independence_efficiency(log_weights: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """How an independence chain with proposals from q would fare: its acceptance, and its worst efficiency.

    With w = π/q a chain at x accepts y ~ q with probability a(x) = E_q min{1, w(y)/w(x)}, which over draws of π is
    E_π min{1/w(y), 1/w(x)} / E_π[1/w]: no draw of q is needed, and what q misses counts. At x it stays 1/a(x) moves on
    average, so that a function f of mean zero has the efficiency E f² / E[f² (2/a − 1)] where each move that is made
    forgets x. The worst of x and (x − mean)² over coordinates is taken.

    Args:
        log_weights: log π − log q at draws of π up to a constant, shape (draws,).
        values: the draws, shape (draws, n).
    """
    inverse = np.exp(np.min(log_weights) - log_weights)
    order = np.argsort(inverse)
    sums, above = np.cumsum(inverse[order]), np.arange(len(inverse))[::-1]
    accepted = np.empty_like(inverse)
    accepted[order] = (sums + above * inverse[order]) / sums[-1]
    stay = 2 / accepted - 1
    deviations = values - values.mean(0)
    worst = 1.0
    for f in (deviations, deviations**2 - np.mean(deviations**2, 0)):
        total = np.sum(f**2, 0)
        worst = min(worst, float(np.min(np.where(total > 0, total, 1) / np.maximum(stay @ f**2, np.finfo(float).tiny))))
    return float(accepted.mean()), worst
