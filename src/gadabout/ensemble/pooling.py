r"""Partial pooling: layers in the form of hierarchical models, corrected for the information in the data.

Deep in the neck, where a scale is almost zero, data carry no information on the children, and log π is the model's. The
curvature there gives a child's scale (K), its location (B), and the dependence between children (Q₁). The data's part
at draws (Q₀, q, d) is the rest of the curvature and of the gradients there. A layer with additive precisions is then
right in the neck, where draws are few, and where the scale is large. It is exact for normal groups and normal data.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from gadabout.ensemble.curvature import STEP, Curvature, Density, Sample, curvature_at
from gadabout.ensemble.noncentring import Noncentring

DEEP, DEEP_POINTS, NOTHING = 5.0, 6, 1e-4
"""`DEEP`: nats by which children are narrowed to isolate the model. `DEEP_POINTS`: points at which this is done.
`NOTHING`: share of the precision at draws up to which the model counts as absent."""
ROUNDS, RIDGE = 8, 1e-9
"""`ROUNDS`: rounds of the regressions. `RIDGE`: constant added to the diagonal of their matrices, which is 1."""

PARTS = ("children", "location", "slopes", "log_scales")
"""what a layer has for each child"""
OPTIONAL = {"precision": 1.0, "data_precision": 0.0, "data_location": 0.0, "location_scales": 0.0}
"""what it may have, and the value where it is not given"""


def widening(K: np.ndarray) -> np.ndarray:
    """Mask (p,) of the ancestors that are scales: the median of their nonzero K, of shape (q, p), is positive."""
    return np.array([k.any() and np.median(k[k != 0]) > 0 for k in K.T], bool)


def in_parts(layer: Noncentring, spread: np.ndarray) -> tuple[Noncentring, Noncentring]:
    """The children of scales in a log-linear layer, and all others: layers with the same ancestors.

    A child is that of a scale (`widening`) if no other ancestor changes its width as much. Other ancestors narrow their
    children, as the rate of counts does by the precision of data: they have no neck, and their K is left out of the
    first part.

    Args:
        layer: a log-linear layer.
        spread: standard deviations of its ancestors.
    """
    scale = widening(layer.log_scales)
    own = scale[np.argmax(np.abs(layer.log_scales) * spread, 1)]
    part = lambda rows, K: replace(
        layer, children=layer.children[rows], location=layer.location[rows], slopes=layer.slopes[rows], log_scales=K
    )
    return part(own, np.where(scale, layer.log_scales[own], 0.0)), part(~own, layer.log_scales[~own])


def beside(layer: Noncentring, other: Noncentring) -> Noncentring:
    """One layer of the children of both, which have the same ancestors."""
    both, found = (layer, other), {}
    if not len(other.children):
        return layer
    for name in (*PARTS, *OPTIONAL):
        arrays = [getattr(each, name) for each in both]
        if any(array is not None for array in arrays):
            like = [each.log_scales if name == "location_scales" else each.location for each in both]
            filled = [
                np.full_like(rows, OPTIONAL[name]) if a is None else a for a, rows in zip(arrays, like, strict=True)
            ]
            found[name] = np.concatenate(filled)
    bases = [np.eye(len(each.children)) if each.basis is None else each.basis for each in both]
    turned = any(each.basis is not None for each in both)
    return replace(layer, **found, basis=block_diag(*bases) if turned else None)


def deep_in_the_neck(density: Density, layer: Noncentring, curvature: Curvature) -> Curvature | None:
    """The curvature where children are `DEEP` nats narrower than at draws, by shifts of their strongest ancestors.

    There data carry no information on the children, and the curvature is the model's. None if the median K of an
    ancestor is not positive, as for a non-centred model (data widen no scale), or if a child has no positive curvature
    there.
    """
    points, K = curvature.points[:DEEP_POINTS].copy(), layer.log_scales
    first = np.argmax(np.abs(K) * np.std(curvature.points[:, layer.ancestors], 0), 1)
    if not K.any() or (K.any(0) & ~widening(K)).any():
        return None
    for i, a in enumerate(layer.ancestors):
        if (first == i).any():
            points[:, a] -= DEEP / max(np.median(K[first == i, i]), 0.5)
    deep = curvature_at(density, points, curvature.step / STEP)
    curved = np.diagonal(deep.hessian, axis1=1, axis2=2)[:, layer.children] > 0
    return deep if curved.any(0).all() else None


def as_written(layer: Noncentring, deep: Curvature) -> Noncentring:
    """The layer in the form of hierarchical models: integer slopes, K in halves, as in the neck, no other shift."""
    A, C, K = layer.ancestors, layer.children, np.zeros_like(layer.log_scales)
    for i, a in enumerate(A):
        children = np.flatnonzero(layer.log_scales[:, i])
        if len(children):
            K[children, i] = max(np.round(2 * np.nanmedian(deep.slopes[:, C[children], a])) / 2, 0.5)
    slopes = np.zeros_like(layer.slopes)
    for group in groups(K):
        H = deep.hessian[:, C[group]]
        try:
            solved = -np.linalg.solve(H[:, :, C[group]], H[:, :, A])
        except np.linalg.LinAlgError:
            continue
        slopes[group] = np.round(np.nan_to_num(np.nanmedian(solved, 0)))
    slopes[:, K.any(0)] = 0.0
    return Noncentring(A, C, layer.centre, slopes @ layer.centre, slopes, K)


def groups(K: np.ndarray) -> list[np.ndarray]:
    """The indices of children with the same scale, in groups, from K (q, p)."""
    kinds = np.unique(K, axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(kinds == kind) for kind in range(kinds.max(initial=-1) + 1)]


def in_common_basis(layer: Noncentring, curvature: Curvature, deep: Curvature) -> tuple[Noncentring | None, np.ndarray]:
    r"""The layer in a basis that makes the precisions of model and data diagonal, for children with the same scale.

    The curvature among them is $e^{-2Ka}Q_1 + Q_0$. Q₁ is the curvature deep in the neck. Q₀ is the rest at draws, with
    least weight where the model's part is large. V has their common eigenvectors. Also returns a mask (q,) of the
    eigenvectors along which the model's share of precision is above `NOTHING`; it is not along the joint shift of all
    children and their location, for example. The layer is None if no children have the same scale, or if a fitted
    matrix is no precision.
    """

    def precisions(group: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        (H, E), (below, far) = (among(layer, group, each) for each in (curvature, deep))
        if not len(H) or not len(below):
            return None
        usual = np.median(E)
        model, weight = np.mean(below / far[:, None, None], 0), 1 / (1 + E / usual) ** 2
        return usual * model, np.einsum("i,ijk->jk", weight / weight.sum(), H - E[:, None, None] * model)

    based, shares = in_eigenvectors(layer, precisions)
    return based, shares > NOTHING


def in_eigenvectors(
    layer: Noncentring, precisions: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray] | None]
) -> tuple[Noncentring | None, np.ndarray]:
    """The layer in the common eigenvectors of two precisions of children, and the first one's shares (q,) along these.

    Args:
        layer: a layer without a basis.
        precisions: both precisions among the children of a group that have the same scale; None for no basis there.

    Returns:
        None in place of the layer if no group has a basis, or if a matrix is no precision; shares are 1 without one.
    """
    V, shares = np.eye(len(layer.children)), np.ones(len(layer.children))
    for group in groups(layer.log_scales):
        try:
            both = precisions(group) if len(group) > 1 else None
            if both is not None:
                shares[group], V[np.ix_(group, group)] = common_eigenvectors(*both)
        except np.linalg.LinAlgError:
            return None, np.ones_like(shares)
    return in_basis(layer, V), shares


def common_eigenvectors(model: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The model's shares (k,) of the precision model + data along their common eigenvectors, the columns of (k, k).

    Negative eigenvalues of the second matrix, as where log π is convex, are set to 0. Raises LinAlgError if the sum is
    not positive definite.
    """
    widths, vectors = np.linalg.eigh(data)
    inverse = np.linalg.inv(np.linalg.cholesky(model + (vectors * np.maximum(widths, 0.0)) @ vectors.T))
    shares, vectors = np.linalg.eigh(inverse @ model @ inverse.T)
    return shares, inverse.T @ vectors


