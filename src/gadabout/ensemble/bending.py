r"""Curved ridges: layers in which the locations of children are quadratic in their ancestors.

Given all other coordinates, let $x_C$ be Gaussian with precision P about $c + B a + q(a)$, with squares and products of
ancestors in q. Then $\nabla_C\log\pi = -P(x_C - c - Ba - q(a))$ is linear in $x_C$, a and these products. A regression
of gradients on them is score matching. It is exact where the form is, also for draws that cover a part of the ridge.
"""

from typing import NamedTuple

import numpy as np

from gadabout.ensemble.coordinates import Noncentring
from gadabout.ensemble.curvature import Curvature, Sample

MOST_ANCESTORS = 12
"""coordinates at most whose squares and products are tried"""
FEATURES = 0.5
"""number of features of a regression at most, per draw"""
CURVED, EXPLAINED = 0.02, 0.5
"""`CURVED`: smallest share of a child's gradients that is not linear in the coordinates. `EXPLAINED`: largest share of
it that is not quadratic in the ancestors either."""
NOTICEABLE = 0.05
"""smallest bend along an ancestor, over one of its standard deviations, in standard deviations of the child given
all other coordinates"""
FAR = 10.0
"""mean square of standardised gradients from which on draws count less in regressions"""
RIDGE = 1e-10
"""constant added to the diagonal of normal equations, which is 1"""


def bent(sample: Sample, curvature: Curvature) -> Noncentring | None:
    """The layer of children that follow squares and products of their ancestors; None if no coordinate does so.

    Coordinates become children in the order in which quadratic terms explain their gradients, unless they are an
    ancestor of an earlier one.
    """
    spread, tiny = sample.y.std(0), np.finfo(float).tiny
    h, g = (sample.y - sample.y.mean(0)) / (spread + tiny), sample.grad * spread
    weight = 1 / (1 + np.mean(g**2 / (np.mean(g**2, 0) + tiny), 1) / FAR)
    able = _curving(curvature, spread)
    regression = Regression.of(h, g, able, weight)
    finite = np.isfinite(regression.normal).all() and np.isfinite(regression.right).all()
    if not finite or regression.features.shape[1] > FEATURES * len(h):
        return None
    n = len(spread)
    left = np.array([regression.unexplained(j, np.setdiff1d(able, j)) for j in range(n)])
    children, ancestors = [], np.zeros(0, int)
    for j in np.argsort(left):
        others = np.setdiff1d(able, [*children, j])
        if left[j] <= EXPLAINED and j not in ancestors and regression.unexplained(j, others) <= EXPLAINED:
            children.append(int(j))
            ancestors = np.union1d(ancestors, regression.followed(j, others))
    C, A = np.array(sorted(children), int), np.setdiff1d(ancestors, children)
    fit = regression.bends(C, A) if len(C) and len(A) else None
    if fit is None:
        return None
    slopes, bends = (each * spread[C].reshape(-1, *[1] * (each.ndim - 1)) for each in fit)
    slopes, bends = slopes / spread[A], bends / np.multiply.outer(spread[A], spread[A])
    return Noncentring(A, C, sample.y.mean(0)[A], np.zeros(len(C)), slopes, np.zeros_like(slopes), bends=bends)


