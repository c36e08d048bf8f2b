r"""Learned non-centring: which coordinates are scaled by which others, and how, from curvature and draws.

If log π has the curvature $H_{jj}\propto e^{-2K_{ja}x_a}$ along $x_j$, its third derivative shows this at any point:
$\partial_a\log H_{jj} = -2K_{ja}$ (`curvature`). Pairs for which this slope is large and consistent over some draws are
the scales of a layer (`coordinates.Noncentring`). If there are none, as for children with Laplace's law, whose log
density has no curvature, the size of gradients is used: log g² has the slope −2K.

Candidates for a layer are the form of hierarchical models, also with the part of data (`pooling`), and regressions. A
regression fits a child's location to draws by weighted least squares, and K to the log variances of residuals r and
gradients g, which have the slopes +2K and −2K (gamma regressions, by Fisher scoring: half the difference of both is the
geometric mean of `gaussian`, applied to scales). Candidates are compared by the Fisher divergence of the best Gaussian
on draws that it was not fitted to.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.bending import FEATURES, bent, bent_in_axes, products, quadratic
from gadabout.ensemble.bending import MOST_ANCESTORS as MOST_BENDING
from gadabout.ensemble.centring import written_non_centred
from gadabout.ensemble.coordinates import Coordinates, Noncentring
from gadabout.ensemble.curvature import Curvature, Density, Sample, curvature_at
from gadabout.ensemble.gaussian import factor_of, geometric_mean
from gadabout.ensemble.pooling import as_written, beside, deep_in_the_neck, in_common_basis, in_parts, pooled

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

MOST_COORDINATES = 1_000
"""coordinates above which no layers are searched for"""
POINTS, GRADIENTS = 32, 20_000
"""`POINTS`: draws at which curvature is measured. `GRADIENTS`: maximum of their gradients, unless 6 draws need more."""
NOTICEABLE, TOGETHER, SURE = 0.06, 0.25, 4.0
"""`NOTICEABLE`: smallest change of a log scale per standard deviation of an ancestor. `TOGETHER`: smallest root of the
sum of their squares. `SURE`: smallest distance of a change from 0, in standard errors."""
MOSTLY, CORRELATED = 0.5, 16
"""`MOSTLY`: share of draws with positive curvature along a coordinate below which gradients are tried as well as
curvature. `CORRELATED`: draws that count as one in their regressions, since chains are correlated."""
MOST_LAYERS = 3
NEGLIGIBLE = 1e-3
"""Fisher divergence that arises by chance: lower values are no gain"""
SMALL = 0.02
"""Fisher divergence below which a Gaussian fits well enough"""
GAIN, GAINED = 0.7, 0.98
"""`GAIN`: share of the Fisher divergence that a layer may leave. `GAINED`: share of another layer's that is a gain."""
MOST_ANCESTORS, FEW, FOLLOWED = 60, 40, 0.01
"""`MOST_ANCESTORS`: maximum number of ancestors of a location. All other coordinates count if there are at most `FEW`;
else those with a squared correlation above `FOLLOWED`."""
ROUNDS = 8
"""rounds of the regressions"""
PLAIN = 0.6
"""factor of the Fisher divergence of layers in the form of hierarchical models when candidates are compared"""
LARGEST_GRADIENT = 1e100
"""largest gradient, whose square is still finite"""
LARGEST = 4.0
"""largest change of a log scale per standard deviation of an ancestor"""
TRIES = 4
"""sets of children that are moved to the ancestors, one after another, without a gain, before the search ends"""


@np.errstate(all="ignore")
def layers_for(
    density: "AbstractDensity", sample: Sample, dense: bool, rng: np.random.Generator
) -> tuple[tuple[Noncentring, ...], float]:
    """Layers for draws of x, and the Fisher divergence with these layers."""
    layers, (N, n) = (), sample.y.shape
    divergence = fisher_divergence(sample, dense)
    while len(layers) < MOST_LAYERS and 2 <= n <= MOST_COORDINATES:
        points = sample.y[rng.permutation(N)[: points_at(n)]]
        found = _best_layer(Density(density, layers), sample, points, dense, divergence)
        if found is None:
            break
        layers, sample, divergence = (*layers, found[0]), sample.under(found[0]), found[1]
        if divergence < SMALL:
            break
    return layers, fisher_divergence(sample, dense)


@np.errstate(all="ignore")
def plain_layers(
    density: "AbstractDensity", sample: Sample, layers: Sequence[Noncentring], dense: bool, rng: np.random.Generator
) -> tuple[Noncentring, ...]:
    """Layers in the form of hierarchical models (`as_written`), where that is possible; draws are of x."""
    plain: tuple[Noncentring, ...] = ()
    for layer in layers:
        points = sample.y[rng.permutation(len(sample.y))[: points_at(sample.y.shape[1])]]
        curvature = curvature_at(Density(density, plain), points, _given_others(sample, dense))
        deep = deep_in_the_neck(Density(density, plain), layer, curvature)
        plain = (*plain, layer if deep is None else as_written(layer, deep))
        sample = sample.under(plain[-1])
    return plain


