"""Diagnostics of a proposal distribution from its importance weights."""

import numpy as np


def tail_size(draws: int) -> float:
    """Number of weights in the tail of `draws` weights, from which k̂ is fitted (Vehtari et al. 2024)."""
    return min(draws / 5, 3 * np.sqrt(draws))


def pareto_k(log_weights: np.ndarray) -> float:
    """Pareto k̂ of the tail of log weights of shape (draws,) (Vehtari et al. 2024), computed as in `arviz_stats`.

    −∞ if the largest weights are all equal, ∞ if too few draws have a positive weight, NaN for fewer than 25 draws.
    """
    if len(log_weights) < 25:
        return float("nan")
    ordered = np.sort(np.where(np.isfinite(log_weights), log_weights, -np.inf))
    length = int(tail_size(len(ordered)))
    if not np.isfinite(ordered[-length - 1]):
        return float("inf")  # the tail would contain draws of weight zero
    if np.ptp(ordered[-length:]) <= max(1e-8, 1e3 * np.finfo(log_weights.dtype).eps):
        return float("-inf")  # equal up to rounding
    ordered = ordered.astype(float) - ordered[-1]
    threshold = max(ordered[-length - 1], np.log(np.finfo(float).tiny))
    tail = ordered[ordered > threshold]
    return tail_index(np.exp(tail) - np.exp(threshold)) if len(tail) > 4 else float("inf")


def tail_index(x: np.ndarray) -> float:
    """Estimate of k of a generalised Pareto distribution (1 + k y/σ)^(−1/k − 1), from its draws in ascending order.

    The estimate of Zhang & Stephens (2009) averages over a grid of k/σ, weighted by its profile likelihood. A prior
    worth ten draws pulls it to k = 1/2 (Vehtari et al. 2024, appendix C).
    """
    n, size = len(x), 30 + int(np.sqrt(len(x)))
    spread = 1 - np.sqrt(size / (np.arange(size) + 0.5))
    theta = 1 / x[-1] + spread / (3 * x[int(n / 4 + 0.5) - 1])  # −k/σ
    theta = np.where(theta == 0, np.finfo(float).eps / x[-1], theta)  # k = 0: the formulas below need their limit
    shape = lambda theta: np.mean(np.log1p(-theta[..., None] * x), -1)
    likelihood = n * (np.log(-theta / shape(theta)) - shape(theta) - 1)
    weights = np.exp(likelihood - likelihood.max())
    k = shape(np.asarray(theta @ weights / weights.sum()))
    return float((n * k + 10 * 0.5) / (n + 10))


@np.errstate(divide="ignore", over="ignore")  # very uneven weights: an acceptance may round to 0
def independence_efficiency(log_weights: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Acceptance rate and lowest efficiency of an independence chain with proposals from q.

    With w = π/q, a chain at x accepts y ~ q with probability a(x) = E_q min{1, w(y)/w(x)}. Over draws of π this is
    E_π min{1/w(y), 1/w(x)} / E_π[1/w]: no draw of q is needed, and regions that q misses count. The chain stays at x
    for 1/a(x) moves on average. If each accepted move forgets x, a function f of mean zero has the efficiency
    E f² / E[f² (2/a − 1)]. The lowest efficiency is that over x and (x − mean)² of all coordinates.

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
