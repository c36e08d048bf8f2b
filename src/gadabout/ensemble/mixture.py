r"""A mixture of Student-t distributions as proposal for several modes, learned by importance-weighted EM.

The initial components are at the modes that ascents find, with the curvature there and Laplace's masses (`laplace`).
Each round then weights draws y ~ q by $\pi/q$, and refits the weight, mean and covariance of each component to the
weighted draws by its responsibilities (population Monte Carlo; Cappé, Douc, Guillin, Marin & Robert 2008, "Adaptive
importance sampling in general mixture classes"). Weights are tempered while few draws carry them. The mixture is then
fixed, and `from_mixture` makes the draws. A mode that no ascent finds has no component.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import logsumexp

from gadabout.density.base import AbstractDensity
from gadabout.diagnostics import pareto_k
from gadabout.ensemble.laplace import Modes, find_modes
from gadabout.ensemble.move import State
from gadabout.ensemble.split_hmc import squares

FREEDOM = 8.0
"""degrees of freedom of the components: their tails are longer than those of the modes that they approximate"""
MOST_COMPONENTS, MOST_COORDINATES = 48, 40
ROUNDS, PATIENCE, DRAWS = 16, 4, 4_000
"""`ROUNDS`: maximum rounds of EM. `PATIENCE`: rounds without a gain after which EM ends. `DRAWS`: draws per round."""
GAINED = 1.05
"""factor by which the effective share must grow to count as a gain"""
TEMPERED, EFFECTIVE = (1.0, 0.7, 0.5, 0.35, 0.25), 0.1
"""`TEMPERED`: powers of weights; the first with an effective share of `EFFECTIVE` is used, or else the last."""
ENOUGH, LEAST = 0.6, 0.02
"""`ENOUGH`: effective share of weighted draws above which EM ends. `LEAST`: share below which a mixture is rejected."""
LARGEST_PARETO_K = 0.7
WIDE = 0.05
"""initial weight of the component between the modes"""
SPREAD = 0.05
"""share of all weight that is spread evenly over components"""


def log_sum(parts: np.ndarray) -> np.ndarray:
    """log Σ_k exp of rows (m, K), shape (m,)."""
    return np.asarray(logsumexp(parts, 1))


@dataclass(frozen=True)
class Mixture:
    """Student-t components with `weights` (K,), `means` (K, n) and lower-triangular `factors` (K, n, n).

    `modes` (K,) holds the index of each component's mode, −1 for a component without a mode.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    modes: np.ndarray

    @cached_property
    def _inverses(self) -> np.ndarray:
        return np.linalg.inv(self.factors)

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """`count` draws, (count, n)."""
        n = self.means.shape[1]
        k = np.searchsorted(np.cumsum(self.weights)[:-1], rng.random(count), side="right")
        z = rng.standard_normal((count, n)) / np.sqrt(rng.chisquare(FREEDOM, (count, 1)) / FREEDOM)
        return self.means[k] + np.einsum("aij,aj->ai", self.factors[k], z)

    def parts(self, x: np.ndarray) -> np.ndarray:
        """log w_k t_k(x) up to a constant, (m, K), for x (m, n)."""
        z = np.einsum("kij,kmj->kmi", self._inverses, x - self.means[:, None])
        volumes = np.log(np.abs(np.diagonal(self.factors, axis1=1, axis2=2))).sum(1)
        tails = 0.5 * (FREEDOM + x.shape[1]) * np.log1p(squares(z) / FREEDOM)
        return np.log(self.weights) - volumes - tails.T

    def log_q(self, x: np.ndarray) -> np.ndarray:
        """log q(x) up to a constant, (m,)."""
        return log_sum(self.parts(x))

    def halves(self, rng: np.random.Generator) -> "Mixture":
        """The mixture with each component split in two, one standard deviation apart in a random direction."""
        direction = rng.standard_normal(self.means.shape)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        shift = 0.5 * np.einsum("kij,kj->ki", self.factors, direction)
        twice = lambda array: np.concatenate([array, array])
        means = np.concatenate([self.means - shift, self.means + shift])
        return Mixture(0.5 * twice(self.weights), means, twice(self.factors), twice(self.modes))

    def arrays(self) -> State:
        """All arrays of the mixture, by their names in a `Handover`."""
        return {
            "component_weights": self.weights, "component_means": self.means,
            "component_factors": self.factors, "component_modes": self.modes,
        }  # fmt: skip


