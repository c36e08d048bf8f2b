"""Diagnostics of a trial: of the moves that made its draws, and of independence proposals fitted to the draws."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gadabout.diagnostics import independence_efficiency, pareto_k, tail_size
from gadabout.diagnostics.summary import rhat_as_judged
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.move import State
from gadabout.ensemble.split_hmc import squares
from gadabout.ensemble.tails import Tails, fitted_tails, fitted_weights, log_radial_density, no_tails

LARGEST_RHAT = 1.1
MOST_DIVERGING = 3e-3
"""largest share of diverging trajectories that raises no doubt"""
RARELY = 1e-3
"""probability that a trial has a long stay by chance, if chains accept at half the median chain's rate"""
FEW_COORDINATES = 32
"""coordinates up to which a product with a dense factor costs almost nothing beside the noise"""
NEARLY = 0.95
"""share of the best efficiency that counts as equally good"""
LONGER_TAILS = 2.0
"""factor of the fitted tails: chains get stuck where tails are too short, but not where they are too long"""
SAME, OTHER = 1e-3, 1.0
"""Kullback-Leibler divergences: up to `SAME`, two Gaussians propose alike; above `OTHER`, they do not."""


@dataclass(frozen=True)
class Trial:
    """Discarded draws with fixed θ, and the Gaussian in whose coordinates they were made.

    If coordinates have layers, everything here refers to y = M⁻¹(x), whose density the Gaussian approximates.

    Args:
        draws: draws of y, of shape (t, chains, n).
        stats: statistics, each of shape (t, chains): `lp`, log π(y), `acceptance_rate`, and, where available,
            `accepted`, `diverging` and `gradient_evaluations`.
        coordinates: coordinates of the fitted Gaussian.
    """

    draws: np.ndarray
    stats: Mapping[str, np.ndarray]
    coordinates: Coordinates

    @functools.cached_property
    def score(self) -> float:
        """The share of independent draws in the worst coordinate (see `score`)."""
        return score(self.draws)

    @functools.cached_property
    def rhat(self) -> float:
        """The largest R-hat of all coordinates."""
        return float(rhat_as_judged(np.moveaxis(self.draws, 0, 1)).max())

    @property
    def flat(self) -> np.ndarray:
        """The draws of all chains, of shape (t · chains, n)."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    @functools.cached_property
    def whitened(self) -> np.ndarray:
        """The coordinates z of the draws of all chains, of shape (t · chains, n)."""
        return self.coordinates.z(self.flat)

    @property
    def in_rows(self) -> np.ndarray:
        """The coordinates z, of shape (t, chains, n)."""
        return self.whitened.reshape(self.draws.shape)

    @property
    def diverging(self) -> float:
        """The share of trajectories that diverge."""
        return float(self.stats["diverging"].mean()) if "diverging" in self.stats else 0.0

    def and_more(self, draws: np.ndarray, stats: Mapping[str, np.ndarray]) -> "Trial":
        """The trial with further draws and their statistics appended."""
        both = {name: np.concatenate([self.stats[name], stats[name]]) for name in stats}
        return Trial(np.concatenate([self.draws, draws]), both, self.coordinates)


def diagnose(trial: Trial, rhat: bool = True) -> dict[str, Any]:
    """Diagnostics of the moves that made the draws: acceptance, efficiency, gradients, and R-hat if `rhat` is true.

    `doubt` lists reasons against these moves, in words; `stuck` says whether a chain is slow or stands still.
    """
    draws, stats = trial.draws, trial.stats
    rates = stats["acceptance_rate"].mean(0)
    doubt, slow, stays = [], slow_chains(stats).any(), longest_stays(draws, stats)
    still = stays.max() > longest_by_chance(rates, len(draws))
    if trial.diverging > MOST_DIVERGING:
        doubt.append(f"{trial.diverging:.1%} of trajectories diverge")
    if slow:
        doubt.append(
            f"chain {int(np.argmin(rates))} accepts {rates.min():.0%}, the median chain {np.median(rates):.0%}"
        )
    elif still:
        doubt.append(f"chain {int(np.argmax(stays))} stands still for {stays.max()} iterations")
    gradients = float(stats["gradient_evaluations"].mean()) if "gradient_evaluations" in stats else 1.0
    if rhat and not trial.rhat <= LARGEST_RHAT:
        doubt.append(f"R-hat is {trial.rhat:.2f}")
    found = {"doubt": doubt, "stuck": bool(slow or still)}
    found |= {"acceptance": float(rates.mean()), "efficiency": trial.score, "gradients": gradients}
    return found | ({"rhat": trial.rhat} if rhat else {})


def score(draws: np.ndarray) -> float:
    """The share of independent draws in the worst coordinate, for draws (t, chains, n).

    It is (1 − ρ)/(1 + ρ), with ρ the larger of the first autocorrelations of x and of (x − mean)².
    """
    worst, centred = np.inf, draws - draws.mean((0, 1))
    for _ in range(2):
        squared, lagged = centred**2, np.mean(centred[1:] * centred[:-1], (0, 1))
        variance = np.mean(squared, (0, 1))
        rho = np.where(variance > 0, lagged / np.where(variance > 0, variance, 1), 1.0)
        worst = min(worst, float(np.min((1 - rho) / (1 + np.clip(rho, -0.9, 1)))))
        centred = squared - variance
    return worst


def effective_share(draws: np.ndarray) -> float:
    """The smallest share of independent draws over all coordinates and their squares, for draws (t, chains, n).

    It uses the initial monotone sequence of autocorrelations about the mean of all chains (Geyer 1992), so that chains
    that differ from each other count as slow.
    """
    t, worst = len(draws), 1.0
    centred = draws - draws.mean((0, 1))
    for series in (centred, centred**2 - np.mean(centred**2, (0, 1))):
        spectrum = np.fft.rfft(series, 2 * t, axis=0)
        autocovariance = np.fft.irfft(np.mean(np.abs(spectrum) ** 2, 1), axis=0)[:t] / t
        rho = autocovariance / np.maximum(autocovariance[0], np.finfo(float).tiny)
        pairs = rho[0 : t // 2 * 2 : 2] + rho[1 : t // 2 * 2 : 2]
        positive = np.cumprod(pairs > 0, 0)
        tau = 2 * np.sum(np.minimum.accumulate(pairs, 0) * positive, 0) - 1
        worst = min(worst, float(1 / np.max(np.maximum(tau, 0.5))))
    return worst


def median_rate(stats: Mapping[str, np.ndarray]) -> float:
    """The acceptance rate of the median chain, from statistics (t, chains)."""
    return float(np.median(stats["acceptance_rate"].mean(0)))


def slow_chains(stats: Mapping[str, np.ndarray], usual: float | None = None) -> np.ndarray:
    """Mask of chains that accept at less than half the `usual` rate (the median chain's), by statistics (t, chains)."""
    return stats["acceptance_rate"].mean(0) < 0.5 * (median_rate(stats) if usual is None else usual)


def longest_stays(draws: np.ndarray, stats: Mapping[str, np.ndarray]) -> np.ndarray:
    """The largest number of iterations in a row in which a chain stands still, (chains,), for draws (t, chains, n)."""
    moved = stats["accepted"][1:] if "accepted" in stats else np.any(draws[1:] != draws[:-1], -1)
    rows = np.arange(1, len(draws))[:, None]
    return np.max(rows - np.maximum.accumulate(np.where(moved, rows, 0)), 0, initial=0)


def longest_by_chance(rates: np.ndarray, t: int) -> float:
    """The stay in t iterations that one trial in a thousand exceeds, if chains accept at half the median rate."""
    return np.log(len(rates) * t / RARELY) / -np.log1p(-0.5 * np.clip(np.median(rates), 1e-3, 1))


def stretched(trial: Trial, kept: np.ndarray) -> float:
    """The largest log factor by which draws are wider or narrower than the Gaussian in some direction.

    It is computed from the chains in the mask `kept`, (chains,). The factor that chance explains at this number of
    effective draws is subtracted; the result is 0 where it is at least half of a width.
    """
    n, dense = trial.draws.shape[-1], trial.coordinates.dense
    share = trial.score if kept.all() else score(trial.draws[:, kept])
    draws = len(trial.draws) * np.sum(kept)
    chance = np.sqrt((n if dense else 9) / max(draws * share, 1.0))  # Marchenko & Pastur's edges, (1 ± chance)²
    if chance >= 0.5:
        return 0.0
    z = trial.whitened.reshape(trial.draws.shape)[:, kept].reshape(-1, n)
    widths = np.linalg.eigvalsh(np.cov(z.T).reshape(n, n)) if dense else z.var(0)
    narrow, wide = np.sqrt(np.maximum([widths.min(), widths.max()], np.finfo(float).tiny))
    return float(max(np.log((1 - chance) / narrow), np.log(wide / (1 + chance)), 0.0))


def correlated(draws: np.ndarray) -> float:
    """Factor of a trajectory's number of steps with standard deviations alone, compared with the covariance of draws.

    It is the factor for a normal: the square root of the condition number of the correlations of draws (t, chains, n).
    It is practically unbounded if there are too few draws for an estimate.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = np.nan_to_num(np.atleast_2d(np.corrcoef(draws.reshape(-1, draws.shape[-1]).T)), nan=1.0)
    widths = np.linalg.eigvalsh(correlations)
    return float(np.sqrt(widths[-1] / max(widths[0], np.finfo(float).eps)))


def best_independence(trial: Trial) -> tuple[State, dict[str, Any]]:
    """The result of `fit_independence` with the coordinates, or with their standard deviations if these suffice.

    Standard deviations have linear cost. They suffice if there are many coordinates and they give `NEARLY` the
    efficiency; `diagonal` is then true. Only one of the two is fitted if the divergence of the two Gaussians decides
    it.
    """
    here, flat, lp, widths = trial.coordinates, trial.flat, trial.stats["lp"].ravel(), trial.coordinates.deviations()
    few = len(widths) <= FEW_COORDINATES and here.dense
    divergence = np.inf if few else float(np.sum(np.log(widths))) - here.log_volume()
    best, found = fit_independence(trial.whitened, lp, flat) if divergence > SAME else ({}, {})
    if divergence > OTHER:
        return best, found | {"diagonal": False}
    own, theirs = fit_independence(here.diagonal().z(flat), lp, flat)
    serves = not found or theirs["independence_efficiency"] >= NEARLY * found["independence_efficiency"]
    return (own, theirs | {"diagonal": True}) if serves else (best, found | {"diagonal": False})


def fit_independence(z: np.ndarray, lp: np.ndarray, draws: np.ndarray) -> tuple[State, dict[str, Any]]:
    """The best `tails.ScaleMixture`, with tails or without, and diagnostics of its importance weights.

    It is returned as `weights`, of shape (K,), and `tails`, of shape (4, n). Few draws carry little information on the
    length of tails, and importance weights are unbounded if the tails of q are too short. So tails `LONGER_TAILS` times
    as long as fitted are used if their efficiency is `NEARLY` the best. If the weights w = π/q have tail index k under
    q, they have index k/(1 − k) under π, which the draws come from; `pareto_k` is the index under q. With M draws in
    the tail, the index under π has the standard error (1 + k)/√M (Vehtari et al. 2024), and `pareto_k` has (1 − k)/√M.

    Args:
        z: coordinates of the draws, of shape (draws, n).
        lp: log π of the draws, of shape (draws,).
        draws: of shape (draws, n).
    """
    n, fit, found = z.shape[1], fitted_tails(z), []
    longer = Tails(fit.shift, fit.width, LONGER_TAILS * fit.left, LONGER_TAILS * fit.right)
    for tails in (longer, fit, no_tails(n)) if fit.bent else (no_tails(n),):
        v, log_slope = tails.inverse(z)
        weights = fitted_weights(squares(v), n)
        log_weights = lp - log_radial_density(squares(v), n, weights) + log_slope
        acceptance, efficiency = independence_efficiency(log_weights, draws)
        found.append((efficiency, acceptance, log_weights, weights, tails))
    enough = NEARLY * max(each[0] for each in found)
    efficiency, acceptance, log_weights, weights, tails = next(each for each in found if each[0] >= enough)
    k = max(pareto_k(log_weights), 0.0)
    k = k / (1 + k) if np.isfinite(k) else 1.0
    return {"weights": weights, "tails": np.stack([tails.shift, tails.width, tails.left, tails.right])}, {
        "independence_acceptance": acceptance,
        "independence_efficiency": efficiency,
        "pareto_k": k,
        "pareto_k_error": (1 - k) / float(np.sqrt(tail_size(len(lp)))),
        "bent": tails.bent,
    }
