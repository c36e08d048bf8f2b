r"""Rejection sampling with a checked envelope (lectures, "Rejection sampling").

    Find q and c with c q(θ) ≥ π(θ) everywhere.                          log_envelope = log c
    While true:  θ ~ q,  u ~ Uniform(0, c q(θ)),  if u < π(θ): break.    _propose: −E ≤ log π − log q − log c

E ~ Exponential(1) replaces −log of a uniform number, which is infinite once in 2²³ draws of float32 and would then
accept anything. Proposal i is a function of (seed, i) alone, and is always evaluated in the same block of `BLOCK`, so
that rounding is the same. Only proposals up to the last requested draw are counted and checked. So neither the result
nor a violated envelope depends on the batch size.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from gadabout.checks import check_finite, check_whole
from gadabout.monte_carlo.arguments import Density, Seed, as_flat, check_room, fresh_for, key_of, model_of, unraveller
from gadabout.monte_carlo.plain import Estimate
from gadabout.programs import program
from gadabout.proposals import AbstractDistribution

BLOCK = 256
"""number of proposals in one vectorised call, for any batch size"""


class EnvelopeViolated(ValueError):
    """Raised if `log_ratio` = log π − log q at a proposed `point` exceeds the envelope: the draws would be wrong.

    `point` is in the user's form.
    """

    def __init__(self, message: str, point: PyTree, log_ratio: float):
        super().__init__(message)
        self.point, self.log_ratio = point, log_ratio


class ProposalLimit(RuntimeError):
    """Raised if the limit on proposals is reached first; `partial` is the `Rejection` of the draws made by then."""

    def __init__(self, message: str, partial: "Rejection"):
        super().__init__(message)
        self.partial = partial


@dataclass(frozen=True)
class Rejection:
    r"""Independent draws from π, flat of shape (num_draws, n), and the number of proposals that they took.

    With k draws from N proposals, $(k - 1)/(N - 1)$ estimates the acceptance rate without bias if proposing stops at
    the k-th acceptance (Haldane 1945), and $k/N$ if it stops at the N-th proposal (`limited`). The rate is $Z/c$ with
    $Z = \int\pi$, so that `log_normaliser` estimates log Z, with a standard error by the delta method.
    """

    flat_draws: Float[np.ndarray, "draws n"]
    num_proposals: int
    log_envelope: float
    unravel: Callable[[Any], PyTree] = as_flat
    """maps flat positions to the user's form"""
    limited: bool = False
    """whether the limit on proposals ended it"""

    @cached_property
    def draws(self) -> PyTree:
        """The draws in the user's form: a pytree like the model's position, each leaf of shape (num_draws, ...)."""
        return jax.tree.map(np.asarray, self.unravel(self.flat_draws))

    @property
    def acceptance_rate(self) -> Estimate:
        """Estimate of the share of proposals that are accepted."""
        k, N = len(self.flat_draws), self.num_proposals
        rate = k / N if self.limited or k < 2 else (k - 1) / (N - 1)
        return Estimate(np.asarray(rate), np.sqrt(rate * (1 - rate) / max(N - 2, 1)))

    @property
    def log_normaliser(self) -> Estimate:
        """log Z, the log of the integral of π; −∞ if nothing was accepted."""
        rate, error = self.acceptance_rate
        with np.errstate(divide="ignore", invalid="ignore"):
            return Estimate(self.log_envelope + np.log(rate), error / rate)


