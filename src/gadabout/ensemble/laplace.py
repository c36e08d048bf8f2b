r"""Modes near the ends of ascents, with their masses by Laplace's method.

The log mass is $\log\pi(m_k) + \log|L_k|$, with $L_k L_k^\top$ the inverse of the curvature at the mode $m_k$. Modes
that no ascent finds are missing.
"""

from dataclasses import dataclass

import numpy as np

from gadabout.density.base import AbstractDensity
from gadabout.ensemble.ascent import ascend
from gadabout.ensemble.split_hmc import squares

MOST_POINTS = 96
"""modes at most"""
CLIMB, NEARLY = 200, 1e-2
"""`CLIMB`: turns of an ascent to a mode at most. `NEARLY`: gᵀ H⁻¹ g over n below which any other end is a mode"""
APART = 2.0
"""distance from the modes before, in widths of theirs times √n, beyond which a mode is another one"""
SEARCHES, AGAIN = 12, 128
"""`SEARCHES`: further rounds of ascents at most. `AGAIN`: ascents of each round"""
FEW = 0.02
"""chance of another mode below which the search ends"""
NEGLIGIBLE = 9.0
"""nats of log mass below the heaviest mode, beyond which a mode is discarded"""


@dataclass(frozen=True)
class Modes:
    """Modes of log π, the heaviest first: `x` (K, n), log masses (K,), factors (K, n, n), numbers of ascents (K,)."""

    x: np.ndarray
    mass: np.ndarray
    factors: np.ndarray
    count: np.ndarray

    @property
    def seen_once(self) -> float:
        """The share of ascents to these modes whose mode no other ascent found: the chance that the next finds another
        (Good 1953, "The population frequencies of species and the estimation of population parameters")."""
        return float(np.sum(self.count == 1) / max(np.sum(self.count), 1))


def find_modes(density: AbstractDensity, ends: np.ndarray, rng: np.random.Generator) -> Modes | None:
    """Modes of no negligible mass; further ascents from around these are made until another mode is improbable."""
    scale = ends.std(0) + 1e-8
    tops = _climbed(density, ends, scale)
    for further in range(SEARCHES + 1):
        found = _different(density, *tops, scale)
        if found is None or len(found.x) < 2 or further == SEARCHES or (further and found.seen_once < FEW):
            return found
        spread = np.sqrt(np.var(found.x, 0) + np.mean(np.sum(found.factors**2, 2), 0))
        widths = np.resize((1.0, 2.0), AGAIN)[:, None] * spread
        starts = found.x.mean(0) + widths * rng.standard_normal((AGAIN, ends.shape[1]))
        more = _climbed(density, starts, scale)
        tops = np.concatenate([tops[0], more[0]]), np.concatenate([tops[1], more[1]])
    raise AssertionError


def _climbed(density: AbstractDensity, starts: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The modes that ascents lead to, (m, n), and log π there.

    An ascent that began in a mode finds no step that climbs. Its end counts if its gradient is small by the curvature.
    """
    paths = ascend(density, starts, CLIMB, near=1e-4)
    ends, there = paths.ends, paths.arrived.copy()
    rest = np.flatnonzero(~there & ends.finite)
    if len(rest):
        steps = np.einsum("kij,ki->kj", _inverse_curvature(density, ends.x[rest], scale), ends.grad[rest])
        there[rest] = squares(steps) < NEARLY * starts.shape[1]
    return ends.x[there], ends.value[there]


def _different(density: AbstractDensity, x: np.ndarray, value: np.ndarray, scale: np.ndarray) -> Modes | None:
    """The distinct modes among ends of ascents, (m, n), with log π there: those `APART` and of no negligible mass."""
    n, left = x.shape[1], np.argsort(-value)
    found: list[tuple[np.ndarray, float, np.ndarray, int]] = []
    while len(left) and len(found) < MOST_POINTS:
        top = x[left[0]]
        factor = _inverse_curvature(density, top[None], scale)[0]
        near = np.linalg.norm(np.linalg.solve(factor, (x[left] - top).T), axis=0) <= APART * np.sqrt(n)
        near[0] = True
        mass = float(value[left[0]] + np.log(np.abs(np.diagonal(factor))).sum())
        found.append((top, mass, factor, int(near.sum())))
        left = left[~near]
    if not found:
        return None
    tops, masses, factors, counts = (np.array(part) for part in zip(*found, strict=True))
    order = np.argsort(-masses)
    order = order[masses[order] >= masses.max() - NEGLIGIBLE]
    return Modes(tops[order], masses[order], factors[order], counts[order])


def _inverse_curvature(density: AbstractDensity, x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Factors of the inverse of −∇² log π at points (m, n), with widths of at most ten times `scale` (n,)."""
    m, n = x.shape
    step = 1e-4 * scale
    ends = x[:, None, None] + np.stack([-np.diag(step), np.diag(step)])
    grad = density.value_and_grad(ends.reshape(-1, n))[1].reshape(m, 2, n, n)
    H = (grad[:, 0] - grad[:, 1]) / (2 * step[:, None]) * scale[:, None] * scale
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (H + np.swapaxes(H, 1, 2))))
    root = scale[:, None] * vectors / np.sqrt(np.clip(values, 1e-2, 1e12))[:, None]
    return np.linalg.cholesky(root @ np.swapaxes(root, 1, 2))