def products(h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Products of all pairs of columns of h (N, p), squares included, and the pairs' two indices."""
    first, second = np.triu_indices(h.shape[1])
    return h[:, first] * h[:, second], first, second


def quadratic(coefficients: np.ndarray, p: int) -> np.ndarray:
    """The symmetric forms (q, p, p) of coefficients (q, pairs) of `products`."""
    first, second = np.triu_indices(p)
    forms = np.zeros((len(coefficients), p, p))
    forms[:, first, second] = coefficients / 2
    return forms + np.swapaxes(forms, 1, 2)


def _curving(curvature: Curvature, spread: np.ndarray) -> np.ndarray:
    """The coordinates a along which others bend most: $Q_{jaa} = -\\partial_j H_{aa} / 2 H_{jj}$ for a child j."""
    n = len(spread)
    if n <= MOST_ANCESTORS:
        return np.arange(n)
    own = np.diagonal(curvature.hessian, axis1=1, axis2=2)
    third = np.abs(np.nanmedian(curvature.slopes * own[:, :, None], 0))  # |∂_j H_aa| / 2, of shape (a, j)
    bends = np.nan_to_num(third) * spread[:, None] ** 2 / np.sqrt(np.maximum(np.median(own, 0), 1e-300))
    return np.sort(np.argsort(-np.max(bends, 1), kind="stable")[:MOST_ANCESTORS])


class Regression(NamedTuple):
    """Weighted regressions of gradients g (N, n) on coordinates h (N, n) and products of some of them.

    Args:
        features: 1, all coordinates, and the products, (N, f).
        first: the first coordinate of each product, (f − 1 − n,).
        second: the second one.
        normal: the features' second moments, (f, f).
        right: their moments with gradients, (f, n).
        square: second moments of gradients, (n,).
    """

    features: np.ndarray
    first: np.ndarray
    second: np.ndarray
    normal: np.ndarray
    right: np.ndarray
    square: np.ndarray

    @staticmethod
    def of(h: np.ndarray, g: np.ndarray, able: np.ndarray, weight: np.ndarray) -> "Regression":
        """The regressions with products of the coordinates in `able`, for weighted draws."""
        pairs, first, second = products(h[:, able])
        features = np.column_stack([np.ones(len(h)), h, pairs])
        weighted = features.T * (weight / weight.sum())
        return Regression(
            features, able[first], able[second], weighted @ features, weighted @ g, (weight / weight.sum()) @ g**2
        )

    def among(self, ancestors: np.ndarray) -> np.ndarray:
        """The features 1, all coordinates, and the products of ancestors, as indices."""
        n = len(self.square)
        within = np.isin(self.first, ancestors) & np.isin(self.second, ancestors)
        return np.r_[: n + 1, n + 1 + np.flatnonzero(within)]

    def solved(self, children: np.ndarray, features: np.ndarray) -> np.ndarray:
        """The coefficients (f, q) of some features for the gradients of children."""
        normal = self.normal[np.ix_(features, features)]
        scale = np.sqrt(np.diagonal(normal)) + np.finfo(float).tiny
        unit = normal / np.outer(scale, scale) + RIDGE * np.eye(len(scale))
        right = self.right[np.ix_(features, children)] / scale[:, None]
        return np.linalg.solve(unit, right) / scale[:, None]

    def residual(self, j: int, features: np.ndarray) -> float:
        """The mean square of what the features do not explain, by the degrees of freedom that are left."""
        N = len(self.features)
        rest = self.square[j] - self.right[features, j] @ self.solved(np.array([j]), features)[:, 0]
        return float(rest * N / (N - len(features)))

    def unexplained(self, j: int, ancestors: np.ndarray) -> float:
        """The share that products do not explain either, of what is not linear in j's gradients; 1 if all is linear."""
        linear = self.residual(j, np.arange(len(self.square) + 1))
        if not linear > CURVED * self.square[j] or not len(ancestors):
            return 1.0
        return self.residual(j, self.among(ancestors)) / linear

    def followed(self, j: int, ancestors: np.ndarray) -> np.ndarray:
        """Those of the ancestors along which j bends noticeably."""
        fit = self.bends(np.array([j]), ancestors)
        if fit is None:
            return np.zeros(0, int)
        given_others = 1 / np.sqrt(-self.solved(np.array([j]), self.among(ancestors))[1 + j, 0])
        return ancestors[np.abs(fit[1][0]).max(1) > NOTICEABLE * given_others]

    def bends(self, C: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Slopes (q, p) and quadratic forms (q, p, p) of children C in ancestors A; None if P is no precision."""
        features = self.among(A)
        solved = self.solved(C, features)
        precision = -0.5 * (solved[1 + C] + solved[1 + C].T)
        if np.any(np.linalg.eigvalsh(precision) <= 0):
            return None
        located = np.linalg.solve(precision, solved.T)
        return located[:, 1 + A], quadratic(located[:, 1 + len(self.square) :], len(A))
