r"""Learned non-centring: which coordinates are scaled by which others, and how, from curvature and draws.

Where log π has the curvature $H_{jj}\propto e^{-2K_{ja}x_a}$ along $x_j$, its third derivative says so at any point:
$\partial_a\log H_{jj} = -2K_{ja}$ (`curvature`). Pairs in which it is large and agrees over some draws are the scales
of a layer (`coordinates.Noncentring`). Where there are none, as where children have Laplace's law, whose log density
has no curvature, the size of gradients tells: log g² has the slope −2K. Candidates for a layer are the one that people
write, also with what data add (`pooling`), and regressions: a child's location is fitted to draws by weighted least
squares, and K to the log variances of residuals r and gradients g, which have the slopes +2K and −2K (gamma
regressions, by Fisher scoring: half the difference of both is the geometric mean of `gaussian`, carried to scales).
They are judged by the Fisher divergence of the best Gaussian on draws that it was not fitted to.
"""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.coordinates import Coordinates, Noncentring
from gadabout.ensemble.curvature import Curvature, Density, Sample, curvature_at
from gadabout.ensemble.gaussian import factor_of, geometric_mean
from gadabout.ensemble.pooling import as_written, deep_in_the_neck, in_common_basis, pooled

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

MOST_COORDINATES = 600
"""beyond which no layers are looked for"""
POINTS, GRADIENTS = 32, 20_000
"""draws at which curvature is measured, and gradients that this may take, if 6 draws need no more"""
NOTICEABLE, TOGETHER, SURE = 0.06, 0.25, 4.0
"""by how much a standard deviation of an ancestor changes a log scale at least, all of them together (the root of the
sum of squares), and standard errors that it is away from 0"""
MOSTLY, CORRELATED = 0.5, 16
"""the share of draws at which a child has a positive curvature, where that is to tell its scale; else gradients do, of
which so many draws count for one, since chains are correlated"""
MOST_LAYERS = 3
NEGLIGIBLE = 1e-3
"""a Fisher divergence, as chance makes them: what is less is no gain"""
SMALL = 0.02
"""a Fisher divergence with which a Gaussian does well enough"""
GAIN, GAINED = 0.7, 0.98
"""the share of the Fisher divergence that a layer may leave, and that which is a gain over another layer"""
MOST_ANCESTORS, FEW, FOLLOWED = 60, 40, 0.01
"""of a location at most; all others where they are no more than so few; else those with this squared correlation"""
ROUNDS = 8
"""of the regressions"""
PLAIN = 0.6
"""what the divergence of a layer as people write it counts for"""
LARGEST_GRADIENT = 1e100
"""whose square is a number"""
LARGEST = 4.0
"""of a log scale for a standard deviation of an ancestor"""
TRIES = 4
"""sets of children that are moved to the ancestors, one after another, without a gain"""


@np.errstate(all="ignore")
def layers_for(
    density: "AbstractDensity", sample: Sample, dense: bool, rng: np.random.Generator
) -> tuple[tuple[Noncentring, ...], float]:
    """Layers for draws of x, and the Fisher divergence with them."""
    layers, (N, n) = (), sample.y.shape
    divergence = fisher_divergence(sample, dense)
    while len(layers) < MOST_LAYERS and 3 <= n <= MOST_COORDINATES:
        points = sample.y[rng.permutation(N)[: points_at(n)]]
        found = _best_layer(Density(density, layers), sample, points, dense, divergence)
        if found is None:
            break
        layers, sample, divergence = (*layers, found[0]), sample.under(found[0]), found[1]
    return layers, fisher_divergence(sample, dense)


