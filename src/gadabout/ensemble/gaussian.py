r"""The Gaussian N(m, L Lᵀ) of a target: from positions and gradients there, or from the curvature of log π.

The covariance Σ with $\Sigma C_g\Sigma = C_x$, the geometric mean of the covariance of positions and the inverse of
that of gradients, minimises the Fisher divergence to a Gaussian (as the samplers of nutpie do).
"""

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

STEADY = 1e-20
"""of the mean square of a gradient: with less variance it does not vary, as up to a border where log π is linear"""


def geometric_mean(count: int, cov_x: np.ndarray, cov_g: np.ndarray, prior_draws: float = 0.0) -> np.ndarray:
    r"""The Σ with $\Sigma C_g\Sigma = C_x$; NaN where rounding leaves none.

    $\Sigma = R^{-\top}(R^\top C_xR)^{1/2}R^{-1}$ with the Cholesky root $RR^\top = C_g$, or
    $\sqrt{\mathrm{Var}\,x_i/\mathrm{Var}\,g_i}$ where variances are all there is. It is exact on a Gaussian as soon as
    the draws span the space. Coordinates are scaled by the latter first, and 10⁻⁵ I, and what rounding takes, added to
    both covariances.

    Args:
        count: the draws that covariances were computed from.
        cov_x: the covariance of positions, of shape (n, n), or their variances, of shape (n,).
        cov_g: that of gradients, of the same shape.
        prior_draws: weight, in draws, of the identity in the scaled coordinates, for few draws; matrices only.
    """
    if cov_x.ndim == 1:
        return np.sqrt(cov_x / cov_g)
    s = (np.diagonal(cov_x) / np.diagonal(cov_g)) ** 0.25
    scales, identity, weight = np.outer(s, s), np.eye(len(s)), count / (count + prior_draws)
    C_x, C_g = (
        weight * (scaled + 1e-5 * identity) + (1 - weight) * identity for scaled in (cov_x / scales, cov_g * scales)
    )
    # As much as rounding does, or C_g has no root; and C_x as well, or what both know nothing of becomes narrower.
    blur = len(s) * np.finfo(float).eps * np.max(np.diagonal(C_g)) * identity
    try:
        R = np.linalg.cholesky(C_g + blur)
        values, vectors = np.linalg.eigh(R.T @ (C_x + blur) @ R)
        half = np.linalg.solve(R.T, vectors * np.maximum(values, 1e-12) ** 0.25)
    except np.linalg.LinAlgError:
        return np.full_like(cov_x, np.nan)
    return scales * (half @ half.T)


def factor_of(covariance: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """L with L Lᵀ = covariance, lower triangular, or standard deviations from variances, of shape (n,).

    `otherwise`, of the same shape, where rounding leaves no root, for variances each by itself.
    """
    if covariance.ndim == 1:
        return np.where(covariance > 0, np.sqrt(np.maximum(covariance, 0)), otherwise)
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        return otherwise
    return root if np.isfinite(root).all() else otherwise


def of_paths(x: np.ndarray, grad: np.ndarray, kind: Literal["dense", "diagonal"]) -> np.ndarray:
    """The Gaussian's factor, of shape (n, n) or (n,), from points and gradients on ascents, of shape (points, n).

    On the way from afar variances of x and of the gradient are larger than on a Gaussian, where that of one is the
    inverse of the other's. The prior draws of `geometric_mean` are of that size, so both are divided by how much larger
    they are: else directions in which paths differ little beside those would come out as narrow. A gradient that does
    not vary counts by its mean square.
    """
    n, count, tiny = x.shape[1], max(len(x), 2), np.finfo(float).tiny ** 0.5

    def moments(rows):
        d = rows - np.sum(rows, 0) / count
        return (np.sum(d**2, 0) + tiny if kind == "diagonal" else d.T @ d + tiny * np.eye(n)) / (count - 1)

    cov_x, cov_g = moments(x), moments(grad)
    squares = np.sum(grad**2, 0) / count  # of an exponential it is the inverse of the variance
    steady = np.where((cov_g if kind == "diagonal" else np.diagonal(cov_g)) < STEADY * squares, squares, 0.0)
    cov_g = cov_g + (steady if kind == "diagonal" else np.diag(steady))
    if kind == "dense":
        larger = np.mean(np.sqrt(np.diagonal(cov_x)) * np.sqrt(np.diagonal(cov_g)))
        cov_x, cov_g = cov_x / larger, cov_g / larger
    covariance = geometric_mean(count, cov_x, cov_g, prior_draws=5.0)
    return factor_of(covariance, np.eye(n) if kind == "dense" else np.ones(n))


def curvature(density: "AbstractDensity", x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    r"""−∇² log π at points of shape (m, n), in coordinates whitened by a factor (n, n), at the scale that matters.

    Returns an array of shape (m, n, n). Differences of gradients a unit step to either side along each axis in turn are
    the columns, two gradients each; NaN where a step leads to where log π is not finite.
    """
    m, n = x.shape
    ends = x[:, None, None] + np.stack([-factor.T, factor.T])  # (m, 2, n, n): before and behind, axis
    value, grad = density.value_and_grad(ends.reshape(-1, n))
    finite = np.isfinite(value) & np.isfinite(grad).all(1)
    grad = np.where(finite[:, None], grad, np.nan).reshape(m, 2, n, n)
    columns = 0.5 * (grad[:, 0] - grad[:, 1]) @ factor
    return 0.5 * (columns + np.swapaxes(columns, 1, 2))


def curved(H: np.ndarray, factor: np.ndarray, precision: float = np.finfo(float).eps) -> np.ndarray:
    r"""The factor (n, n) of the Gaussian that is as curved as log π is on average over points; H by `curvature`.

    The covariance of the whitened z is $|H|^{-1}$, H the mean over points: what `geometric_mean` makes of steps and of
    differences of gradients, as if they were draws and gradients. Where log π is convex on average no direction becomes
    wider than it was, and one in which H is so small that rounding may have made it stays as wide. Points where H is
    not finite are left out; where there is no other, the factor stays as it is.

    Args:
        H: of shape (m, n, n).
        factor: the factor that H was whitened by, of shape (n, n).
        precision: the machine epsilon of the arithmetic in which gradients were computed.
    """
    good, n = np.isfinite(H).all((1, 2)), len(factor)
    if not good.any():
        return factor
    mean, identity, rounding = np.mean(H[good], 0), np.eye(n), n * precision
    try:  # concave in all directions, which takes a tenth of the time of eigenvectors; H = U Uᵀ with U upper triangular
        np.linalg.cholesky(mean - rounding * np.trace(mean) * identity)
        change = np.tril(np.linalg.inv(np.linalg.cholesky(mean[::-1, ::-1])[::-1, ::-1]).T)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(mean)
        significant = np.abs(values) > rounding * np.max(np.abs(values))
        widest = np.where(values > 0, values, np.maximum(1.0, -values))
        change = factor_of((vectors / np.where(significant, widest, 1.0)) @ vectors.T, identity)
    new = factor @ change
    return new if np.isfinite(np.log(np.diagonal(new)).sum()) else factor


def precision_of(values: np.ndarray) -> float:
    """The machine epsilon of the arithmetic that values come from: single where each is a single-precision number."""
    with np.errstate(over="ignore"):
        single = np.array_equal(values, values.astype(np.float32), equal_nan=True)
    return float(np.finfo(np.float32 if single else float).eps)