def rejection(
    model: Density,
    distribution: AbstractDistribution,
    *,
    log_envelope: float,
    num_draws: int = 1_000,
    seed: Seed = 0,
    data: PyTree = None,
    max_proposals: int = 10_000_000,
    batch_size: int = 8_192,
) -> Rejection:
    """Independent draws from the model, by proposing from q under the envelope c q ≥ π.

    Args:
        model: log π, normalised or not, as `sample` takes it, or a `Target`. A log density of anything but a vector
            is passed as `Model(log_density, position)`.
        distribution: q, of flat positions, with a `log_normaliser`.
        log_envelope: log c, at least as large as log π − log q everywhere.
        num_draws: draws to return, at least 2.
        seed: an integer below 2³², or a key of `jax.random.key`; the same seed gives the same draws.
        data: a pytree of arrays passed to the log density, where `model` is a function of (position, data).
        max_proposals: largest number of proposals, below 2³².
        batch_size: proposals evaluated at a time, rounded up to whole blocks of 256; the result does not depend on it.

    Raises:
        ValueError: if an argument is out of range.
        TypeError: if an argument has the wrong type.
        EnvelopeViolated: if log π − log q exceeds `log_envelope`, or is not a number, at a proposed point; the first
            such point is reported.
        ProposalLimit: if `max_proposals` are not enough; the error keeps the draws made by then.
    """
    model, key = model_of(model, data, distribution), key_of(seed)
    num_draws = check_whole("num_draws", num_draws, 2)
    max_proposals = check_whole("max_proposals", max_proposals, 2, 2**32 - 1)
    batch_size = -(-check_whole("batch_size", batch_size, 1, 2**31 - 1) // BLOCK) * BLOCK
    log_envelope = check_finite("log_envelope", log_envelope)
    check_room("batch_size", batch_size, distribution.dim)
    check_room("num_draws", num_draws, distribution.dim)
    target, unravel = fresh_for(model.target, distribution), unraveller(model)
    envelope = jnp.asarray(log_envelope, dtype=float)
    kept, found = [], 0
    for start in range(0, max_proposals, batch_size):
        numbers = (start + np.arange(batch_size)).astype(np.uint32).reshape(-1, BLOCK)
        points, log_ratio, accepted = map(np.asarray, _propose(key, numbers, distribution, target, envelope))
        accepted = np.flatnonzero(accepted[: max_proposals - start])[: num_draws - found]
        found += len(accepted)
        counted = int(accepted[-1]) + 1 if found == num_draws else max_proposals - start
        _check(points[:counted], log_ratio[:counted], log_envelope, unravel)
        kept.append(points[accepted])
        if found == num_draws:
            return Rejection(np.concatenate(kept), start + counted, log_envelope, unravel)
    result = Rejection(np.concatenate(kept), max_proposals, log_envelope, unravel, limited=True)
    raise ProposalLimit(
        f"{found} of {num_draws} draws after max_proposals = {max_proposals} proposals; the envelope is far above the "
        "target: choose q closer to it, a smaller log_envelope if one holds, or a chain (gad.sample). "
        "What was drawn is kept in this error's `partial`",
        result,
    )


@program
def _propose(key, numbers, distribution, target, log_envelope):
    """Points (batch, n), log π − log q (batch,) and acceptances (batch,) for `numbers` (batch / BLOCK, BLOCK)."""

    def propose(i):
        draw_key, accept_key = jax.random.split(jax.random.fold_in(key, i))
        x = distribution.sample(draw_key)
        log_ratio = target.log_density(x) - distribution.normalised_log_density(x)
        accepted = -jax.random.exponential(accept_key, dtype=log_ratio.dtype) <= log_ratio - log_envelope
        return x, log_ratio, accepted

    results = jax.lax.map(jax.vmap(propose), numbers)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), results)


def _check(points: np.ndarray, log_ratio: np.ndarray, log_envelope: float, unravel: Callable[[Any], PyTree]) -> None:
    """Raises EnvelopeViolated for the first point that exceeds the envelope by more than rounding."""
    tolerance = 1e3 * np.finfo(log_ratio.dtype).eps * (1 + abs(log_envelope))
    beyond = np.flatnonzero(~(log_ratio <= log_envelope + tolerance))
    if not len(beyond):
        return
    point, ratio = jax.tree.map(np.asarray, unravel(points[beyond[0]])), float(log_ratio[beyond[0]])
    remedy = (
        "the log density must be a number, or −∞ outside the support"
        if np.isnan(ratio)
        else f"pass log_envelope of at least {ratio:.6g} (it may be larger elsewhere), or a q with heavier tails"
    )
    with np.printoptions(precision=6, threshold=20):
        text = str(point)
    raise EnvelopeViolated(
        f"the envelope is violated: log π − log q = {ratio:.6g} exceeds log_envelope = {log_envelope:.6g} "
        f"at the proposed point x = {text}; {remedy}",
        point,
        ratio,
    )
