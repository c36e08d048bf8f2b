"""The diagnostics of a trial: of the moves that made its draws, and of independence proposals fitted to them."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gadabout.diagnostics import independence_efficiency, pareto_k
from gadabout.diagnostics.summary import rhat_as_judged
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.move import State
from gadabout.ensemble.split_hmc import squares
from gadabout.ensemble.tails import Tails, fitted_tails, fitted_weights, log_radial_density, no_tails

LARGEST_RHAT = 1.1
MOST_DIVERGING = 3e-3
"""the share of trajectories that may diverge"""
RARELY = 1e-3
"""how often a trial has a stay that is called long where chains accept half of what the median chain does"""
FEW_COORDINATES = 32
"""with no more than these a product with a whole factor costs next to nothing beside the noise"""
NEARLY = 0.95
"""of the best efficiency: what gives as much serves as well"""
LONGER_TAILS = 2.0
"""times as long as fitted: where a tail is too short chains stay where they are, where it is too long they do not"""
SAME, OTHER = 1e-3, 1.0
"""the Kullback-Leibler divergences up to which two Gaussians propose alike, and from which on they do not"""


@dataclass(frozen=True)
class Trial:
    """Draws that are not kept, with θ standing still, and the Gaussian in whose coordinates they were made.

    Where coordinates have layers, all of it is said of y = M⁻¹(x), the density of which the Gaussian stands for.

    Args:
        draws: of y, of shape (t, chains, n).
        stats: the statistics, each of shape (t, chains): `lp`, log π(y), `acceptance_rate`, and, where there are,
            `accepted`, `diverging` and `gradient_evaluations`.
        coordinates: those of the fitted Gaussian.
    """

    draws: np.ndarray
    stats: Mapping[str, np.ndarray]
    coordinates: Coordinates

    @functools.cached_property
    def score(self) -> float:
        """The worst coordinate's share of independent draws (see `score`)."""
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
        """The trial with draws that were made afterwards, and their statistics."""
        both = {name: np.concatenate([self.stats[name], stats[name]]) for name in stats}
        return Trial(np.concatenate([self.draws, draws]), both, self.coordinates)


def diagnose(trial: Trial, rhat: bool = True) -> dict[str, Any]:
    """The diagnostics of the moves that made the draws: acceptance, efficiency, gradients, R-hat if wanted.

    `doubt` holds the reasons not to go on with them, in words; `stuck` says whether a chain lags or stands still.
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
    """The worst coordinate's share of independent draws, of draws (t, chains, n).

    By first autocorrelations, (1 − ρ)/(1 + ρ), with ρ the larger one of x and of (x − mean)².
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
    """The smallest share of independent draws, of draws (t, chains, n), of coordinates and of their squares.

    By the initial positive sequence of autocorrelations about the mean of all chains (Geyer 1992), so that chains that
    differ count as slow.
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
    """What the median chain accepts, by statistics (t, chains)."""
    return float(np.median(stats["acceptance_rate"].mean(0)))


def slow_chains(stats: Mapping[str, np.ndarray], usual: float | None = None) -> np.ndarray:
    """Which chains accept less than half of what is usual, by statistics (t, chains): of what the median chain does."""
    return stats["acceptance_rate"].mean(0) < 0.5 * (median_rate(stats) if usual is None else usual)


def longest_stays(draws: np.ndarray, stats: Mapping[str, np.ndarray]) -> np.ndarray:
    """For how many iterations in a row each chain stands still, at the most, of draws (t, chains, n)."""
    moved = stats["accepted"][1:] if "accepted" in stats else np.any(draws[1:] != draws[:-1], -1)
    rows = np.arange(1, len(draws))[:, None]
    return np.max(rows - np.maximum.accumulate(np.where(moved, rows, 0)), 0, initial=0)


def longest_by_chance(rates: np.ndarray, t: int) -> float:
    """The longest stay in t iterations, but for one trial in a thousand, at half of what the median chain accepts."""
    return np.log(len(rates) * t / RARELY) / -np.log1p(-0.5 * np.clip(np.median(rates), 1e-3, 1))


def stretched(trial: Trial, kept: np.ndarray) -> float:
    """By how much, as a logarithm, draws are wider or narrower than the Gaussian in some direction.

    Of the chains that are `kept`, of shape (chains,). What chance alone may do to as many draws as they are worth is
    left off; 0 where that is more than half of a width.
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
    """How many times as many steps a trajectory takes with standard deviations alone as with the covariance of draws.

    That of a normal: the root of the condition number of the correlations of draws (t, chains, n), without bound where
    they are too few to tell.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = np.nan_to_num(np.atleast_2d(np.corrcoef(draws.reshape(-1, draws.shape[-1]).T)), nan=1.0)
    widths = np.linalg.eigvalsh(correlations)
    return float(np.sqrt(widths[-1] / max(widths[0], np.finfo(float).eps)))


def best_independence(trial: Trial) -> tuple[State, dict[str, Any]]:
    """What `fit_independence` returns with the coordinates, or with their standard deviations where they serve.

    They serve, at linear cost, where they give `NEARLY` the efficiency and coordinates are many; `diagonal` says so.
    That is not computed where the divergence of the two Gaussians leaves no doubt.
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
    """The best `tails.ScaleMixture`, with tails or without, and what its importance weights say of it.

    It is returned as `weights`, of shape (K,), and `tails`, of shape (4, n). Few draws tell little of how long tails
    are, and weights are unbounded where those of q are too short. So tails `LONGER_TAILS` times as long as those that
    were fitted are taken where they serve as well. A tail of the weights w = π/q under q with the index k has the index
    k/(1 − k) under π, where the draws are from.

    Args:
        z: the coordinates of draws, of shape (draws, n).
        lp: log π of them, of shape (draws,).
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
    return {"weights": weights, "tails": np.stack([tails.shift, tails.width, tails.left, tails.right])}, {
        "independence_acceptance": acceptance,
        "independence_efficiency": efficiency,
        "pareto_k": k / (1 + k) if np.isfinite(k) else 1.0,
        "bent": tails.bent,
    }
