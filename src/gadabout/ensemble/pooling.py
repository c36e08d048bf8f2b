r"""Layers as people write hierarchical models, carried to what data leave of them: partial pooling.

Deep in the neck, where a scale is next to nothing, data say nothing of the children, and log π is the model's: there
curvature tells what scales a child (K), what it is about (B), and which children depend on each other (Q₁). What data
add at draws (Q₀, q, d) is what is left of the curvature and of the gradients there. A layer with precisions that add is
then right in the neck, where draws are few, and where the scale is wide. For normal groups and normal data it is exact.
"""

from dataclasses import replace

import numpy as np

from gadabout.ensemble.coordinates import Noncentring
from gadabout.ensemble.curvature import STEP, Curvature, Density, Sample, curvature_at

DEEP, DEEP_POINTS, NOTHING = 5.0, 6, 1e-4
"""by how many nats, at how many points, children are made narrower to see the model that is left there, and the share
of a precision at draws that is taken for none of it"""
ROUNDS, RIDGE = 8, 1e-9
"""of the regressions, and what is added to their diagonal, of 1"""


def deep_in_the_neck(density: Density, layer: Noncentring, curvature: Curvature) -> Curvature | None:
    """The curvature where children are `DEEP` nats narrower than at draws, by the ancestor of each that says most.

    There data say nothing of them, and the curvature is that of the model. None where some K is negative, as where a
    model is written non-centred: data widen no scale; and where a child has no curvature there.
    """
    points, K = curvature.points[:DEEP_POINTS].copy(), layer.log_scales
    first = np.argmax(np.abs(K) * np.std(curvature.points[:, layer.ancestors], 0), 1)
    for i, a in enumerate(layer.ancestors):
        if (K[:, i] != 0).any() and np.median(K[K[:, i] != 0, i]) <= 0:
            return None
        if (first == i).any():
            points[:, a] -= DEEP / max(np.median(K[first == i, i]), 0.5)
    deep = curvature_at(density, points, curvature.step / STEP)
    curved = np.diagonal(deep.hessian, axis1=1, axis2=2)[:, layer.children] > 0
    return deep if curved.any(0).all() else None


def as_written(layer: Noncentring, deep: Curvature) -> Noncentring:
    """The layer as people write models: whole slopes, no other shift, and K in halves, as they are in the neck."""
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
    """The indices of children that are scaled alike, by K (q, p)."""
    kinds = np.unique(K, axis=0, return_inverse=True)[1].ravel()
    return [np.flatnonzero(kinds == kind) for kind in range(kinds.max(initial=-1) + 1)]


def in_common_basis(layer: Noncentring, curvature: Curvature, deep: Curvature) -> tuple[Noncentring | None, np.ndarray]:
    r"""The layer in a basis in which the model's precision and the data's are diagonal, for children scaled alike.

    The curvature among them is $e^{-2Ka}Q_1 + Q_0$. Q₁ is what it is deep in the neck, Q₀ what is left of it at draws,
    with least weight where the model's is large; V has their common eigenvectors. Returned as well is in which of them
    the model says more than `NOTHING`, (q,): not along that of all children and what they are about, for one. None
    where no children are scaled alike, or what was fitted is no precision.
    """
    V, scaled = np.eye(len(layer.children)), np.full(len(layer.children), True)
    for group in groups(layer.log_scales):
        if len(group) < 2:
            continue
        (H, E), (below, far) = (_among(layer, group, each) for each in (curvature, deep))
        if not len(H) or not len(below):
            return None, scaled
        usual = np.median(E)
        model, weight = np.mean(below / far[:, None, None], 0), 1 / (1 + E / usual) ** 2
        data = np.einsum("i,ijk->jk", weight / weight.sum(), H - E[:, None, None] * model)
        try:
            widths, vectors = np.linalg.eigh(data)
            data = (vectors * np.maximum(widths, 0.0)) @ vectors.T  # where log π bends the other way
            inverse = np.linalg.inv(np.linalg.cholesky(data + usual * model))
            shares, vectors = np.linalg.eigh(usual * inverse @ model @ inverse.T)
        except np.linalg.LinAlgError:
            return None, scaled
        V[np.ix_(group, group)] = inverse.T @ vectors
        scaled[group] = shares > NOTHING
    if np.array_equal(V, np.eye(len(V))):
        return None, scaled
    V *= np.exp(-np.linalg.slogdet(V)[1] / len(V))
    back = np.linalg.inv(V)
    return replace(layer, slopes=back @ layer.slopes, location=back @ layer.location, basis=V), scaled


def _among(layer: Noncentring, group: np.ndarray, curvature: Curvature) -> tuple[np.ndarray, np.ndarray]:
    """The curvature among some children, (m, k, k), and their e^(−2Ka), (m,), at the points where it is finite."""
    C = layer.children[group]
    H = curvature.hessian[:, C[:, None], C]
    known = np.isfinite(H).all((1, 2))
    a = curvature.points[known][:, layer.ancestors] - layer.centre
    return H[known], np.exp(-2 * a @ layer.log_scales[group[0]])


def pooled(layer: Noncentring, sample: Sample, scaled: np.ndarray) -> Noncentring:
    r"""The layer with precisions that add: p of the model, and q and d of the data, by score matching.

    In $\partial_j\log\pi = -p_j e^{-2K_j a}(x_j - c_j - B_j a) - q_j(x_j - d_j)$, which holds where children do not
    depend on each other given the ancestors, p, q and q d are linear: least squares of residuals times $s_j$, of which
    the Fisher divergence is made. What would be negative is 0.

    Args:
        layer: one as people write models.
        sample: draws.
        scaled: which children the model scales, of shape (q,); of the others p is 0.
    """
    C, tiny = layer.children, np.finfo(float).tiny
    of = layer.of_ancestors(sample.y)
    x, g = sample.y[:, C], sample.grad[:, C]
    if layer.basis is not None:
        x, g = np.linalg.solve(layer.basis, x.T).T, g @ layer.basis
    E, shift, spread = np.exp(-2 * np.clip(of.log_scale, -30, 30)), x.mean(0), x.std(0) + tiny
    features = np.stack([(-E * (x - of.place) * scaled).T, ((shift - x) / spread).T, np.ones_like(x).T], 1)
    first = np.mean(g**2, 0) / np.mean(E, 0)
    p, q, r = np.where(scaled, first, 0.0), np.where(scaled, 0.0, np.mean(g**2, 0) * spread), np.zeros(len(C))
    for _ in range(ROUNDS):
        weighted = features / (p * E + q / spread).T[:, None]
        normal, right = weighted @ np.swapaxes(features, 1, 2), np.einsum("jki,ij->jk", weighted, g)
        size = np.sqrt(np.einsum("jkk->jk", normal)) + tiny
        scale_free = normal / size[:, :, None] / size[:, None] + RIDGE * np.eye(3)
        p, q, r = (np.linalg.solve(scale_free, (right / size)[..., None])[..., 0] / size).T
        kept = (q > 0) | ~scaled
        p = np.where(scaled, np.maximum(np.where(kept, p, right[:, 0] / (normal[:, 0, 0] + tiny)), RIDGE * first), 0.0)
        q, r = np.where(kept, np.maximum(q, tiny), 0.0), np.where(kept, r, 0.0)
    d = np.where(q > 0, shift + spread * r / np.where(q > 0, q, 1), 0.0)
    found = replace(layer, precision=p, data_precision=q / spread, data_location=d)
    return found if np.isfinite(p + q + d).all() else layer
