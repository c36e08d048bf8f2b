r"""Learned non-centring: which coordinates are scaled by which others, and how, from curvature and draws.

Where log π has the curvature $H_{jj}\propto e^{-2K_{ja}x_a}$ along $x_j$, its third derivative says so at any point:
$\partial_a\log H_{jj} = -2K_{ja}$. Two gradients a step before and behind along each coordinate hold the whole Hessian
and, for every pair (j, a), that derivative. Pairs in which it is large and agrees over some draws are the scales of a
layer (`coordinates.Noncentring`); what is left of a coordinate's location is fitted to draws by weighted least squares,
and K to the log variances of residuals r and gradients g, which have the slopes +2K and −2K (gamma regressions, by
Fisher scoring: half the difference of both is the geometric mean of `gaussian`, carried to scales). Candidates are
judged by the Fisher divergence of the best Gaussian on draws that it was not fitted to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.coordinates import Coordinates, Noncentring
from gadabout.ensemble.gaussian import factor_of, geometric_mean

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

MOST_COORDINATES = 600
"""beyond which no layers are looked for"""
POINTS, GRADIENTS = 32, 20_000
"""draws at which curvature is measured, and gradients that this may take, if 6 draws need no more"""
STEP = 0.2
"""of a difference, in standard deviations given all other coordinates"""
NOTICEABLE, TOGETHER, SURE = 0.06, 0.25, 4.0
"""by how much a standard deviation of an ancestor changes a log scale at least, all of them together (the root of the
sum of squares), and standard errors that it is away from 0"""
MOST_LAYERS = 3
SMALL = 0.02
"""a Fisher divergence with which a Gaussian does well enough"""
GAIN = 0.7
"""the share of the Fisher divergence that a layer may leave"""
ROUNDS = 8
"""of the regressions"""
PLAIN = 0.9
"""what the divergence of a layer as people write it counts for"""
NEAR = 0.2
"""of a half, for such a layer"""
LARGEST = 4.0
"""of a log scale for a standard deviation of an ancestor"""
TRIES = 4
"""sets of children that are moved to the ancestors, one after another, without a gain"""


@dataclass(frozen=True)
class Sample:
    """Draws y, with gradients of their log density, both of shape (N, n)."""

    y: np.ndarray
    grad: np.ndarray

    def under(self, layer: Noncentring) -> "Sample":
        """The draws in the coordinates of a layer."""
        y = layer.y(self.y)
        return Sample(y, layer.pull(y, self.grad))

    def below(self, layers: Sequence[Noncentring]) -> "Sample":
        """The draws in the coordinates of all layers."""
        sample = self
        for layer in layers:
            sample = sample.under(layer)
        return sample


@dataclass(frozen=True)
class Density:
    """The density of y under layers."""

    density: "AbstractDensity"
    layers: tuple[Noncentring, ...]

    def gradients(self, y: np.ndarray) -> np.ndarray:
        """Of its logarithm, (m, n)."""
        here = Coordinates(np.zeros(y.shape[1]), np.ones(y.shape[1]), self.layers)
        return here.value_and_grad(self.density, y)[1]


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
    return layers, divergence


def points_at(n: int) -> int:
    """Draws at which curvature is measured."""
    return max(6, min(POINTS, GRADIENTS // (2 * n)))


def fisher_divergence(sample: Sample, dense: bool) -> float:
    r"""That of the best Gaussian, $\mathbb E\|L^\top\nabla\log\pi + z\|^2/n$: fitted to one half, judged on the other.

    The median over draws in place of the mean, and the mean of both ways round.
    """
    N, n = sample.y.shape
    return float(np.mean([_divergence(sample, slice(i, None, 2), slice(1 - i, None, 2), dense) for i in (0, 1)]))


def _divergence(sample: Sample, fitted: slice, judged: slice, dense: bool) -> float:
    coordinates = gaussian_of(Sample(sample.y[fitted], sample.grad[fitted]), dense)
    z, grad = coordinates.z(sample.y[judged]), coordinates.through_factor(sample.grad[judged])
    return float(np.mean(np.log1p(np.sum((z + grad) ** 2, 1) / z.shape[1])))


def gaussian_of(sample: Sample, dense: bool, layers: tuple[Noncentring, ...] = ()) -> Coordinates:
    """The Gaussian of draws and gradients, in the coordinates of layers."""
    y, grad = sample.y, sample.grad
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


@dataclass(frozen=True)
class Curvature:
    """At some points: H, −∇² log π, (m, n, n), and slopes ∂_a log H_jj / −2, (m, child j, ancestor a)."""

    hessian: np.ndarray
    slopes: np.ndarray


def curvature_at(density: Density, points: np.ndarray, scale: np.ndarray) -> Curvature:
    """By gradients `STEP` conditional standard deviations (n,) to either side along each coordinate."""
    m, n = points.shape
    step = STEP * scale
    ends = points[:, None, None] + np.stack([-np.diag(step), np.diag(step)])  # (m, 2, n, n)
    grad = density.gradients(ends.reshape(-1, n)).reshape(m, 2, n, n)  # behind and before, along j, of a
    here = density.gradients(points)[:, None]
    columns = (grad[:, 0] - grad[:, 1]) / (2 * step[:, None])
    third = -(grad[:, 0] + grad[:, 1] - 2 * here) / step[:, None] ** 2  # ∂_a H_jj
    H = 0.5 * (columns + np.swapaxes(columns, 1, 2))
    own = np.diagonal(H, axis1=1, axis2=2)
    slopes = -0.5 * third / np.where(own > 0, own, np.nan)[:, :, None]
    return Curvature(H, slopes)


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


def pick(K: np.ndarray, sure: np.ndarray, parents: bool = False) -> np.ndarray:
    """Which pairs (child, ancestor) make a layer: ancestors in the order of what they scale, none of them a child."""
    n = len(K)
    weight = np.where((np.abs(K) > NOTICEABLE) & (sure > SURE), K**2, 0)
    weight *= weight.sum(0) > TOGETHER**2
    if parents:
        own = weight.max(0) >= 0.25 * weight.max(1)
        weight[own & (weight.max(0) > 0)] = 0
    pairs, child, free = np.zeros((n, n), bool), np.zeros(n, bool), np.ones(n, bool)
    while True:
        score = (weight * free[:, None]).sum(0) * ~child
        a = int(np.argmax(score))
        if score[a] <= 0:
            break
        kids = (weight[:, a] > 0) & free
        pairs[kids, a] = True
        child |= kids
        weight[:, a] = 0
        weight[a] = 0
        free[a] = False
    return pairs


def _best_layer(
    density: Density, sample: Sample, points: np.ndarray, dense: bool, before: float
) -> tuple[Noncentring, float] | None:
    """The layer of least Fisher divergence, and that; None where none gains enough."""
    start = gaussian_of(sample, dense)
    factor = start.factor if start.dense else np.diag(start.factor)
    given_others = 1 / np.sqrt(np.sum(np.linalg.inv(factor) ** 2, 0))
    curvature = curvature_at(density, points, given_others)
    deviations = sample.y.std(0)
    K, sure = scaled_pairs(curvature, deviations)
    best, first = None, pick(K, sure)
    second = pick(K, sure, parents=True)
    begun = [first] + ([second] if (second != first).any() else [])
    for pairs in begun:
     tried = 0
     while pairs.any() and tried < TRIES:
        layers = fitted(sample, pairs, K, curvature)
        judged = [(layer, fisher_divergence(sample.under(layer), dense)) for layer in layers]
        layers = [plain for layer in layers if (plain := written(layer)) is not None]
        judged += [(layer, PLAIN * fisher_divergence(sample.under(layer), dense)) for layer in layers]
        found = min(judged, key=lambda each: each[1] if np.isfinite(each[1]) else np.inf)
        gained = best is None or found[1] < 0.98 * best[1]
        if best is None or found[1] < best[1]:
            best = found
        tried = 0 if gained else tried + 1
        pairs = without_central(pairs, curvature)
    if best is None or not best[1] < GAIN * before:
        return None
    return best


def without_central(pairs: np.ndarray, curvature: Curvature) -> np.ndarray:
    """Pairs without those children whose place the other children tell best: parents of their location, it may be.

    Given the children, a parent's scale follows theirs; given none, it does not. By (H_CC⁻¹)_jj H_jj; those above the
    widest gap of its logarithms.
    """
    C = np.flatnonzero(pairs.any(1))
    H = curvature.hessian[np.isfinite(curvature.hessian).all((1, 2))]
    told = np.zeros(len(C))
    for each in H[:, C[:, None], C]:
        scale = np.sqrt(np.abs(np.diagonal(each)))
        try:
            inverse = np.linalg.inv(each / np.outer(scale, scale))
        except np.linalg.LinAlgError:
            continue
        told += np.log(np.maximum(np.diagonal(inverse), 1))
    order = np.argsort(-told)
    gaps = told[order[:-1]] - told[order[1:]]
    out = pairs.copy()
    if len(C) < 2:
        return np.zeros_like(pairs)
    out[C[order[: int(np.argmax(gaps)) + 1]]] = False
    return out


def fitted(sample: Sample, pairs: np.ndarray, K: np.ndarray, curvature: Curvature) -> Sequence[Noncentring]:
    """Layers of these pairs: with a location that follows the ancestors, and without."""
    y, g = sample.y, sample.grad
    N, n = y.shape
    C, scales = np.flatnonzero(pairs.any(1)), np.flatnonzero(pairs.any(0))
    others = np.setdiff1d(np.arange(n), C)
    H = np.nanmedian(np.abs(curvature.hessian), 0)
    told = (H[np.ix_(others, C)] ** 2 / np.outer(np.diagonal(H)[others], np.diagonal(H)[C])).max(1)
    A = np.union1d(scales, others[told > 0.01]) if len(others) > 40 else others
    if len(A) > 60:
        A = np.union1d(scales, others[np.argsort(-told)[:60]])
    where = np.searchsorted(A, scales)
    centre, spread = y[:, A].mean(0), y[:, A].std(0) + 1e-300
    h = (y[:, A] - centre) / spread
    mask = pairs[np.ix_(C, scales)]
    layers = []
    not_scales = np.setdiff1d(np.arange(len(A)), where)
    for follows in (np.arange(len(A)), not_scales, np.zeros(0, int)):
        k = np.where(mask, K[np.ix_(C, scales)], 0.0)
        c, B = y[:, C].mean(0), np.zeros((len(C), len(A)))
        D = np.column_stack([np.ones(N), h[:, follows]])
        ridge = np.diag(np.r_[0, np.full(D.shape[1] - 1, 1e-4)])
        S, gram = h[:, where], h[:, where].T @ h[:, where] / N
        normal = mask[:, :, None] * mask[:, None] * gram + np.eye(len(scales)) * np.where(mask, 0.02, 1)[:, None]
        for _ in range(ROUNDS):
            weights = np.exp(-2 * np.clip(S @ (k.sum(0) / np.maximum(mask.sum(0), 1)), -8, 8))
            weighted = D * (weights / weights.mean())[:, None]
            solved = np.linalg.solve(weighted.T @ D + N * ridge, weighted.T @ y[:, C]).T
            c, B[:, follows] = solved[:, 0], solved[:, 1:]
            r2, g2 = (y[:, C] - D @ solved.T) ** 2, g[:, C] ** 2
            step = np.zeros_like(k)
            for square, sign in ((r2, 1.0), (g2, -1.0)):
                ratio = square * np.exp(-2 * sign * np.clip(S @ k.T, -8, 8))
                ratio /= ratio.mean(0) + 1e-300
                score = (S.T @ (np.minimum(ratio, 20) - 1)).T / N * mask
                step += sign * 0.25 * np.linalg.solve(normal, score[..., None])[..., 0]
            k = np.clip(k + step, -LARGEST, LARGEST) * mask
        log_scales = np.zeros((len(C), len(A)))
        log_scales[:, where] = k / spread[where]
        layers.append(Noncentring(A, C, centre, c, B / spread, log_scales))
    return layers


def written(layer: Noncentring) -> Noncentring | None:
    """The layer with whole slopes, no other shift, and K in halves: as people write models, which holds in tails too.

    None where K is not near halves.
    """
    slopes, K = np.round(layer.slopes), np.round(2 * layer.log_scales) / 2
    if np.max(np.abs(K - layer.log_scales)) > NEAR:
        return None
    return replace(layer, slopes=slopes, location=slopes @ layer.centre, log_scales=K)