@np.errstate(all="ignore")
def fitted(
    density: AbstractDensity, ends: np.ndarray, rng: np.random.Generator
) -> tuple[Mixture | None, dict[str, Any]]:
    """The mixture for the modes near the ends of ascents, (m, n), and its diagnostics; None if it is of no use.

    If its effective share is below `ENOUGH`, EM is repeated with every component split in two, and the better mixture
    is kept. `modes` of the diagnostics holds each mode's mass and its standard error, by the draws of the best round.
    """
    found = find_modes(density, ends, rng)
    if found is None or len(found.x) < 2:
        return None, {}
    q, told = _learned(density, _begun(found), rng)
    if told["mixture_efficiency"] < ENOUGH:
        halves, better = _learned(density, q.halves(rng), rng)
        if better["mixture_efficiency"] > told["mixture_efficiency"]:
            q, told = halves, better
    good = told["mixture_efficiency"] >= LEAST and told["mixture_pareto_k"] < LARGEST_PARETO_K
    return (q if good else None), told | {"modes_seen_once": found.seen_once}


def _learned(density: AbstractDensity, q: Mixture, rng: np.random.Generator) -> tuple[Mixture, dict[str, Any]]:
    """The mixture with the largest effective share in some rounds of EM, and its diagnostics."""
    best, since = (q, {"mixture_efficiency": -1.0}), 0
    for _ in range(ROUNDS):
        y = q.draw(rng, DRAWS)
        parts = q.parts(y)
        log_w = density.value(y) - log_sum(parts)
        log_w = np.where(np.isfinite(log_w), log_w - np.max(log_w[np.isfinite(log_w)], initial=-np.inf), -np.inf)
        share, responsible = _effective(log_w), np.exp(parts - log_sum(parts)[:, None])
        since += 1
        if share > best[1]["mixture_efficiency"]:
            since = 0 if share > GAINED * best[1]["mixture_efficiency"] else since
            k = max(float(pareto_k(log_w)), 0.0)
            best = q, {"mixture_efficiency": share, "mixture_pareto_k": k, "modes": _masses(q, log_w, responsible)}
        if share > ENOUGH or since >= PATIENCE or not np.isfinite(log_w).any():
            break
        power = next((t for t in TEMPERED if _effective(t * log_w) >= EFFECTIVE), TEMPERED[-1])
        weights = np.exp(power * log_w)
        q = _maximised(q, y, responsible * (weights / weights.sum())[:, None])
    return best


def _begun(modes: Modes) -> Mixture:
    """The initial mixture: one component per mode, with the curvature there and a weight by its mass, and a wide one.

    The wide component, of mode −1, has the covariance of all others together and covers the space between the modes.
    """
    K = min(len(modes.x), MOST_COMPONENTS)
    shares = np.exp(modes.mass[:K] - modes.mass[0])
    shares = 0.9 * shares / shares.sum() + 0.1 / K
    centred = modes.x[:K] - shares @ modes.x[:K]
    inside = np.einsum("k,kij,klj->il", shares, modes.factors[:K], modes.factors[:K])
    wide = np.linalg.cholesky((shares[:, None] * centred).T @ centred + inside)
    return Mixture(
        np.append((1 - WIDE) * shares, WIDE),
        np.concatenate([modes.x[:K], (shares @ modes.x[:K])[None]]),
        np.concatenate([modes.factors[:K], wide[None]]),
        np.append(np.arange(K), -1),
    )


def _effective(log_weights: np.ndarray) -> float:
    """The effective number of weighted draws, as a share of their number."""
    w = np.exp(log_weights)
    return float(np.nan_to_num(np.sum(w) ** 2 / np.sum(w**2) / len(w)))


def _masses(q: Mixture, log_weights: np.ndarray, responsible: np.ndarray) -> list[dict[str, float]]:
    """The mass of each mode and its standard error, the heaviest mode first."""
    W = np.exp(log_weights)
    W /= W.sum()
    of_modes = np.stack([responsible[:, q.modes == k].sum(1) for k in range(q.modes.max() + 1)], 1)
    of_modes /= np.maximum(of_modes.sum(1, keepdims=True), np.finfo(float).tiny)  # the wide component is shared out
    mass = W @ of_modes
    error = np.sqrt(np.sum((W[:, None] * (of_modes - mass)) ** 2, 0))
    digits = lambda value: float(f"{value:.3g}")
    return [{"mass": digits(mass[k]), "error": digits(error[k])} for k in np.argsort(-mass)]


def _maximised(q: Mixture, y: np.ndarray, weights: np.ndarray) -> Mixture:
    """The mixture after an M step with draws y and their weights (m, K); components with few draws change little."""
    total = weights.sum(0)
    effective = total**2 / np.maximum(np.sum(weights**2, 0), np.finfo(float).tiny)
    trust = effective / (effective + 2 * y.shape[1])
    own = (weights.T @ y) / np.maximum(total, np.finfo(float).tiny)[:, None]
    means = q.means + trust[:, None] * (own - q.means)
    covariances = []
    for k, factor in enumerate(q.factors):
        d = y - own[k]
        covariance = (weights[:, k, None] * d).T @ d / max(total[k], np.finfo(float).tiny)
        covariances.append(trust[k] * covariance + (1 - trust[k]) * factor @ factor.T)
    shares = (1 - SPREAD) * total / total.sum() + SPREAD / len(total)
    return Mixture(shares, means, np.linalg.cholesky(np.array(covariances)), q.modes)
