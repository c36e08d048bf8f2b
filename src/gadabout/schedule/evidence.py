"""What some draws, and their log densities, say of the moves that made them and of those that others would be."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from gadabout.diagnostics import independence_efficiency, pareto_k
from gadabout.diagnostics.summary import rhat_begun
from gadabout.proposals import Tails, fitted_tails, fitted_weights, log_radial_density, no_tails
from gadabout.schedule.choose import score

LARGEST_RHAT = 1.1
RARELY = 1e-3
"""how often a look has a stay that is called long where chains accept half of what the median chain does"""
FEW_COORDINATES = 32
"""with no more than these a product with a whole factor costs next to nothing beside the noise"""
NEARLY = 0.95
"""of the best efficiency: what gives as much serves as well"""
LONGER_TAILS = 2.0
"""times as long as fitted: where a tail is too short chains stay where they are, where it is too long they do not"""
SAME, OTHER = 1e-3, 1.0
"""the Kullback-Leibler divergences up to which two Gaussians propose alike, and from which on they do not"""


class Look:
    """Draws (t, chains, n) that were looked at, their statistics (t, chains), and the Gaussian that was fitted before.

    What several ask is worked out once, where it is asked: how the Gaussian sees draws by `seen_by`, of which there
    may be a program already.
    """

    def __init__(
        self,
        draws: np.ndarray,
        stats: Mapping[str, np.ndarray],
        gaussian: Any = None,
        program: Callable[[Any, Any, np.ndarray], tuple] | None = None,
    ):
        self.draws, self.stats, self.gaussian, self.program = draws, stats, gaussian, program or seen_by

    @functools.cached_property
    def score(self) -> float:
        """The worst coordinate's share of independent draws."""
        return score(self.draws)

    def begin(self) -> None:
        """Has R-hat, which takes longest, worked out in other threads from now on."""
        _ = self._rhat

    @property
    def rhat(self) -> float:
        """The largest of all coordinates."""
        return float(self._rhat().max())

    @functools.cached_property
    def _rhat(self) -> Callable[[], np.ndarray]:
        return rhat_begun(np.moveaxis(self.draws, 0, 1))

    @functools.cached_property
    def flat(self) -> Float[np.ndarray, "draws n"]:
        """The draws of all chains, in double precision."""
        return self.draws.reshape(-1, self.draws.shape[-1]).astype(float)

    @property
    def whitened(self) -> Float[np.ndarray, "draws n"]:
        """L⁻¹(x − m) of them."""
        return self._by_gaussian[0]

    @property
    def widths(self) -> Float[np.ndarray, " n"]:
        """The standard deviations of the Gaussian."""
        return self._by_gaussian[1]

    @property
    def log_det(self) -> float:
        """log |L|."""
        return float(self._by_gaussian[2])

    @functools.cached_property
    def _by_gaussian(self) -> tuple[np.ndarray, ...]:
        found = self.program(self.gaussian.factor, self.gaussian.mean, self.flat)
        return tuple(np.asarray(each, float) for each in found)

    def and_more(self, draws: np.ndarray, stats: Mapping[str, np.ndarray]) -> "Look":
        """The same with draws that were made afterwards, and their statistics."""
        both = {name: np.concatenate([self.stats[name], stats[name]]) for name in stats}
        return Look(np.concatenate([self.draws, draws]), both, self.gaussian, self.program)


def seen(look: Look) -> dict[str, Any]:
    """What draws and their statistics say of the sampler that made them.

    `doubt` holds the reasons not to go on with it, in words.
    """
    return with_rhat(seen_but_rhat(look), look)


def seen_but_rhat(look: Look) -> dict[str, Any]:
    """The same without R-hat, which takes longest."""
    draws, stats = look.draws, look.stats
    diverging = float(stats["diverging"].mean()) if "diverging" in stats else 0.0
    rates = stats["acceptance_rate"].mean(0)
    doubt = []
    if diverging > 1e-3:
        doubt.append(f"{diverging:.1%} of trajectories diverge")
    if slow(stats).any():
        doubt.append(
            f"chain {int(np.argmin(rates))} accepts {rates.min():.0%}, the median chain {np.median(rates):.0%}"
        )
    elif (stays := longest_stays(draws)).max() > longest_by_chance(rates, len(draws)):
        doubt.append(f"chain {int(np.argmax(stays))} stands still for {stays.max()} iterations")
    gradients = float(stats["gradient_evaluations"].mean()) if "gradient_evaluations" in stats else 1.0
    return {"doubt": doubt, "acceptance": float(rates.mean()), "efficiency": look.score, "gradients": gradients}


def with_rhat(evidence: Mapping[str, Any], look: Look) -> dict[str, Any]:
    """The evidence with the largest R-hat, and the doubt that it gives cause for."""
    rhat = look.rhat
    disagree = [] if rhat <= LARGEST_RHAT else [f"R-hat is {rhat:.2f}"]
    return {**evidence, "rhat": rhat, "doubt": evidence["doubt"] + disagree}


