"""A local move, then many independence proposals that are evaluated at once (Samsonov et al. 2022, "Ex²MCMC")."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from gadabout.kernels.base import AbstractInfo, AbstractKernel, Info
from gadabout.kernels.compose import PartOutcome
from gadabout.kernels.metropolis import accept
from gadabout.proposals import AbstractDistribution
from gadabout.target import Point

KEPT = {"diverging": bool, "n_steps": int}
"""statistics of the local kernel that are recorded, and their type; an independence move has a zero there"""


class Turn(eqx.Module):
    """The local kernel's state, and how many independence proposals come before its next move."""

    here: PyTree
    left: Int[Array, ""]


class LocalGlobal(AbstractKernel):
    r"""Every `period`-th transition is the `local` kernel's; those between propose y ~ q, whatever x.

    y is accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$ (lectures, "Independence M-H"). Which transition
    comes next depends on their number alone, so that π stays invariant. The local moves lead out of places to which q
    gives too little mass, where independence proposals would be refused for long.

    `run` makes the transitions of a period at once: its first is local, and the proposals of the others need no
    gradient, nor do they wait for one another.

    Args:
        local: a kernel whose chain's state is a point.
        distribution: q.
        period: transitions from one local move to the next.
    """

    local: AbstractKernel
    distribution: AbstractDistribution
    period: int = eqx.field(static=True, default=32)

    @property
    def order(self):
        return self.local.order

    @property
    def block(self):
        return self.period

    def init(self, x, target):
        return Turn(self.local.init(x, target), jnp.zeros((), int))

    @property
    def uneven(self):
        return self.local.uneven

    def position(self, state):
        return self.local.position(state.here)

    def point(self, state):
        return self.local.point(state.here)

    def rebase(self, state):
        return Turn(self.local.rebase(state.here), state.left)

    def step(self, key, state, target):
        moved, info = self._local(key, state.here, target)
        y, log_q, wait = self._propose(jax.random.clone(key))  # one of the two is used
        there = self.local.init(y, target)
        w = self._log_weight(state.here)
        logp = self.local.point(there).logp
        accepted, ratio, finite = accept(wait, logp - log_q - w, jnp.isfinite(logp))
        stayed = _where(accepted, there, state.here)
        other = self._info(self.local.point(stayed).logp, accepted, ratio, finite)
        is_local = state.left == 0
        left = jnp.where(is_local, self.period, state.left) - 1
        return Turn(_where(is_local, moved, stayed), left), _where(is_local, info, other)

    def run(self, keys, state, target, count):
        here, first = self._local(keys[0], state.here, target)
        y, log_q, waits = jax.vmap(self._propose)(keys[1:])
        logp = jax.vmap(target.log_density)(y)

        def judge(carry, turn):
            w, chosen = carry
            i, wait, proposed = turn
            accepted, ratio, finite = accept(wait, proposed - w, jnp.isfinite(proposed))
            accepted &= i < count - 1
            carry = jnp.where(accepted, proposed, w), jnp.where(accepted, i, chosen)
            return carry, (carry[1], accepted, ratio, finite)

        rows, nowhere = jnp.arange(len(y)), jnp.asarray(-1)
        carry, (chosen, *rest) = jax.lax.scan(judge, (self._log_weight(here), nowhere), (rows, waits, logp - log_q))
        at = self.local.point(here)
        pick = lambda new, old: jnp.where(chosen.reshape(-1, *([1] * old.ndim)) >= 0, new[chosen], old)
        x, lp = pick(y, at.x), pick(logp, at.logp)
        after = _where(carry[1] >= 0, self.local.init(x[-1], target), here)
        infos = jax.vmap(self._info)(lp, *rest)
        both = lambda one, many: jnp.concatenate([one[None], many])
        states = Turn(Point(both(at.x, x), both(at.logp, lp)), jnp.zeros(len(keys), int))
        left = jax.lax.convert_element_type(jnp.mod(-count, self.period), state.left.dtype)
        return Turn(after, left), (states, jax.tree.map(both, first, infos))

    def _local(self, key, here, target):
        """The local move, with the gradient counted that the next one begins with."""
        after, info = self.local.step(key, here, target)
        told = PartOutcome.of(info, self.local, min(self.order, 1))
        statistics = {name: jnp.asarray(info.statistics.get(name, 0), kind) for name, kind in KEPT.items()}
        rate, gradients = told.acceptance_rate, told.gradient_evaluations
        return after, _plain(info.lp, rate, told.accepted, told.finite, statistics, gradients)

    def _propose(self, key):
        """y ~ q, log q(y) and the exponential that judges it."""
        noise_key, accept_key = jax.random.split(key)
        noise = jax.lax.optimization_barrier(self.distribution.noise(noise_key))  # y is rounded alike in every program
        y, log_q = self.distribution.draw_with_log_density(noise)
        return y, log_q, jax.random.exponential(accept_key, dtype=y.dtype)

    def _log_weight(self, here) -> Float[Array, ""]:
        point = self.local.point(here)
        return point.logp - self.distribution.log_density(point.x)

    def _info(self, logp, accepted, ratio, finite):
        """The info of an independence move, which takes no gradient."""
        statistics = {name: jnp.zeros((), kind) for name, kind in KEPT.items()}
        rate = jnp.exp(jnp.minimum(0, ratio))
        return _plain(logp, rate, accepted, finite, statistics, jnp.zeros((), int))


def _plain(lp, rate, accepted, finite, statistics, gradients) -> AbstractInfo:
    return Info(lp, rate, accepted, finite, statistics=statistics, gradient_evaluations=gradients)


def _where(condition, new, old):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
