r"""Models written non-centred, where data say much: layers in which children's locations are scaled too.

Let data determine $\theta_j = c_j + B_j a + e^{-P_j a} x_j$ with precision p, and let x have a prior with precision q
about d. Given its ancestors, x then has the gradient
$$\partial_j\log\pi = -p_j e^{-2K_j a}\bigl(x_j - e^{P_j a}(c_j + B_j a)\bigr) - q_j(x_j - d_j),$$
where K = P = −1 for the log scale of θ, and K = 1, P = 0 for that of errors. It is linear in p, p c, p B, q and q d,
which are fitted as in `pooling`. The layer is centred where data say much and non-centred where they say little. For
normal data it is exact.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gadabout.ensemble.curvature import Curvature, Sample
from gadabout.ensemble.noncentring import Noncentring
from gadabout.ensemble.pooling import RIDGE, along, among, in_eigenvectors, regressed

SIZES = 1.0, 0.5
"""|K| of ancestors that are logarithms of standard deviations, or of variances"""
STRONG, COUPLED = 0.2, 0.05
"""`STRONG`: least effect of an ancestor that is used, as a part of the strongest one's on the same child. `COUPLED`:
largest curvature between two children, over the geometric mean of their own, below which all are independent given the
ancestors."""
DRAWS, ROUNDS = 400, 4
"""`DRAWS`: draws that regressions use. `ROUNDS`: their rounds."""


def written_non_centred(layer: Noncentring, sample: Sample, curvature: Curvature) -> Iterator[Noncentring]:
    """Layers with the children of a log-linear layer and scaled locations, for each of `SIZES`, if each has a K < 0.

    Children that depend on each other get a basis in which the precisions of data and prior are diagonal.
    """
    K, step = np.sign(layer.log_scales) * _strong(layer, sample), 1 + len(sample.y) // DRAWS
    for size in SIZES if (K < 0).any(1).all() else ():
        plain = replace(layer, log_scales=size * K, location_scales=size * np.minimum(K, 0.0), bends=None)
        yield _fitted(_in_common_basis(plain, curvature), Sample(sample.y[::step], sample.grad[::step]))


def _strong(layer: Noncentring, sample: Sample) -> np.ndarray:
    """Mask (q, p) of the pairs of children and ancestors that are `STRONG`, in the median over the children."""
    effects = np.abs(layer.log_scales) * sample.y[:, layer.ancestors].std(0)
    relative = effects / effects.max(1, keepdims=True)
    usual = [np.median(each[each > 0]) if each.any() else 0.0 for each in relative.T]
    return (effects > 0) & (np.array(usual) > STRONG)


def _in_common_basis(layer: Noncentring, curvature: Curvature) -> Noncentring:
    """The layer in a basis in which data and prior have diagonal precisions.

    The curvature at draws is the sum of $e^{-2Ka}$ times the data's and of the prior's. The result is the layer itself
    if children are independent, or if the two are no precisions.
    """

    def precisions(group: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        H, E = among(layer, group, curvature)
        if len(H) < 2 or not _coupled(H):
            return None
        features = np.column_stack([E / np.median(E), np.ones_like(E)])
        weighted = (features / (1 + features[:, :1]) ** 2).T
        both = np.linalg.solve(weighted @ features, weighted @ H.reshape(len(H), -1)).reshape(2, *H.shape[1:])
        return both[0], both[1]

    return in_eigenvectors(layer, precisions)[0] or layer


def _coupled(H: np.ndarray) -> bool:
    """Whether some of the children depend on each other, by their curvature (m, k, k)."""
    own = np.sqrt(np.abs(np.diagonal(H, axis1=1, axis2=2))) + np.finfo(float).tiny
    relative = np.median(np.abs(H) / own[:, :, None] / own[:, None], 0)
    return bool((relative - np.diag(np.diagonal(relative)) > COUPLED).any())


def _fitted(layer: Noncentring, sample: Sample) -> Noncentring:
    """The layer with p, q, d, c and B by score matching, with residuals in the units of `pooling.pooled`.

    A negative q is set to 0, a negative p to a small positive value.
    """
    K, P = layer.log_scales, layer.location_scales
    follows, a, (x, g) = np.flatnonzero(~K.any(0)), sample.y[:, layer.ancestors] - layer.centre, along(layer, sample)
    E, grown = (np.exp(np.clip(a @ each.T, -30, 30)) for each in (-2 * K, P - 2 * K))
    spread = a[:, follows].std(0) + np.finfo(float).tiny
    located = [grown * column[:, None] for column in (np.ones(len(a)), *(a[:, follows] / spread).T)]
    features = np.stack([-E * x, -x, np.ones_like(x), *located]).transpose(2, 0, 1)
    p = first = np.mean(g**2, 0) / np.mean(E, 0)
    q, solved = np.zeros_like(p), np.zeros(features.shape[:2]).T
    for _ in range(ROUNDS):
        solved, _ = regressed(features, g, p * E + q)
        p, q = np.maximum(solved[0], RIDGE * first), np.maximum(solved[1], 0.0)
    d, slopes = np.where(q > 0, solved[2] / np.where(q > 0, q, 1), 0.0), np.zeros_like(layer.slopes)
    slopes[:, follows] = solved[4:].T / spread / p[:, None]
    return replace(layer, location=solved[3] / p, slopes=slopes, precision=p, data_precision=q, data_location=d)
