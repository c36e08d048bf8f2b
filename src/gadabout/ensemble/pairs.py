"""Which coordinates are scaled by which others: pairs of a child and an ancestor, from curvature and from draws."""

from collections.abc import Callable

import numpy as np

from gadabout.ensemble.curvature import Curvature, Sample

NOTICEABLE, TOGETHER, SURE = 0.06, 0.25, 4.0
"""`NOTICEABLE`: smallest change of a log scale per standard deviation of an ancestor. `TOGETHER`: smallest root of the
sum of their squares. `SURE`: smallest distance of a change from 0, in standard errors."""
LARGEST = 4.0
"""largest change of a log scale per standard deviation of an ancestor"""
CORRELATED = 16
"""draws that count as one in regressions of gradients, since chains are correlated"""


def scaled_pairs(curvature: Curvature, deviations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K (child, ancestor) per standard deviation of the ancestor, and |K| in standard errors; both (n, n)."""
    per_deviation = np.clip(curvature.slopes * deviations, -LARGEST, LARGEST)
    known = np.isfinite(per_deviation)
    count = np.maximum(known.sum(0), 1)
    mean = np.where(known, per_deviation, 0).sum(0) / count
    spread = np.sqrt(np.where(known, (per_deviation - mean) ** 2, 0).sum(0) / np.maximum(count - 1, 1))
    sure = np.abs(mean) / (spread / np.sqrt(count) + 1e-12)
    mean, sure = np.where(known.mean(0) > 0.7, mean, 0), np.where(known.mean(0) > 0.7, sure, 0)
    np.fill_diagonal(mean, 0)
    return mean, sure


def scaled_gradients(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """K and |K| in standard errors, as `scaled_pairs`, by regressions of log g² on each ancestor, with slope −2K."""
    N = len(sample.y)
    h = (sample.y - sample.y.mean(0)) / (sample.y.std(0) + np.finfo(float).tiny)
    size = np.log(sample.grad**2 + np.finfo(float).tiny)
    size -= size.mean(0)
    K = np.clip(-0.5 * size.T @ h / N, -LARGEST, LARGEST)
    sure = 2 * np.abs(K) / (size.std(0)[:, None] / np.sqrt(N / CORRELATED))
    np.fill_diagonal(K, 0)
    return K, sure


def scales_as_much(weight: np.ndarray) -> np.ndarray:
    """Mask of the coordinates that scale another about as much as they are scaled."""
    return weight.max(0) >= 0.25 * weight.max(1)


def scales_more(weight: np.ndarray) -> np.ndarray:
    """Mask of the coordinates that scale more others than they are scaled by."""
    return (weight > 0).sum(0) > (weight > 0).sum(1)


def pick(K: np.ndarray, sure: np.ndarray, parents: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
    """Mask of the pairs (child, ancestor) of a layer: ancestors in the order of total effect, none of them a child.

    `parents` makes a mask of coordinates from their squared K. Those of them that scale any other are no children.
    """
    weight = np.where((np.abs(K) > NOTICEABLE) & (sure > SURE), K**2, 0)
    weight *= weight.sum(0) > TOGETHER**2
    if parents is not None:
        weight[(weight.max(0) > 0) & parents(weight)] = 0
    pairs, child, free = np.zeros(K.shape, bool), np.zeros(len(K), bool), np.ones(len(K), bool)
    while True:
        score = (weight * free[:, None]).sum(0) * ~child
        a = int(np.argmax(score))
        if score[a] <= 0:
            return pairs
        pairs[(weight[:, a] > 0) & free, a] = True
        child |= pairs[:, a]
        weight[:, a] = weight[a] = 0
        free[a] = False


def alike(pairs: np.ndarray) -> np.ndarray:
    """The pairs of those children that have the same ancestors as most of them."""
    kinds, of, count = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    most = np.argmax(count * kinds.any(1))
    return pairs & (of.ravel() == most)[:, None]


def without_central(pairs: np.ndarray, curvature: Curvature) -> np.ndarray:
    """Pairs without those children that the other children determine best: these may be parents of their location.

    Given its children, a parent's scale follows theirs; without them it does not. The children above the widest gap in
    the logarithms of $(H_{CC}^{-1})_{jj} H_{jj}$ are left out.
    """
    C, left = np.flatnonzero(pairs.any(1)), pairs.copy()
    if len(C) < 2:
        return np.zeros_like(pairs)
    told = np.zeros(len(C))
    for H in curvature.hessian[:, C[:, None], C]:
        scale = np.sqrt(np.abs(np.diagonal(H)))
        try:
            inverse = np.linalg.inv(H / np.outer(scale, scale))
        except np.linalg.LinAlgError:
            continue
        told += np.nan_to_num(np.log(np.maximum(np.diagonal(inverse), 1)))
    order = np.argsort(-told)
    left[C[order[: int(np.argmax(-np.diff(told[order]))) + 1]]] = False
    return left
