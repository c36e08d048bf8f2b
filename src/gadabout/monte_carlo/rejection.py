r"""Rejection sampling with a checked envelope (lectures, "Rejection sampling").

    Find q and c with c q(θ) ≥ π(θ) everywhere.                          log_envelope = log c
    While true:  θ ~ q,  u ~ Uniform(0, c q(θ)),  if u < π(θ): break.    _propose: log u' < log π − log q − log c

Proposals are made in batches, but proposal i is a function of (key, i) alone, and only those up to the last draw that
was asked for are counted: the result depends on no batch size.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.checks import check_whole
from gadabout.monte_carlo.plain import Estimate
from gadabout.proposals import AbstractDistribution
from gadabout.target import Target


class EnvelopeViolated(ValueError):
    """A proposed `point` at which log π − log q, the `log_ratio`, exceeds the envelope: the draws would be wrong."""

    def __init__(self, message: str, point: np.ndarray, log_ratio: float):
        super().__init__(message)
        self.point, self.log_ratio = point, log_ratio


class ProposalLimit(RuntimeError):
    """The limit on proposals was reached first; `partial` is the `Rejection` result of what was drawn by then."""

    def __init__(self, message: str, partial: "Rejection"):
        super().__init__(message)
        self.partial = partial


@dataclass(frozen=True)
class Rejection:
    r"""Independent draws from π, shape (num_draws, n), and what they cost.

    With k draws from N proposals, $(k - 1)/(N - 1)$ estimates the acceptance rate without bias, for proposing stops at
    the k-th acceptance (Haldane 1945). The rate is $Z/c$ where $Z = \int\pi$, whence `log_normaliser` estimates log Z,
    with a standard error by the delta method.
    """

    draws: Float[np.ndarray, "draws n"]
    num_proposals: int
    log_envelope: float

    @property
    def acceptance_rate(self) -> Estimate:
        """Share of the proposals that π accepts."""
        k, N = len(self.draws), self.num_proposals
        rate = (k - 1) / (N - 1) if k >= 2 else k / N
        return Estimate(np.asarray(rate), np.sqrt(rate * (1 - rate) / max(N - 2, 1)))

    @property
    def log_normaliser(self) -> Estimate:
        """log Z, the log of the integral of π; −∞ where nothing was accepted."""
        rate, error = self.acceptance_rate
        with np.errstate(divide="ignore", invalid="ignore"):
            return Estimate(self.log_envelope + np.log(rate), error / rate)


def rejection(
    key: Key[Array, ""],
    distribution: AbstractDistribution,
    target: Target,
    num_draws: int,
    *,
    log_envelope: float,
    max_proposals: int = 10_000_000,
    batch_size: int = 8_192,
) -> Rejection:
    """Independent draws from the target, by proposing from q under the envelope c q ≥ π.

    Args:
        key: all randomness comes from it; the same key gives the same draws.
        distribution: q, which must know its `log_normaliser`.
        target: log π, normalised or not.
        num_draws: draws to return, at least 2.
        log_envelope: log c, at least as large as log π − log q anywhere.
        max_proposals: where to give up.
        batch_size: proposals made at once; the draws do not depend on it.

    Raises:
        ValueError: if an argument is out of range.
        EnvelopeViolated: if log π − log q exceeds `log_envelope`, or is not a number, at any proposed point.
        ProposalLimit: if `max_proposals` were not enough; the error keeps what was drawn.
    """
    num_draws = check_whole("num_draws", num_draws, 2)
    max_proposals = check_whole("max_proposals", max_proposals, 2)
    batch_size = check_whole("batch_size", batch_size, 1)
    if not np.isfinite(log_envelope):
        raise ValueError(f"log_envelope must be a finite number, got {log_envelope}")
    envelope = jnp.asarray(log_envelope, dtype=float)
    kept, found = [], 0
    for start in range(0, max_proposals, batch_size):
        proposals = start + jnp.arange(batch_size)
        points, log_ratio, accepted = map(np.asarray, _propose(key, proposals, distribution, target, envelope))
        _check(points, log_ratio, float(log_envelope))
        accepted = np.flatnonzero(accepted & (np.asarray(proposals) < max_proposals))[: num_draws - found]
        kept.append(points[accepted])
        found += len(accepted)
        if found == num_draws:
            return Rejection(np.concatenate(kept), start + int(accepted[-1]) + 1, float(log_envelope))
    result = Rejection(np.concatenate(kept), max_proposals, float(log_envelope))
    raise ProposalLimit(
        f"{found} of {num_draws} draws after max_proposals = {max_proposals} proposals; the envelope is far above the "
        "target: choose q closer to it, a smaller log_envelope if one holds, or a chain (gad.sample). "
        "What was drawn is kept in this error's `partial`",
        result,
    )


@eqx.filter_jit
def _propose(key, proposals, distribution, target, log_envelope):
    """Points (batch, n), log π − log q (batch,) and which are accepted, for the proposals of the given numbers."""

    def propose(i):
        draw_key, uniform_key = jax.random.split(jax.random.fold_in(key, i))
        x = distribution.sample(draw_key)
        log_ratio = target.log_density(x) - distribution.normalised_log_density(x)
        u = jax.random.uniform(uniform_key, dtype=log_ratio.dtype)
        return x, log_ratio, jnp.log(u) < log_ratio - log_envelope

    return jax.vmap(propose)(proposals)


def _check(points: np.ndarray, log_ratio: np.ndarray, log_envelope: float) -> None:
    """Raises EnvelopeViolated for the worst point, beyond what rounding explains."""
    tolerance = 1e3 * np.finfo(log_ratio.dtype).eps * (1 + abs(log_envelope))
    if np.all(log_ratio <= log_envelope + tolerance):
        return
    worst = int(np.argmax(np.where(np.isnan(log_ratio), np.inf, log_ratio)))
    x, ratio = points[worst], float(log_ratio[worst])
    remedy = (
        "the log density must be a number, or −∞ outside the support"
        if np.isnan(ratio)
        else f"pass log_envelope of at least {ratio:.6g} (it may be larger elsewhere), or a q with heavier tails"
    )
    raise EnvelopeViolated(
        f"the envelope is violated: log π − log q = {ratio:.6g} exceeds log_envelope = {log_envelope:.6g} "
        f"at the proposed point x = {np.array2string(x, precision=6, threshold=20)}; {remedy}",
        x,
        ratio,
    )
