r"""Learned non-centring: a search for the layers whose coordinates a Gaussian fits best.

If log π has the curvature $H_{jj}\propto e^{-2K_{ja}x_a}$ along $x_j$, its third derivative shows this at any point:
$\partial_a\log H_{jj} = -2K_{ja}$ (`curvature`). Pairs for which this slope is large and consistent over some draws are
the scales of a layer (`pairs`). If there are none, as for children with Laplace's law, whose log density has no
curvature, the size of gradients is used: log g² has the slope −2K.

Candidates for a layer are the form of hierarchical models, also with the part of data (`pooling`), models written
non-centred (`centring`), parabolas (`bending`), and regressions (`log_linear`). They are compared by the Fisher
divergence of the best Gaussian on draws that it was not fitted to (`divergence`).
"""

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from gadabout.ensemble.bending import bent, bent_in_axes
from gadabout.ensemble.centring import written_non_centred
from gadabout.ensemble.curvature import Curvature, Density, Sample, curvature_at
from gadabout.ensemble.divergence import fisher_divergence, given_others
from gadabout.ensemble.log_linear import fitted
from gadabout.ensemble.noncentring import Noncentring
from gadabout.ensemble.pairs import (
    alike,
    pick,
    scaled_gradients,
    scaled_pairs,
    scales_as_much,
    scales_more,
    without_central,
)
from gadabout.ensemble.pooling import as_written, beside, deep_in_the_neck, in_common_basis, in_parts, pooled

if TYPE_CHECKING:
    from gadabout.density.base import AbstractDensity

MOST_COORDINATES = 1_000
"""coordinates above which no layers are searched for"""
POINTS, GRADIENTS = 32, 20_000
"""`POINTS`: draws at which curvature is measured. `GRADIENTS`: maximum of their gradients, unless 6 draws need more."""
MOSTLY = 0.5
"""share of draws with positive curvature along a coordinate below which gradients are tried as well as curvature"""
MOST_LAYERS = 3
NEGLIGIBLE = 1e-3
"""Fisher divergence that arises by chance: lower values are no gain"""
SMALL = 0.02
"""Fisher divergence below which a Gaussian fits well enough"""
GAIN, GAINED = 0.7, 0.98
"""`GAIN`: share of the Fisher divergence that a layer may leave. `GAINED`: share of another layer's that is a gain."""
PLAIN = 0.6
"""factor of the Fisher divergence of layers in the form of hierarchical models when candidates are compared"""
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
        curvature = curvature_at(Density(density, plain), points, given_others(sample, dense))
        deep = deep_in_the_neck(Density(density, plain), layer, curvature)
        plain = (*plain, layer if deep is None else as_written(layer, deep))
        sample = sample.under(plain[-1])
    return plain


def points_at(n: int) -> int:
    """Number of draws at which curvature is measured in n coordinates."""
    return max(6, min(POINTS, GRADIENTS // (2 * n)))


def _best_layer(
    density: Density, sample: Sample, points: np.ndarray, dense: bool, before: float
) -> tuple[Noncentring, float] | None:
    """The layer with the smallest Fisher divergence, and this divergence; None if no layer gains enough."""
    curvature = curvature_at(density, points, given_others(sample, dense))
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
