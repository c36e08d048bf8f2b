r"""Curved ridges: layers in which the locations of children are quadratic in their ancestors.

Given all other coordinates, let $x_C$ be Gaussian with precision P about $c + B a + q(a)$, with squares and products of
ancestors in q. Then $\nabla_C\log\pi = -P(x_C - c - Ba - q(a))$ is linear in $x_C$, a and these products. A regression
of gradients on them is score matching. It is exact where the form is, also for draws that cover a part of the ridge.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, null_space

from gadabout.ensemble.curvature import Curvature, Sample
from gadabout.ensemble.noncentring import Noncentring

MOST_COORDINATES, MOST_ANCESTORS = 100, 12
"""`MOST_COORDINATES`: coordinates above which no parabola is sought. `MOST_ANCESTORS`: maximum number of those whose
squares and products are tried."""
FEATURES = 0.5
"""number of features of a regression at most, per draw"""
CURVED, EXPLAINED = 0.02, 0.5
"""`CURVED`: smallest share of a child's gradients that is not linear in the coordinates. `EXPLAINED`: largest share of
it that is not quadratic in the ancestors either."""
NOTICEABLE, SLIGHT = 0.05, 1e-3
"""smallest bends along an ancestor, over one of its standard deviations, in standard deviations of the child given all
other coordinates: where coordinates are ancestors, and in axes of their own, where each of these is a part of one"""
FAR = 10.0
"""mean square of standardised gradients from which on draws count less in regressions"""
RIDGE = 1e-10
"""constant added to the diagonal of normal equations, which is 1"""


def bent(sample: Sample, curvature: Curvature, noticeable: float = NOTICEABLE) -> Noncentring | None:
    """The layer of children that follow squares and products of their ancestors; None if no coordinate does so.

    Coordinates become children in the order in which quadratic terms explain their gradients, unless they are an
    ancestor of an earlier one.

    Args:
        sample: draws.
        curvature: selects the coordinates whose products are tried.
        noticeable: bends by less do not make a coordinate an ancestor.
    """
    spread = sample.y.std(0)
    able = _curving(curvature, spread)
    regression = Regression.of(*standardised(sample), able)
    if regression is None:
        return None
    left = regression.unexplained_by(able)
    children, ancestors = [], np.zeros(0, int)
    for j in np.argsort(left)[: np.sum(left <= EXPLAINED)]:
        others = np.setdiff1d(able, [*children, j])
        if j not in ancestors and regression.unexplained(j, others) <= EXPLAINED:
            children.append(int(j))
            ancestors = np.union1d(ancestors, regression.followed(j, others, noticeable))
    C, A = np.array(sorted(children), int), np.setdiff1d(ancestors, children)
    fit = regression.bends(C, A) if len(C) and len(A) else None
    if fit is None:
        return None
    slopes, bends = (each * spread[C].reshape(-1, *[1] * (each.ndim - 1)) for each in fit)
    slopes, bends = slopes / spread[A], bends / np.multiply.outer(spread[A], spread[A])
    return Noncentring(A, C, sample.y.mean(0)[A], np.zeros(len(C)), slopes, np.zeros_like(slopes), bends=bends)


def bent_in_axes(sample: Sample, curvature: Curvature) -> Noncentring | None:
    r"""The same in axes W of their own, for up to `MOST_ANCESTORS` coordinates: where no coordinate is a child.

    Derivatives along a child's direction v are quadratic in x. Those v for which squares and products explain at least
    half of what is not linear in $v^\top\nabla\log\pi$ are the first generalised eigenvectors of the two residual
    covariances. They are sought among those that are independent of the directions along which derivatives are linear.
    W has axes along them, and others at right angles, in units of standard deviations.
    """
    n, spread = sample.y.shape[1], sample.y.std(0)
    if n > MOST_ANCESTORS:
        return None
    regression = Regression.of(*standardised(sample), np.arange(n))
    if regression is None:
        return None
    try:
        children = regression.directions()
    except (np.linalg.LinAlgError, ValueError):  # moments are not positive definite, or not finite
        return None
    if not 0 < children.shape[1] < n:
        return None
    W = spread[:, None] * np.linalg.qr(children, mode="complete")[0]
    W /= np.exp(np.linalg.slogdet(W)[1] / n)
    turned = Sample(np.linalg.solve(W, sample.y.T).T, sample.grad @ W)
    layer = bent(turned, curvature, noticeable=SLIGHT)
    return None if layer is None else replace(layer, axes=W)


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


def standardised(sample: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws with mean 0 and variance 1, gradients with respect to these, both (N, n), and weights (N,)."""
    spread, tiny = sample.y.std(0), np.finfo(float).tiny
    h, g = (sample.y - sample.y.mean(0)) / (spread + tiny), sample.grad * spread
    return h, g, 1 / (1 + np.mean(g**2 / (np.mean(g**2, 0) + tiny), 1) / FAR)


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
        moments: second moments of gradients, (n, n).
    """

    features: np.ndarray
    first: np.ndarray
    second: np.ndarray
    normal: np.ndarray
    right: np.ndarray
    moments: np.ndarray

    @staticmethod
    def of(h: np.ndarray, g: np.ndarray, weight: np.ndarray, able: np.ndarray) -> "Regression | None":
        """The regressions with products of the coordinates in `able`; None for many coordinates, few draws, or infinite
        moments."""
        n, p = h.shape[1], len(able)
        if n > MOST_COORDINATES or 1 + n + p * (p + 1) // 2 > FEATURES * len(h):
            return None
        pairs, first, second = products(h[:, able])
        features = np.column_stack([np.ones(len(h)), h, pairs])
        weighted, moments = features.T * (weight / weight.sum()), (g.T * (weight / weight.sum())) @ g
        found = Regression(features, able[first], able[second], weighted @ features, weighted @ g, moments)
        return found if all(np.isfinite(each).all() for each in (found.normal, found.right, moments)) else None

    @property
    def square(self) -> np.ndarray:
        """The mean squares of gradients, (n,)."""
        return np.diagonal(self.moments)

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

    def residuals(self, features: np.ndarray) -> np.ndarray:
        """Second moments (n, n) of what the features do not explain, by the degrees of freedom that are left."""
        N, explained = len(self.features), self.right[features].T @ self.solved(np.arange(len(self.square)), features)
        return (self.moments - explained) * N / (N - len(features))

    def unexplained(self, j: int, ancestors: np.ndarray) -> float:
        """The share that products do not explain either, of what is not linear in j's gradients; 1 if all is linear."""
        linear = self.residuals(np.arange(len(self.square) + 1))[j, j]
        if not linear > CURVED * self.square[j] or not len(ancestors):
            return 1.0
        return float(self.residuals(self.among(ancestors))[j, j] / linear)

    def unexplained_by(self, ancestors: np.ndarray) -> np.ndarray:
        """The same of all coordinates, (n,), each without itself among the ancestors."""
        n = len(self.square)
        linear, rest = (np.diagonal(self.residuals(each)) for each in (np.arange(n + 1), self.among(ancestors)))
        shares = np.where(linear > CURVED * self.square, rest / np.maximum(linear, 1e-300), 1.0)
        shares[ancestors] = [self.unexplained(j, np.setdiff1d(ancestors, j)) for j in ancestors]
        return shares

    def followed(self, j: int, ancestors: np.ndarray, noticeable: float) -> np.ndarray:
        """Those of the ancestors along which j bends noticeably, in its standard deviations given all others."""
        fit = self.bends(np.array([j]), ancestors)
        if fit is None:
            return np.zeros(0, int)
        given_others = 1 / np.sqrt(-self.solved(np.array([j]), self.among(ancestors))[1 + j, 0])
        return ancestors[np.abs(fit[1][0]).max(1) > noticeable * given_others]

    def directions(self) -> np.ndarray:
        """Directions, (n, k), along which derivatives are quadratic, and independent of those where they are linear."""
        n = len(self.square)
        linear, rest = self.residuals(np.arange(n + 1)), self.residuals(self.among(np.arange(n)))
        shares, basis = eigh(linear, np.diag(self.square))
        precision = -self.solved(np.arange(n), np.arange(n + 1))[1:]
        basis = null_space((precision @ basis[:, shares <= CURVED]).T)
        shares, directions = eigh(basis.T @ rest @ basis, basis.T @ linear @ basis)
        return basis @ directions[:, shares <= EXPLAINED]

    def bends(self, C: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Slopes (q, p) and quadratic forms (q, p, p) of children C in ancestors A; None if P is no precision."""
        features = self.among(A)
        solved = self.solved(C, features)
        precision = -0.5 * (solved[1 + C] + solved[1 + C].T)
        if np.any(np.linalg.eigvalsh(precision) <= 0):
            return None
        located = np.linalg.solve(precision, solved.T)
        return located[:, 1 + A], quadratic(located[:, 1 + len(self.square) :], len(A))
