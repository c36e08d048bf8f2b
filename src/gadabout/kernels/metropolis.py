"""The Metropolis–Hastings kernel for any proposal."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gadabout.checks import shown
from gadabout.kernels.base import AbstractKernel, MetropolisInfo
from gadabout.proposals import AbstractProposal, AbstractReparametrised, renew_cache
from gadabout.proposals.base import checked_move


class Metropolis(AbstractKernel):
    r"""Proposes y and accepts it with probability $\min\{1, \pi(y)q(x|y) / \pi(x)q(y|x)\}$ (paper, equation 1).

    y is accepted if $-E \le$ the log-ratio, with E ~ Exponential(1). log U has the law of −E, but is −∞ once in 2²³
    draws of float32 and would then accept any proposal. A proposal whose log density or gradient is not finite, or
    whose log-ratio is −∞ or not a number, is rejected and counted as `nonfinite`. If `learn` is set, the info contains
    the proposal's pullback of the log-ratio. An adaptation that calls it needs no target evaluations of its own; the
    compiler removes it if it is not called.
    """

    proposal: AbstractProposal
    learn: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if not isinstance(self.proposal, AbstractProposal):
            remedy = "such as gadabout.proposals.RandomWalk(factor)"
            raise TypeError(f"proposal must be an AbstractProposal, {remedy}, got {shown(self.proposal)}")

    @property
    def order(self):
        return self.proposal.order

    def init(self, x, target):
        return renew_cache(self.proposal, target.at(x, min(self.order, 1)))

    def step(self, key, state, target):
        noise_key, accept_key = jax.random.split(key)
        noise = self.proposal.noise(noise_key, state)
        if self.learn and isinstance(self.proposal, AbstractReparametrised):
            there, log_q, pullback = self.proposal.move_and_pullback(noise, state, target)
        else:
            there, log_q = checked_move(self.proposal, noise, state, target)
            pullback = None
        return self._judged(accept_key, noise, state, there, log_q, pullback)

    def _judged(self, key, noise, here, there, log_q, pullback):
        """The state after the accept–reject step, and the info."""
        log_ratio = there.logp - here.logp + log_q
        wait = jax.random.exponential(key, dtype=log_ratio.dtype)
        accepted, log_ratio, finite = accept(wait, log_ratio, there.finite)
        after = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), there, here)
        rate = jnp.exp(jnp.minimum(0, log_ratio))
        statistics = self.proposal.record(noise, here, log_ratio)
        own = statistics.pop("gradient_evaluations", None)
        info = MetropolisInfo(
            after.logp, rate, accepted, finite, log_ratio, there, noise, pullback,
            statistics=statistics, gradient_evaluations=own,
        )  # fmt: skip
        return after, info

    def position(self, state):
        return state.x

    @property
    def cached_by(self):
        return self.proposal.cached_by

    def rebase(self, state):
        return renew_cache(self.proposal, state)

    def gradient_evaluations(self, learning):
        return self.proposal.gradient_evaluations(learning and self.learn)


def accept(
    wait: Float[Array, ""], log_ratio: Float[Array, ""], finite: Bool[Array, ""]
) -> tuple[Bool[Array, ""], Float[Array, ""], Bool[Array, ""]]:
    """Whether a proposal is accepted by `wait` ~ Exponential(1), its log-ratio, and whether it is finite.

    The argument `finite` describes the proposed point. If it is false, or the log-ratio is NaN or −∞, the log-ratio
    returned is −∞ and the flag returned is false.
    """
    finite = finite & (log_ratio > -jnp.inf)  # false for NaN, too
    log_ratio = jnp.where(finite, log_ratio, -jnp.inf)
    return -wait <= log_ratio, log_ratio, finite
