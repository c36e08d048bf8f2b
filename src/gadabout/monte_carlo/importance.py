r"""Importance sampling and its self-normalised form (lectures, "Importance sampling"; Owen 2013, chapter 9).

θ_m ~ q,  w_m = π(θ_m) / q(θ_m)                                       importance_sample, log_normaliser
f̂ = 1/M Σ_m w_m f(θ_m)             where π is normalised             Importance.expectation(…, normalised=True)
f̂ = Σ_m w_m f(θ_m) / Σ_m w_m       where it is not                   Importance.expectation
p̂(x) = 1/M Σ_m w_m                 where π(θ) = p(θ, x)              Importance.log_marginal_likelihood
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Float, PyTree

from gadabout.checks import check_function, check_truth, check_whole
from gadabout.diagnostics import pareto_k
from gadabout.monte_carlo.arguments import Density, Seed, as_flat, check_room, fresh_for, key_of, model_of, unraveller
from gadabout.monte_carlo.plain import Estimate, average, evaluate
from gadabout.programs import program
from gadabout.proposals import AbstractDistribution, importance_sample

LARGEST_PARETO_K = 0.7


@dataclass(frozen=True)
class Importance:
    """Draws from q, flat of shape (M, n), and log weights log π − log q of shape (M,), with all constants of q."""

    flat_draws: Float[np.ndarray, "draws n"]
    log_weights: Float[np.ndarray, " draws"]
    warnings: tuple[str, ...] = ()
    unravel: Callable[[Any], PyTree] = as_flat
    """maps flat positions to the user's form"""

    @cached_property
    def draws(self) -> PyTree:
        """The draws in the user's form: a pytree like the model's position, each leaf of shape (M, ...)."""
        return jax.tree.map(np.asarray, self.unravel(self.flat_draws))

    @cached_property
    def weights(self) -> Float[np.ndarray, " draws"]:
        """The weights divided by their sum."""
        return np.asarray(jax.nn.softmax(self.log_weights))

    @property
    def log_marginal_likelihood(self) -> Estimate:
        r"""$\log\hat p(x) = \log\tfrac1M\sum_m w_m$, with the standard error of $\hat p$ over $\hat p$ (delta method).

        $\hat p$ is unbiased; its logarithm is biased low by half its squared standard error.
        """
        M, top = len(self.log_weights), self.log_weights.max()
        return Estimate(top + np.log(np.mean(np.exp(self.log_weights - top))), np.sqrt(self.weight_variance / M))

    @property
    def elbo(self) -> Estimate:
        r"""$E_q[\log\pi - \log q] \le \log p(x)$ from the same draws; −∞ if any draw has zero weight."""
        return lower_bound(self.log_weights)

    @property
    def ess(self) -> float:
        r"""Effective sample size of the weights, $(\sum_m w_m)^2 / \sum_m w_m^2$."""
        return 1 / float(np.sum(self.weights**2))

    @property
    def weight_variance(self) -> float:
        r"""The variance of p/q under q, $E_p[p/q] - 1$ where p = π/p(x): q needs 1 + this many times the draws of p.

        The true value may be infinite, which no sample of weights shows (see `pareto_k`).
        """
        return float(np.var(len(self.weights) * self.weights, ddof=1))

    @cached_property
    def pareto_k(self) -> float:
        """Pareto k̂ of the weights' tail (Vehtari et al. 2024): above 0.7 the estimates are unreliable.

        k̂ describes only the range of the draws, so that a low k̂ proves nothing: on a Cauchy target in one dimension,
        where the variance of the weights of N(0, 1) is infinite, it stays below 0.7 in half of all runs with 1,000
        draws. −∞ if the largest weights are all equal, ∞ if few draws have a positive weight, NaN below 25 draws.
        """
        return pareto_k(self.log_weights)

    def expectation(self, f: Callable[..., Any], *, normalised: bool = False) -> Estimate:
        r"""E_p[f] of a number or an array f(θ), θ one of `draws`, with standard error.

        Self-normalised, $\hat f = \sum_m \bar w_m f_m$ with $\bar w_m = w_m/\sum_i w_i$ and standard error
        $\sqrt{\sum_m \bar w_m^2 (f_m - \hat f)^2}$ (Owen 2013, equation 9.9); its bias falls as 1/M. With
        `normalised=True` the target's density must include all its constants: $\tfrac1M\sum_m w_m f_m$, unbiased.
        """
        check_function("f", f, "of one draw")
        values = evaluate(f, self.draws)
        if check_truth("normalised", normalised):
            return average(_column(np.exp(self.log_weights), values) * values)
        value, standard_error = self_normalised(self.log_weights, values)
        return Estimate(np.asarray(value), np.asarray(standard_error))


