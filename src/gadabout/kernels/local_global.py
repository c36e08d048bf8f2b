"""A local move, then many independence proposals that are evaluated at once (Samsonov et al. 2022, "Ex²MCMC")."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from gadabout.kernels.base import AbstractInfo, AbstractKernel, Info
from gadabout.kernels.compose import PartOutcome
from gadabout.kernels.metropolis import accept
from gadabout.proposals import AbstractDistribution
from gadabout.target import Point

KEPT = {"diverging": bool, "n_steps": int}
"""statistics of the local kernel that are recorded, and their type; an independence move has a zero there"""


class Turn(eqx.Module):
    """The local kernel's state, the noise of which it is a draw of q, and how many moves there are to the next local.

    The noise is None where the distribution makes no half-turns.
    """

    here: PyTree
    noise: PyTree
    left: Int[Array, ""]


class LocalGlobal(AbstractKernel):
    r"""Every `period`-th transition is the `local` kernel's; those between propose y ~ q, whatever x, and half-turns.

    y is accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$ (lectures, "Independence M-H"). Which transition
    comes next depends on their number alone, so that π stays invariant. The local moves lead out of places to which q
    gives too little mass, where independence proposals would be refused for long.

    Where q has half-turns (`AbstractDistribution.turns`), every second of those transitions proposes one: x is the draw
    of q that some uniforms stand for, and each u becomes u ± ½. That maps q to itself and is its own inverse, so that
    the same ratio accepts it. A draw and its half-turn lie on opposite sides of each coordinate's median, and one near
    it where the other is far: under a normal q, x correlates by −0.33, x² by −0.44, so that as many draws tell more of
    both (systematic sampling with two strata). Products of two independent coordinates correlate by 0.11.

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
        blank = jax.eval_shape(self.distribution.noise, jax.random.key(0)) if self.distribution.turns else None
        noise = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), blank)
        return Turn(self.local.init(x, target), noise, jnp.zeros((), int))

    @property
    def uneven(self):
        return self.local.uneven

    def position(self, state):
        return self.local.position(state.here)

    def point(self, state):
        return self.local.point(state.here)

    def rebase(self, state):
        return Turn(self.local.rebase(state.here), state.noise, state.left)

    def step(self, key, state, target):
        moved, found, info = self._local(key, state.here, target)
        noise_key, wait_key = jax.random.split(jax.random.clone(key))  # the local move's, or these
        noise, wait = self._fresh(noise_key), self._wait(wait_key)
        if self.distribution.turns:
            turning = (self.period - state.left) % 2 == 1
            noise = _where(turning, self.distribution.half_turn(state.noise), noise)
        y, log_q = self.distribution.draw_with_log_density(noise)
        there = self.local.init(y, target)
        logp = self.local.point(there).logp
        w = self._log_weight(state.here)
        accepted, ratio, finite = accept(wait, logp - log_q - w, jnp.isfinite(logp))
        stayed = _where(accepted, there, state.here)
        kept = _where(accepted, noise, state.noise) if self.distribution.turns else None
        other = self._info(self.local.point(stayed).logp, accepted, ratio, finite)
        is_local = state.left == 0
        left = jnp.where(is_local, self.period, state.left) - 1
        after, noise = _where(is_local, (moved, found), (stayed, kept))
        return Turn(after, noise, left), _where(is_local, info, other)

    def run(self, keys, state, target, count):
        here, found, first = self._local(keys[0], state.here, target)
        noise_keys, wait_keys = jax.vmap(jax.random.split, out_axes=1)(keys[1:])
        at, waits = self.local.point(here), jax.vmap(self._wait)(wait_keys)
        noise, own, opposite = self._proposals(noise_keys, found)
        y, log_q = jax.vmap(self.distribution.draw_with_log_density)(noise)
        logp = jax.vmap(target.log_density)(y)
        weights = jnp.append(logp - log_q, self._log_weight(here))  # x's own in the end, at row −1

        def judge(carry, turn):
            i, wait, fresh = turn
            there = _where(i % 2 == 0, carry[::-1], fresh) if self.distribution.turns else fresh
            (proposed, _), (w, _) = there[0], carry[0]
            accepted, ratio, finite = accept(wait, proposed - w, jnp.isfinite(proposed))
            accepted &= i < count - 1
            carry = _where(accepted, there, carry)
            return carry, (carry[0][1], accepted, ratio, finite)

        known = lambda rows: (weights[rows], jnp.asarray(rows))
        turns = jnp.arange(len(waits)), waits, (known(own), known(opposite))
        last, (chosen, *rest) = jax.lax.scan(judge, (known(-1), known(0)), turns)
        pick = lambda new, old, row: jnp.where(row.reshape(*row.shape, *([1] * old.ndim)) >= 0, new[row], old)
        x, lp = pick(y, at.x, chosen), pick(logp, at.logp, chosen)
        row = last[0][1]
        after = _where(row >= 0, self.local.init(x[-1], target), here)
        noise = None if found is None else jax.tree.map(lambda new, old: pick(new, old, row), noise, found)
        infos = jax.vmap(self._info)(lp, *rest)
        both = lambda one, many: jnp.concatenate([one[None], many])
        states = Turn(Point(both(at.x, x), both(at.logp, lp)), None, jnp.zeros(len(keys), int))
        left = jax.lax.convert_element_type(jnp.mod(-count, self.period), state.left.dtype)
        return Turn(after, noise, left), (states, jax.tree.map(both, first, infos))

    def _proposals(self, keys, found):
        """The noise of all proposals, and, for each turn, the row of a draw of q and of its half-turn.

        Half-turns stand first, of x and of those draws that one follows; then the draws.
        """
        turns = np.arange(len(keys))
        if found is None:
            return jax.vmap(self._fresh)(keys), turns, turns
        pairs, halves = (turns + 1) // 2, -(-len(keys) // 2)
        fresh = jax.vmap(self._fresh)(keys[1::2])
        turning = jax.tree.map(lambda one, many: jnp.concatenate([one[None], many])[:halves], found, fresh)
        turned = jax.vmap(self.distribution.half_turn)(turning)
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), turned, fresh)
        return both, halves + pairs - 1, np.minimum(pairs, halves - 1)

    def _local(self, key, here, target):
        """The local move, its noise, and its info with the gradient counted that the next one begins with."""
        key, for_noise = jax.random.split(key) if self.distribution.turns else (key, None)
        after, info = self.local.step(key, here, target)
        told = PartOutcome.of(info, self.local, min(self.order, 1))
        statistics = {name: jnp.asarray(info.statistics.get(name, 0), kind) for name, kind in KEPT.items()}
        rate, gradients = told.acceptance_rate, told.gradient_evaluations
        found = None if for_noise is None else self.distribution.noise_at(for_noise, self.local.point(after).x)
        return after, found, _plain(info.lp, rate, told.accepted, told.finite, statistics, gradients)

    def _fresh(self, key):
        """The noise of y ~ q."""
        return jax.lax.optimization_barrier(self.distribution.noise(key))  # y is rounded alike in every program

    def _wait(self, key):
        """The exponential that judges a proposal."""
        return jax.random.exponential(key, dtype=jnp.result_type(float))

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