def slow(stats: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which chains accept less than half of what the median chain accepts, by statistics (t, chains)."""
    rates = stats["acceptance_rate"].mean(0)
    return rates < 0.5 * np.median(rates)


def longest_stays(draws: np.ndarray) -> np.ndarray:
    """For how many iterations in a row each chain stands still, at the most, of draws (t, chains, n)."""
    moved = np.any(draws[1:] != draws[:-1], -1)
    rows = np.arange(1, len(draws))[:, None]
    return np.max(rows - np.maximum.accumulate(np.where(moved, rows, 0)), 0, initial=0)


def longest_by_chance(rates: np.ndarray, t: int) -> float:
    """The longest stay in t iterations, but for one look in a thousand, at half of what the median chain accepts."""
    return np.log(len(rates) * t / RARELY) / -np.log1p(-0.5 * np.clip(np.median(rates), 1e-3, 1))


def stretched(look: Look, kept: np.ndarray) -> float:
    """By how much, as a logarithm, draws are wider or narrower than the Gaussian in some direction.

    Of the chains that are `kept`. What chance alone may do to as many draws as they are worth is left off; 0 where that
    is more than half of a width.
    """
    n, dense = look.draws.shape[-1], len(look.gaussian.factor.covariance_shape()) > 1
    share = look.score if kept.all() else score(look.draws[:, kept])
    draws = len(look.draws) * np.sum(kept)
    chance = np.sqrt((n if dense else 9) / max(draws * share, 1.0))  # Marchenko & Pastur's edges, (1 ± chance)²
    if chance >= 0.5:
        return 0.0
    z = look.whitened.reshape(look.draws.shape)[:, kept].reshape(-1, n)
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


def best_independence(look: Look) -> tuple[dict, dict[str, Any]]:
    """What `seen_of_independence` says with the Gaussian's factor, or with its standard deviations where they serve.

    They serve, at linear cost, where they give `NEARLY` its efficiency and coordinates are many; `diagonal` says so.
    That is not worked out where the divergence of the two Gaussians leaves no doubt.
    """
    gaussian, flat, lp, widths = look.gaussian, look.flat, look.stats["lp"].ravel(), look.widths
    few = len(widths) <= FEW_COORDINATES and len(gaussian.factor.covariance_shape()) > 1
    apart = np.inf if few else float(np.sum(np.log(widths))) - look.log_det
    theta, found = seen_of_independence(look.whitened, lp, flat) if apart > SAME else ({}, {})
    if apart > OTHER:
        return theta, found | {"diagonal": False}
    alone, own = seen_of_independence((flat - np.asarray(gaussian.mean)) / widths, lp, flat)
    serves = not found or own["independence_efficiency"] >= NEARLY * found["independence_efficiency"]
    return (alone, own | {"diagonal": True}) if serves else (theta, found | {"diagonal": False})


def seen_of_independence(
    z: np.ndarray, lp: np.ndarray, draws: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The best Gaussian at several scales, bent or not, as θ by its path, and what importance weights say of it.

    Few draws tell little of how long tails are, and weights are unbounded where those of q are too short. So tails
    `LONGER_TAILS` times as long as those that were fitted are taken where they serve as well.

    A tail of the weights w = π/q under q with the index k has the index k/(1 − k) under π, where the draws are from.

    Args:
        z: L⁻¹(x − m) of draws, shape (draws, n).
        lp: log π of them, shape (draws,).
        draws: shape (draws, n).
    """
    n, fit, found, plain = z.shape[1], fitted_tails(z), [], np.sum(z**2, 1)
    odd = np.flatnonzero((fit.shift != 0) | (fit.width != 1))
    bends = lambda tails: int(np.sum((tails.left > 0) | (tails.right > 0)))
    longer = Tails(fit.shift, fit.width, LONGER_TAILS * fit.left, LONGER_TAILS * fit.right)
    for tails in (longer, fit, no_tails(n)) if bends(fit) else (no_tails(n),):
        squares, log_slope = plain, 0.0
        if bends(tails):
            part = Tails(*(each[odd] for each in (tails.shift, tails.width, tails.left, tails.right)))
            u, log_slope = part.inverse(z[:, odd], np)
            squares = plain + np.sum(u**2 - z[:, odd] ** 2, 1)
        weights = fitted_weights(squares, n)
        log_weights = lp - log_radial_density(squares, n, weights) + log_slope
        acceptance, efficiency = independence_efficiency(log_weights, draws)
        found.append((efficiency, acceptance, log_weights, weights, tails))
    enough = NEARLY * max(each[0] for each in found)
    efficiency, acceptance, log_weights, weights, tails = next(each for each in found if each[0] >= enough)
    k = max(pareto_k(log_weights), 0.0)
    return theta_of(weights, tails), {
        "independence_acceptance": acceptance,
        "independence_efficiency": efficiency,
        "pareto_k": k / (1 + k) if np.isfinite(k) else 1.0,
        "bent": bends(tails),
    }


def theta_of(weights: np.ndarray, tails: Tails) -> dict[str, np.ndarray]:
    """θ of the independence moves, by its path in their kernel."""
    parts = {"weights": weights, **{f"tails.{name}": value for name, value in vars(tails).items()}}
    return {f"distribution.{name}": value for name, value in parts.items()}


def seen_by(factor: Any, mean: Array, draws: Any) -> tuple[Float[Array, "draws n"], Float[Array, " n"], Array]:
    """Draws as a Gaussian sees them, its standard deviations, and log |L|."""
    return jax.vmap(lambda x: factor.solve(x - mean))(draws), factor.deviations(), factor.log_det()