def self_normalised(log_weights: Any, values: Any) -> Estimate:
    r"""$\hat f = \sum_m \bar w_m f_m$ with standard error $\sqrt{\sum_m \bar w_m^2 (f_m - \hat f)^2}$.

    Takes log weights of shape (M,), up to a constant, and values of shape (M, *shape); replicates may be vmapped.

    Raises ValueError for other shapes and, except for tracers, for log weights NaN, +∞ or all −∞, and values NaN.
    """
    shapes = np.shape(log_weights), np.shape(values)
    if len(shapes[0]) != 1 or shapes[1][:1] != shapes[0]:
        raise ValueError(
            f"values must have the leading axis of log_weights, shape (M,), got the shapes {shapes[1]} and {shapes[0]}"
        )
    if not isinstance(log_weights, Tracer):
        _check_weights(np.asarray(log_weights))
    if not isinstance(values, Tracer) and (bad := int(np.isnan(np.asarray(values)).sum())):
        raise ValueError(f"values has {bad} entries that are NaN; leave out their draws, or return a number for them")
    w = _column(jax.nn.softmax(jnp.asarray(log_weights)), jnp.asarray(values))
    mean: Any = jnp.sum(w * values, 0)
    standard_error: Any = jnp.sqrt(jnp.sum((w * (values - mean)) ** 2, 0))
    return Estimate(mean, standard_error)


def _check_weights(log_weights: np.ndarray) -> None:
    """Raises ValueError if log weights are NaN or +∞, or all of them −∞."""
    if bad := int(np.sum(np.isnan(log_weights) | (log_weights == np.inf))):
        raise ValueError(
            f"log_weights has {bad} entries that are NaN or +∞; set them to −∞, which is no weight, or leave them out"
        )
    if np.isneginf(log_weights).all():
        raise ValueError("log_weights are all −∞: no draw has a weight; choose q on the target's support")


def lower_bound(log_weights: Any) -> Estimate:
    """The ELBO from log weights of shape (M,); −∞ with standard error NaN if any draw has zero weight."""
    if np.all(np.asarray(log_weights) > -np.inf):
        return average(log_weights)
    return Estimate(np.asarray(-np.inf), np.asarray(np.nan))


def _column(weights: Any, values: Any) -> Any:
    return weights.reshape(-1, *[1] * (values.ndim - 1))


def importance(
    model: Density,
    distribution: AbstractDistribution,
    *,
    num_draws: int = 1_000,
    seed: Seed = 0,
    data: PyTree = None,
) -> Importance:
    """Importance sampling of the model from q.

    Draws at which log π is NaN or +∞ get zero weight and are reported in `warnings`.

    Args:
        model: log π, as `sample` takes it, or a `Target`; where it is log p(θ, x), the marginal likelihood p(x) is
            estimated. A log density of anything but a vector is passed as `Model(log_density, position)`.
        distribution: q, of flat positions, with a `log_normaliser`; its tails should not fall faster than the model's.
        num_draws: M, at least 2.
        seed: an integer below 2³², or a key of `jax.random.key`; the same seed gives the same draws.
        data: a pytree of arrays passed to the log density, where `model` is a function of (position, data).

    Raises:
        ValueError: if an argument is out of range, or no draw has a positive weight.
        TypeError: if an argument has the wrong type.

    Warns:
        UserWarning: if k̂ > 0.7 or NaN, with the remedy, or log π is NaN or +∞ at draws; `warnings` keeps the texts.
    """
    model, key = model_of(model, data, distribution), key_of(seed)
    num_draws = check_room("num_draws", check_whole("num_draws", num_draws, 2), distribution.dim)
    draws, log_weights = map(np.array, weigh(key, distribution, fresh_for(model.target, distribution), num_draws))
    usable = log_weights < np.inf  # neither +∞ nor NaN
    log_weights[~usable] = -np.inf
    if np.isneginf(log_weights).all():
        raise ValueError(f"none of {num_draws} draws of q fell where the target is positive; choose q on its support")
    messages = []
    if not usable.all():
        messages.append(
            f"the log density is NaN or infinite at {(~usable).sum()} of {num_draws} draws, which get no weight"
        )
    messages += _tail_message(pareto_k(log_weights))
    for message in messages:
        warnings.warn(message, stacklevel=2)
    return Importance(draws, log_weights, tuple(messages), unraveller(model))


@program
def weigh(key, distribution, target, num_draws):
    """Draws from q, flat of shape (num_draws, n), and log π − log q of shape (num_draws,), with all constants of q."""
    draws, log_weights = importance_sample(key, distribution, target, num_draws)
    return draws, log_weights + distribution.log_normaliser()


def _tail_message(k: float) -> list[str]:
    if k <= LARGEST_PARETO_K:
        return []
    if np.isnan(k):
        return ["the tail of the importance weights cannot be judged (Pareto k̂ is NaN); draw more, at least 25"]
    return [
        f"Pareto k̂ = {k:.2f} > {LARGEST_PARETO_K} of the importance weights: a few draws carry the estimates, whose "
        "standard errors are too small; choose q with heavier tails (StudentT) or closer to the target "
        "(fit_gaussian), or use smc"
    ]