def in_basis(layer: Noncentring, V: np.ndarray) -> Noncentring | None:
    """The layer in the basis V (q, q) of its children, scaled to determinant 1 or −1; None for the unit matrix."""
    if np.array_equal(V, np.eye(len(V))):
        return None
    V = V * np.exp(-np.linalg.slogdet(V)[1] / len(V))
    back = np.linalg.inv(V)
    return replace(layer, slopes=back @ layer.slopes, location=back @ layer.location, basis=V)


def among(layer: Noncentring, group: np.ndarray, curvature: Curvature) -> tuple[np.ndarray, np.ndarray]:
    """The curvature among children of a group, (m, k, k), and their e^(−2Ka), (m,), at points where it is finite."""
    C = layer.children[group]
    H = curvature.hessian[:, C[:, None], C]
    known = np.isfinite(H).all((1, 2))
    a = curvature.points[known][:, layer.ancestors] - layer.centre
    return H[known], np.exp(-2 * a @ layer.log_scales[group[0]])


def pooled(layer: Noncentring, sample: Sample, scaled: np.ndarray) -> Noncentring:
    r"""The layer with additive precisions: p of the model, and q and d of the data, by score matching.

    In $\partial_j\log\pi = -p_j e^{-2K_j a}(x_j - c_j - B_j a) - q_j(x_j - d_j)$, which holds where children do not
    depend on each other given the ancestors, p, q and q d are linear. They are fitted by least squares of residuals
    times $s_j$, the terms of the Fisher divergence. A negative q is set to 0, a negative p to a small positive value.

    Args:
        layer: a layer in the form of hierarchical models.
        sample: draws.
        scaled: mask of the children that the model scales, of shape (q,); p is 0 for the others.
    """
    C, tiny = layer.children, np.finfo(float).tiny
    of = layer.of_ancestors(sample.y)
    x, g = along(layer, sample)
    E, shift, spread = np.exp(-2 * np.clip(of.log_scale, -30, 30)), x.mean(0), x.std(0) + tiny
    features = np.stack([(-E * (x - of.place) * scaled).T, ((shift - x) / spread).T, np.ones_like(x).T], 1)
    first = np.mean(g**2, 0) / np.mean(E, 0)
    p, q, r = np.where(scaled, first, 0.0), np.where(scaled, 0.0, np.mean(g**2, 0) * spread), np.zeros(len(C))
    for _ in range(ROUNDS):
        (p, q, r), alone = regressed(features, g, p * E + q / spread)
        kept = (q > 0) | ~scaled
        p = np.where(scaled, np.maximum(np.where(kept, p, alone), RIDGE * first), 0.0)
        q, r = np.where(kept, np.maximum(q, tiny), 0.0), np.where(kept, r, 0.0)
    d = np.where(q > 0, shift + spread * r / np.where(q > 0, q, 1), 0.0)
    found = replace(layer, precision=p, data_precision=q / spread, data_location=d)
    return found if np.isfinite(p + q + d).all() else layer


def along(layer: Noncentring, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Draws of children and gradients, both (N, q), in the basis of a layer."""
    x, g = sample.y[:, layer.children], sample.grad[:, layer.children]
    return (x, g) if layer.basis is None else (np.linalg.solve(layer.basis, x.T).T, g @ layer.basis)


def regressed(features: np.ndarray, g: np.ndarray, precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (k, q) of features (q, k, N) for gradients (N, q), with weights 1/precision (N, q).

    Also returns the first feature's coefficients (q,) without the others.
    """
    weighted, tiny = features / precision.T[:, None], np.finfo(float).tiny
    normal, right = weighted @ np.swapaxes(features, 1, 2), np.einsum("jki,ij->jk", weighted, g)
    size = np.sqrt(np.einsum("jkk->jk", normal)) + tiny
    scale_free = normal / size[:, :, None] / size[:, None] + RIDGE * np.eye(normal.shape[1])
    solved = np.linalg.solve(scale_free, (right / size)[..., None])[..., 0] / size
    return solved.T, right[:, 0] / (normal[:, 0, 0] + tiny)