@np.errstate(all="ignore")
def plain_layers(
    density: "AbstractDensity", sample: Sample, layers: Sequence[Noncentring], dense: bool, rng: np.random.Generator
) -> tuple[Noncentring, ...]:
    """Layers as people write them (`as_written`), where that can be; draws are of x."""
    plain: tuple[Noncentring, ...] = ()
    for layer in layers:
        points = sample.y[rng.permutation(len(sample.y))[: points_at(sample.y.shape[1])]]
        curvature = curvature_at(Density(density, plain), points, _given_others(sample, dense))
        deep = deep_in_the_neck(Density(density, plain), layer, curvature)
        plain = (*plain, layer if deep is None else as_written(layer, deep))
        sample = sample.under(plain[-1])
    return plain


def points_at(n: int) -> int:
    """Draws at which curvature is measured."""
    return max(6, min(POINTS, GRADIENTS // (2 * n)))


def fisher_divergence(sample: Sample, dense: bool) -> float:
    r"""That of the best Gaussian, $\mathbb E\|L^\top\nabla\log\pi + z\|^2/n$: fitted to one half, judged on the other.

    Of the squares s, $\log(1 + s)$ is averaged, which a few draws far out do not decide, and both ways round.
    """
    return float(np.mean([_divergence(sample, slice(i, None, 2), slice(1 - i, None, 2), dense) for i in (0, 1)]))


def _divergence(sample: Sample, fitted: slice, judged: slice, dense: bool) -> float:
    coordinates = gaussian_of(Sample(sample.y[fitted], sample.grad[fitted]), dense)
    return divergence_in(coordinates, Sample(sample.y[judged], sample.grad[judged]))


def divergence_in(coordinates: Coordinates, sample: Sample) -> float:
    """The Fisher divergence of the Gaussian of coordinates, as above, on draws of x that it was not fitted to."""
    z, grad = coordinates.z(sample.y), coordinates.through_factor(sample.below(coordinates.layers).grad)
    return float(np.mean(np.log1p(np.sum((z + grad) ** 2, 1) / z.shape[1])))


def gaussian_of(sample: Sample, dense: bool, layers: tuple[Noncentring, ...] = ()) -> Coordinates:
    """The Gaussian of draws and gradients, in the coordinates of layers."""
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
    """K (child, ancestor) for a standard deviation of the ancestor, and how sure it is, in standard errors; (n, n)."""
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
    """What `scaled_pairs` returns, by regressions of log g² on each ancestor, of slope −2K."""
    N = len(sample.y)
    h = (sample.y - sample.y.mean(0)) / (sample.y.std(0) + np.finfo(float).tiny)
    size = np.log(sample.grad**2 + np.finfo(float).tiny)
    size -= size.mean(0)
    K = np.clip(-0.5 * size.T @ h / N, -LARGEST, LARGEST)
    sure = 2 * np.abs(K) / (size.std(0)[:, None] / np.sqrt(N / CORRELATED))
    np.fill_diagonal(K, 0)
    return K, sure


def pick(K: np.ndarray, sure: np.ndarray, parents: bool = False) -> np.ndarray:
    """Which pairs (child, ancestor) make a layer: ancestors in the order of what they scale, none of them a child.

    With `parents` no coordinate is a child that scales another about as much as it is scaled.
    """
    weight = np.where((np.abs(K) > NOTICEABLE) & (sure > SURE), K**2, 0)
    weight *= weight.sum(0) > TOGETHER**2
    if parents:
        weight[(weight.max(0) > 0) & (weight.max(0) >= 0.25 * weight.max(1))] = 0
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
    """The layer of least Fisher divergence, and that; None where none gains enough."""
    curvature = curvature_at(density, points, _given_others(sample, dense))
    sources = [scaled_pairs(curvature, sample.y.std(0))]
    curved = np.diagonal(curvature.hessian, axis1=1, axis2=2) > 0
    if not pick(*sources[0]).any() or (curved.mean(0) < MOSTLY).any():
        sources.append(scaled_gradients(sample))
    best, divergence, seen = None, before, set()
    for (K, sure), parents in product(sources, (False, True)):
        pairs, tried = pick(K, sure, parents), 0
        while pairs.any() and tried < TRIES and pairs.tobytes() not in seen:
            seen.add(pairs.tobytes())
            layer, found = _simplest(candidates(density, sample, pairs, K, curvature), sample, dense)
            tried = 0 if found < GAINED * divergence else tried + 1
            if found < divergence:
                best, divergence = layer, found
            pairs = without_central(pairs, curvature)
    return None if best is None or divergence >= GAIN * before else (best, divergence)


def candidates(
    density: Density, sample: Sample, pairs: np.ndarray, K: np.ndarray, curvature: Curvature
) -> list[tuple[Noncentring, float]]:
    """Layers of these pairs, and what the divergence of each counts for: the simplest first."""
    layers = fitted(sample, pairs, K, curvature)
    deep = deep_in_the_neck(density, layers[0], curvature)
    if deep is None:
        return [(layer, 1.0) for layer in layers]
    plain = as_written(layers[0], deep)
    based, scaled = in_common_basis(plain, curvature, deep)
    written = [plain, pooled(plain, sample, np.full(len(plain.children), True))]
    written += [] if based is None else [pooled(based, sample, scaled)]
    return [(layer, PLAIN) for layer in written] + [(layer, 1.0) for layer in layers]


def _simplest(layers: list[tuple[Noncentring, float]], sample: Sample, dense: bool) -> tuple[Noncentring, float]:
    """The first of the layers with which none of the others is a gain, and its Fisher divergence as it counts."""
    best, least, divergence = layers[-1][0], np.inf, np.inf
    for layer, weight in layers:
        found = weight * fisher_divergence(sample.under(layer), dense)
        if max(found, weight * NEGLIGIBLE) < GAINED * least:
            best, least, divergence = layer, max(found, weight * NEGLIGIBLE), found
    return best, divergence


def _given_others(sample: Sample, dense: bool) -> np.ndarray:
    """The standard deviation of each coordinate given all others, (n,), by the Gaussian of draws."""
    n = sample.y.shape[1]
    centred = Coordinates(np.zeros(n), gaussian_of(sample, dense).factor)
    return 1 / np.linalg.norm(centred.z(np.eye(n)), axis=1)


def without_central(pairs: np.ndarray, curvature: Curvature) -> np.ndarray:
    """Pairs without those children whose place the other children tell best: parents of their location, it may be.

    Given the children, a parent's scale follows theirs; given none, it does not. By $(H_{CC}^{-1})_{jj} H_{jj}$, the
    children above the widest gap of its logarithms.
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
    """Layers of these pairs: with a location that follows all other coordinates, those that scale nothing, or none.

    Args:
        sample: draws.
        pairs: child and ancestor, (n, n).
        K: where the regressions begin, for a standard deviation of the ancestor, (n, n).
        curvature: which others are near enough to matter.
    """
    C, scales = np.flatnonzero(pairs.any(1)), np.flatnonzero(pairs.any(0))
    A = _ancestors(C, scales, curvature)
    centre, spread = sample.y[:, A].mean(0), sample.y[:, A].std(0) + np.finfo(float).tiny
    h, where = (sample.y[:, A] - centre) / spread, np.searchsorted(A, scales)
    layers = []
    for follows in (np.arange(len(A)), np.setdiff1d(np.arange(len(A)), where), np.zeros(0, int)):
        log_scales, slopes = np.zeros((2, len(C), len(A)))
        k, c, b = _regressed(sample, C, h[:, where], h[:, follows], pairs[np.ix_(C, scales)], K[np.ix_(C, scales)])
        log_scales[:, where], slopes[:, follows] = k / spread[where], b / spread[follows]
        layers.append(Noncentring(A, C, centre, c, slopes, log_scales))
    return layers


def _ancestors(C: np.ndarray, scales: np.ndarray, curvature: Curvature) -> np.ndarray:
    """The coordinates that scale, and of all others that are no child those that children follow most."""
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
        F: draws of those that the location follows, (N, f).
        mask: which pairs have a K, (q, p).
        K: where to begin, (q, p).
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
