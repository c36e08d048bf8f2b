"""The Metropolis–Hastings kernel for any proposal."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from gadabout.kernels.base import AbstractKernel, Info
from gadabout.proposals import AbstractProposal, AbstractReparametrised, renew_cache


class Metropolis(AbstractKernel):
    r"""Proposes y and accepts it with probability $\min\{1, \pi(y)q(x|y) / \pi(x)q(y|x)\}$ (paper, equation 1).

    A proposal whose log density, gradient or log-ratio is not finite is rejected and counted as `nonfinite`. Where
    `learn` is set, the proposal's pullback of the log-ratio is handed on in `Info`: an adaptation that calls it needs
    no evaluation of the target of its own, and where nobody calls it the compiler drops it.
    """

    proposal: AbstractProposal
    learn: bool = eqx.field(static=True, default=False)

    @property
    def order(self):
        return self.proposal.order

    def init(self, x, target):
        return renew_cache(self.proposal, target.at(x, min(self.order, 1)))

    def step(self, key, state, target):
        here, proposal = state, self.proposal
        noise_key, accept_key = jax.random.split(key)
        noise = proposal.noise(noise_key, here)
        if self.learn and isinstance(proposal, AbstractReparametrised):
            there, log_q, pullback = proposal.move_and_pullback(noise, here, target)
        else:
            there, log_q = proposal.move(noise, here, target)
            pullback = None

        log_ratio = there.logp - here.logp + log_q
        finite = there.finite & ~jnp.isnan(log_ratio)
        log_ratio = jnp.where(finite, log_ratio, -jnp.inf)
        accepted = jnp.log(jax.random.uniform(accept_key, dtype=log_ratio.dtype)) < log_ratio
        after = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), there, here)

        acceptance_rate = jnp.exp(jnp.minimum(0, log_ratio))
        record: dict[str, Array] = {
            "lp": after.logp,
            "acceptance_rate": acceptance_rate,
            "accepted": accepted,
            "nonfinite": ~finite,
            **proposal.record(noise, here, log_ratio),
        }
        return after, Info(log_ratio, acceptance_rate, accepted, finite, there, noise, pullback, record)

    def position(self, state):
        return state.x

    def rebase(self, state):
        return renew_cache(self.proposal, state)

    def gradient_evaluations(self, learning):
        return self.proposal.gradient_evaluations(learning and self.learn)