def points_at(n: int) -> int:
    """Number of draws at which curvature is measured in n coordinates."""
    return max(6, min(POINTS, GRADIENTS // (2 * n)))


def fisher_divergence(sample: Sample, dense: bool) -> float:
    r"""$\mathbb E\|L^\top\nabla\log\pi + z\|^2/n$ of the best Gaussian, fitted to one half, evaluated on the other.

    The mean is of $\log(1 + s)$ for the squares s, so that a few distant draws do not dominate. Both ways of using the
    halves are averaged.
    """
    return float(np.mean([_divergence(sample, slice(i, None, 2), slice(1 - i, None, 2), dense) for i in (0, 1)]))


def _divergence(sample: Sample, fitted: slice, judged: slice, dense: bool) -> float:
    coordinates = gaussian_of(Sample(sample.y[fitted], sample.grad[fitted]), dense)
    return divergence_in(coordinates, Sample(sample.y[judged], sample.grad[judged]))


def divergence_in(coordinates: Coordinates, sample: Sample) -> float:
    """The Fisher divergence, as above, of the Gaussian of coordinates on draws of x that it was not fitted to."""
    z, grad = coordinates.z(sample.y), coordinates.through_factor(sample.below(coordinates.layers).grad)
    return float(np.mean(np.log1p(np.sum((z + grad) ** 2, 1) / z.shape[1])))


def gaussian_of(sample: Sample, dense: bool, layers: tuple[Noncentring, ...] = ()) -> Coordinates:
    """The Gaussian fitted to draws and gradients that are in the coordinates of `layers`."""
    y, grad = sample.y, np.clip(sample.grad, -LARGEST_GRADIENT, LARGEST_GRADIENT)
    N, tiny = len(y), np.finfo(float).tiny ** 0.5
    d, e = y - y.mean(0), grad - grad.mean(0)
    if dense:
        unit = tiny * np.eye(y.shape[1])
        covariance = geometric_mean(N, d.T @ d / N + unit, e.T @ e / N + unit, prior_draws=5.0)
        factor = factor_of(covariance, np.diag(y.std(0) + tiny))
    else:
        factor = np.sqrt(geometric_mean(N, d.var(0) + tiny, e.var(0) + tiny))
    here = Coordinates(np.zeros(y.shape[1]), factor)
    return Coordinates(y.mean(0) + here.affine(here.through_factor(grad.mean(0)[None]))[0], factor, layers)


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


def _best_layer(
    density: Density, sample: Sample, points: np.ndarray, dense: bool, before: float
) -> tuple[Noncentring, float] | None:
    """The layer with the smallest Fisher divergence, and this divergence; None if no layer gains enough."""
    curvature = curvature_at(density, points, _given_others(sample, dense))
    sources = [scaled_pairs(curvature, sample.y.std(0))]
    curved = np.diagonal(curvature.hessian, axis1=1, axis2=2) > 0
    if not pick(*sources[0]).any() or (curved.mean(0) < MOSTLY).any():
        sources.append(scaled_gradients(sample))
    best, divergence, seen, starts = None, before, set(), []
    for K, sure in sources:
        starts += [(K, pick(K, sure)), (K, pick(K, sure, scales_as_much)), (K, alike(pick(K, sure, scales_more)))]
    for K, pairs in starts:
        tried = 0
        while pairs.any() and tried < TRIES and pairs.tobytes() not in seen:
            seen.add(pairs.tobytes())
            layer, found = _simplest(candidates(density, sample, pairs, K, curvature), sample, dense)
            tried = 0 if found < GAINED * divergence else tried + 1
            if found < divergence:
                best, divergence = layer, found
            pairs = without_central(pairs, curvature)
    for bending in (bent, bent_in_axes):
        layer = bending(sample, curvature)
        if layer is not None and (found := fisher_divergence(sample.under(layer), dense)) < GAINED * divergence:
            best, divergence = layer, found
    return None if best is None or divergence >= GAIN * before else (best, divergence)


def candidates(
    density: Density, sample: Sample, pairs: np.ndarray, K: np.ndarray, curvature: Curvature
) -> list[tuple[Noncentring, float]]:
    """Layers for these pairs, the simplest first, each with the weight of its Fisher divergence.

    If all children have the form of hierarchical models, this counts as better than it is (`PLAIN`), since draws seldom
    reach the neck.
    """
    layers = fitted(sample, pairs, K, curvature)
    hierarchy, others = in_parts(layers[0], sample.y[:, layers[0].ancestors].std(0))
    log_linear = [*written_non_centred(layers[0], sample, curvature), *layers]
    deep = deep_in_the_neck(density, hierarchy, curvature)
    if deep is None:
        return [(layer, 1.0) for layer in log_linear]
    plain = as_written(hierarchy, deep)
    based, scaled = in_common_basis(plain, curvature, deep)
    written = [plain, pooled(plain, sample, np.full(len(plain.children), True))]
    written += [] if based is None else [pooled(based, sample, scaled)]
    rest = [others, *(written_non_centred(others, sample, curvature) if len(others.children) else ())]
    weight = PLAIN if np.array_equal(hierarchy.log_scales, layers[0].log_scales) else 1.0
    return [(beside(*both), weight) for both in product(written, rest)] + [(layer, 1.0) for layer in log_linear]


def _simplest(layers: list[tuple[Noncentring, float]], sample: Sample, dense: bool) -> tuple[Noncentring, float]:
    """The first of the layers over which no other is a gain, and its weighted Fisher divergence."""
    best, least, divergence = layers[-1][0], np.inf, np.inf
    for layer, weight in layers:
        found = weight * fisher_divergence(sample.under(layer), dense)
        if max(found, weight * NEGLIGIBLE) < GAINED * least:
            best, least, divergence = layer, max(found, weight * NEGLIGIBLE), found
    return best, divergence


def _given_others(sample: Sample, dense: bool) -> np.ndarray:
    """The standard deviation of each coordinate given all others, (n,), from the Gaussian of draws."""
    n = sample.y.shape[1]
    centred = Coordinates(np.zeros(n), gaussian_of(sample, dense).factor)
    return 1 / np.linalg.norm(centred.z(np.eye(n)), axis=1)


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
