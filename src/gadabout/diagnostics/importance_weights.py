"""What importance weights say of the distribution that they were made with."""

import numpy as np


def tail_size(draws: int) -> float:
    """How many of so many weights are their tail, from which k̂ is fitted (Vehtari et al. 2024)."""
    return min(draws / 5, 3 * np.sqrt(draws))


def pareto_k(log_weights: np.ndarray) -> float:
    """Pareto k̂ of the weights' tail, of shape (draws,) (Vehtari et al. 2024), as `arviz_stats` has it.

    −∞ where the largest weights are all alike, ∞ where few draws have a weight, NaN with fewer than 25 draws.
    """
    if len(log_weights) < 25:
        return float("nan")
    ordered = np.sort(np.where(np.isfinite(log_weights), log_weights, -np.inf))
    length = int(tail_size(len(ordered)))
    if not np.isfinite(ordered[-length - 1]):
        return float("inf")  # the tail would be made of draws without weight
    if np.ptp(ordered[-length:]) <= max(1e-8, 1e3 * np.finfo(log_weights.dtype).eps):
        return float("-inf")  # alike up to rounding
    ordered = ordered.astype(float) - ordered[-1]
    threshold = max(ordered[-length - 1], np.log(np.finfo(float).tiny))
    tail = ordered[ordered > threshold]
    return tail_index(np.exp(tail) - np.exp(threshold)) if len(tail) > 4 else float("inf")


def tail_index(x: np.ndarray) -> float:
    """k of a generalised Pareto distribution (1 + k y/σ)^(−1/k − 1), from its draws in ascending order.

    The estimate of Zhang & Stephens (2009), a mean over a grid of k/σ by its profile likelihood, and ten draws' worth
    of k = 1/2 (Vehtari et al. 2024, appendix C).
    """
    n, size = len(x), 30 + int(np.sqrt(len(x)))
    spread = 1 - np.sqrt(size / (np.arange(size) + 0.5))
    theta = 1 / x[-1] + spread / (3 * x[int(n / 4 + 0.5) - 1])  # −k/σ
    theta = np.where(theta == 0, np.finfo(float).eps / x[-1], theta)  # k = 0, where what follows is a limit
    shape = lambda theta: np.mean(np.log1p(-theta[..., None] * x), -1)
    likelihood = n * (np.log(-theta / shape(theta)) - shape(theta) - 1)
    weights = np.exp(likelihood - likelihood.max())
    k = shape(np.asarray(theta @ weights / weights.sum()))
    return float((n * k + 10 * 0.5) / (n + 10))


@np.errstate(divide="ignore", over="ignore")  # weights so uneven that an acceptance rounds to 0
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
    squares = (values - values.mean(0)) ** 2
    worst = 1.0
    for squared in (squares, (squares - squares.mean(0)) ** 2):
        total, longer = np.sum(squared, 0), np.maximum(stay @ squared, np.finfo(float).tiny)
        worst = min(worst, float(np.min(np.where(total > 0, total, 1) / longer)))
    return float(accepted.mean()), worst
