r"""The Gaussian N(m, L Lᵀ) of a target: from positions and gradients, or from the curvature of log π.

The covariance Σ with $\Sigma C_g\Sigma = C_x$ is the geometric mean of the covariance of positions and the inverse of
that of gradients. It minimises the Fisher divergence to a Gaussian (as the samplers of nutpie do).
"""

from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

STEADY = 1e-20
"""variance of a gradient over its mean square, below which it is constant, as where log π is linear up to a border"""


def geometric_mean(count: int, cov_x: np.ndarray, cov_g: np.ndarray, prior_draws: float = 0.0) -> np.ndarray:
    r"""The Σ with $\Sigma C_g\Sigma = C_x$; NaN where rounding leaves none.

    $\Sigma = R^{-\top}(R^\top C_xR)^{1/2}R^{-1}$ with the Cholesky root $RR^\top = C_g$, or
    $\sqrt{\mathrm{Var}\,x_i/\mathrm{Var}\,g_i}$ for variances alone. It is exact on a Gaussian as soon as the draws
    span the space. Coordinates are first scaled by the solution for variances. Then 10⁻⁵ I, and a multiple of I of the
    size of rounding errors, are added to both covariances.

    Args:
        count: the number of draws that covariances were computed from.
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
    # Blur of the size of rounding, or C_g has no root; C_x too, or directions without variance in both become narrower.
    blur = len(s) * np.finfo(float).eps * np.max(np.diagonal(C_g)) * identity
    try:
        R = np.linalg.cholesky(C_g + blur)
        values, vectors = np.linalg.eigh(R.T @ (C_x + blur) @ R)
        half = np.linalg.solve(R.T, vectors * np.maximum(values, 1e-12) ** 0.25)
    except np.linalg.LinAlgError:
        return np.full_like(cov_x, np.nan)
    return scales * (half @ half.T)


def factor_of(covariance: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """The lower-triangular L with L Lᵀ = covariance, or standard deviations from variances, of shape (n,).

    Returns `otherwise`, of the same shape, where rounding leaves no root; for variances, coordinate by coordinate.
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

    On a Gaussian the variance of a gradient is the inverse of that of x. Along ascents from far away both are larger.
    The prior draws of `geometric_mean` are of the size they have on a Gaussian, so a dense fit divides both by the mean
    excess. Otherwise directions in which paths differ little in comparison would come out too narrow. A gradient that
    does not vary counts by its mean square.
    """
    n, count, tiny = x.shape[1], max(len(x), 2), np.finfo(float).tiny ** 0.5

    def moments(rows):
        d = rows - np.sum(rows, 0) / count
        return (np.sum(d**2, 0) + tiny if kind == "diagonal" else d.T @ d + tiny * np.eye(n)) / (count - 1)

    cov_x, cov_g = moments(x), moments(grad)
    squares = np.sum(grad**2, 0) / count  # for an exponential density, the inverse of the variance of x
    steady = np.where((cov_g if kind == "diagonal" else np.diagonal(cov_g)) < STEADY * squares, squares, 0.0)
    cov_g = cov_g + (steady if kind == "diagonal" else np.diag(steady))
    if kind == "dense":
        larger = np.mean(np.sqrt(np.diagonal(cov_x)) * np.sqrt(np.diagonal(cov_g)))
        cov_x, cov_g = cov_x / larger, cov_g / larger
    covariance = geometric_mean(count, cov_x, cov_g, prior_draws=5.0)
    return factor_of(covariance, np.eye(n) if kind == "dense" else np.ones(n))


def curvature(density: "AbstractDensity", x: np.ndarray, factor: np.ndarray) -> np.ndarray:
    r"""−∇² log π at points of shape (m, n), in coordinates whitened by a factor (n, n), at the scale of a unit step.

    Returns an array of shape (m, n, n). Its columns are differences of gradients a unit step to either side along each
    axis, two gradients each. They are NaN where a step leads to a point at which log π is not finite.
    """
    m, n = x.shape
    ends = x[:, None, None] + np.stack([-factor.T, factor.T])  # (m, 2, n, n): back and forward, axis
    value, grad = density.value_and_grad(ends.reshape(-1, n))
    finite = np.isfinite(value) & np.isfinite(grad).all(1)
    grad = np.where(finite[:, None], grad, np.nan).reshape(m, 2, n, n)
    columns = 0.5 * (grad[:, 0] - grad[:, 1]) @ factor
    return 0.5 * (columns + np.swapaxes(columns, 1, 2))


def curved(H: np.ndarray, factor: np.ndarray, precision: float = np.finfo(float).eps) -> np.ndarray:
    r"""The factor (n, n) of the Gaussian with the curvature of log π averaged over points; H is from `curvature`.

    The covariance of the whitened z is $|H|^{-1}$, with H the mean over points. `geometric_mean` gives the same for
    steps and differences of gradients in place of draws and gradients. A direction in which log π is convex on average
    does not become wider. A direction keeps its width if H is so small in it that rounding may explain it. Points where
    H is not finite are left out; if there is no other, the factor is unchanged.

    Args:
        H: of shape (m, n, n).
        factor: the factor that H was whitened by, of shape (n, n).
        precision: the machine epsilon of the arithmetic in which gradients were computed.
    """
    good, n = np.isfinite(H).all((1, 2)), len(factor)
    if not good.any():
        return factor
    mean, identity, rounding = np.mean(H[good], 0), np.eye(n), n * precision
    try:  # concave in all directions: a tenth of the time of eigenvectors; H = U Uᵀ with U upper triangular
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
    """The machine epsilon of the arithmetic of values: single precision if each is a single-precision number."""
    with np.errstate(over="ignore"):
        single = np.array_equal(values, values.astype(np.float32), equal_nan=True)
    return float(np.finfo(np.float32 if single else float).eps)
