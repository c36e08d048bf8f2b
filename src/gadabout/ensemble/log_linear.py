"""Layers with log-linear scales, by regressions of children on their ancestors.

A child's location is fitted to draws by weighted least squares, and K to the log variances of residuals r and gradients
g, which have the slopes +2K and −2K (gamma regressions, by Fisher scoring: half the difference of both is the geometric
mean of `gaussian`, applied to scales).
"""

import numpy as np

from gadabout.ensemble.bending import FEATURES, products, quadratic
from gadabout.ensemble.bending import MOST_ANCESTORS as MOST_BENDING
from gadabout.ensemble.curvature import Curvature, Sample
from gadabout.ensemble.noncentring import Noncentring
from gadabout.ensemble.pairs import LARGEST

MOST_ANCESTORS, FEW, FOLLOWED = 60, 40, 0.01
"""`MOST_ANCESTORS`: maximum number of ancestors of a location. All other coordinates count if there are at most `FEW`;
else those with a squared correlation above `FOLLOWED`."""
ROUNDS = 8
"""rounds of the regressions"""


def fitted(sample: Sample, pairs: np.ndarray, K: np.ndarray, curvature: Curvature) -> list[Noncentring]:
    """Layers for these pairs: with a location that depends on all ancestors, on those that scale nothing, or on none.

    The last one, where ancestors are few, has a location that is quadratic in them.

    Args:
        sample: draws.
        pairs: mask of pairs (child, ancestor), (n, n).
        K: initial K of the regressions, per standard deviation of the ancestor, (n, n).
        curvature: selects further ancestors, on which children depend.
    """
    C, scales = np.flatnonzero(pairs.any(1)), np.flatnonzero(pairs.any(0))
    A = _ancestors(C, scales, curvature)
    centre, spread = sample.y[:, A].mean(0), sample.y[:, A].std(0) + np.finfo(float).tiny
    h, where = (sample.y[:, A] - centre) / spread, np.searchsorted(A, scales)
    every, none, layers = np.arange(len(A)), np.zeros(0, int), []
    designs = [(every, none), (np.setdiff1d(every, where), none), (none, none)]  # the location is linear, quadratic in
    curving = every if len(A) <= MOST_BENDING else where
    if len(curving) <= MOST_BENDING and len(A) + len(curving) * (len(curving) + 1) // 2 <= FEATURES * len(h):
        designs.append((every, curving))
    pairs, K = pairs[np.ix_(C, scales)], K[np.ix_(C, scales)]
    for follows, bending in designs:
        k, c, b = _regressed(
            sample, C, h[:, where], np.column_stack([h[:, follows], products(h[:, bending])[0]]), pairs, K
        )
        log_scales, slopes = np.zeros((2, len(C), len(A)))
        log_scales[:, where], slopes[:, follows] = k / spread[where], b[:, : len(follows)] / spread[follows]
        bends, forms = np.zeros((len(C), len(A), len(A))), quadratic(b[:, len(follows) :], len(bending))
        bends[:, bending[:, None], bending] = forms / np.multiply.outer(spread[bending], spread[bending])
        layers.append(Noncentring(A, C, centre, c, slopes, log_scales, bends=bends if len(bending) else None))
    return layers


def _ancestors(C: np.ndarray, scales: np.ndarray, curvature: Curvature) -> np.ndarray:
    """The coordinates that scale, and those of the others that children depend on most, without the children."""
    H = np.nanmedian(np.abs(curvature.hessian), 0)
    others = np.setdiff1d(np.arange(len(H)), C)
    followed = (H[np.ix_(others, C)] ** 2 / np.outer(np.diagonal(H)[others], np.diagonal(H)[C])).max(1)
    near = np.argsort(-followed, kind="stable")[:MOST_ANCESTORS]
    return np.union1d(scales, others[near[(followed[near] > FOLLOWED) | (len(others) <= FEW)]])


def _regressed(
    sample: Sample, C: np.ndarray, S: np.ndarray, F: np.ndarray, mask: np.ndarray, K: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """K (q, p), the location (q,) and its slopes (q, f) of children C, for standardised ancestors.

    Args:
        sample: draws.
        C: the children, (q,).
        S: draws of the ancestors that scale, (N, p).
        F: draws of the ancestors that the location depends on, (N, f).
        mask: mask of the pairs with a K, (q, p).
        K: initial K, (q, p).
    """
    y, g, N = sample.y[:, C], sample.grad[:, C], len(S)
    D, k = np.column_stack([np.ones(N), F]), np.where(mask, K, 0.0)
    ridge = N * np.diag(np.r_[0, np.full(F.shape[1], 1e-4)])
    normal = mask[:, :, None] * mask[:, None] * (S.T @ S / N) + np.eye(S.shape[1]) * np.where(mask, 0.02, 1)[:, None]
    solved = np.zeros((len(C), D.shape[1]))
    for _ in range(ROUNDS):
        weights = np.exp(-2 * np.clip(S @ (k.sum(0) / np.maximum(mask.sum(0), 1)), -8, 8))
        weighted = D * (weights / weights.mean())[:, None]
        solved = np.linalg.solve(weighted.T @ D + ridge, weighted.T @ y).T
        step, log_scale = np.zeros_like(k), np.clip(S @ k.T, -8, 8)
        for square, sign in (((y - D @ solved.T) ** 2, 1.0), (g**2, -1.0)):
            ratio = square * np.exp(-2 * sign * log_scale)
            ratio /= ratio.mean(0) + np.finfo(float).tiny
            score = (S.T @ (np.minimum(ratio, 20) - 1)).T / N * mask
            step += sign * 0.25 * np.linalg.solve(normal, score[..., None])[..., 0]
        k = np.clip(k + step, -LARGEST, LARGEST) * mask
    return k, solved[:, 0], solved[:, 1:]
