"""The No-U-Turn kernel: trajectories of `kernels.tree` in coordinates whitened by a factor."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.factors import AbstractFactor
from gadabout.kernels.base import AbstractKernel, Info
from gadabout.kernels.tree import Leapfrog, Phase, trajectory
from gadabout.target import Point, Target


class NoUTurn(AbstractKernel):
    r"""Doubles a leapfrog trajectory forwards or backwards until it turns, and draws the next state from it.

    The trajectory runs in coordinates whitened by L: $x = x_0 + Lz$, momentum $p \sim N(0, I)$ and energy
    $H = -\log\pi(x) + \tfrac12\|p\|^2$. The mass matrix is $(LL^\top)^{-1}$ and is never formed. A leapfrog step costs
    one gradient and two products with L. A state is drawn from the trajectory with weights $e^{-H}$, biased towards the
    new half (multinomial and biased progressive sampling; Betancourt 2017, appendix A.3). A trajectory whose momenta
    sum to ρ turns if $p_{left}\cdot\rho \le 0$ or $p_{right}\cdot\rho \le 0$, with half the end points subtracted from
    ρ, or if a half, quarter, … of it turns. This is the algorithm of Hoffman & Gelman (2014) in Stan's form; it makes
    BlackJAX's moves from the same keys (`kernels.tree`).

    A trajectory diverges if its energy grows by more than 1000 or is no longer finite. It then ends, and no state is
    drawn from the half that diverged. `nonfinite` counts trajectories with a non-finite energy. `acceptance_rate` is
    the mean of $\min(1, e^{H_0 - H})$ over all states visited; `accepted` says whether the chain moved.

    Chains that advance together wait for the longest trajectory among them. `sample` therefore runs chains one by one
    if a CPU gains little from running them together (`uneven`). `gradient_evaluations` counts a chain's own.

    Args:
        factor: L.
        step_size: ε, positive.
        max_depth: largest number of doublings of a single leapfrog step, a run-time value.
        depth_of_draws: the same once the kernel is `settled`.
        deepest: static, the largest depth for which memory is reserved, 2n numbers per doubling.
    """

    factor: AbstractFactor
    step_size: Float[Array, ""]
    max_depth: Int[Array, ""]
    depth_of_draws: Int[Array, ""]
    deepest: int = eqx.field(static=True)

    @property
    def order(self):
        return 1

    @property
    def uneven(self):
        return True

    def init(self, x, target):
        return self.rebase(target.at(x, 1))

    @property
    def cached_by(self):
        return self.factor

    def rebase(self, state):
        return Point(state.x, state.logp, state.grad, self.factor.tmul(state.grad))

    def position(self, state):
        return state.x

    def settled(self, states):
        return eqx.tree_at(lambda kernel: kernel.max_depth, self, self.depth_of_draws)

    def step(self, key, state, target):
        momentum_key, trajectory_key = jax.random.split(key)
        momentum = jax.random.normal(momentum_key, state.x.shape, state.x.dtype)
        start = Phase(state, momentum)
        leapfrog = self._leapfrog(target)
        tree = trajectory(trajectory_key, start, leapfrog, self.step_size, self.max_depth, self.deepest)
        after, steps = tree.drawn, tree.states
        statistics = {
            "diverging": tree.diverging,
            "energy": tree.drawn_energy,
            "tree_depth": tree.depth,
            "n_steps": steps,
            "step_size": self.step_size,
            "reached_max_treedepth": (tree.depth >= self.max_depth) & ~tree.turned & ~tree.diverging,
        }
        rate, moved = tree.acceptance / steps, jnp.any(after.x != state.x)
        info = Info(after.logp, rate, moved, tree.finite, statistics=statistics, gradient_evaluations=steps)
        return after, info

    def _leapfrog(self, target: Target) -> Leapfrog:
        """One leapfrog step in z, where the mass matrix is I; a log density of +∞ counts as one of −∞."""

        def step(phase: Phase, step_size: Array) -> Phase:
            half = 0.5 * step_size
            p = phase.p + half * phase.point.cache
            there = target.at(phase.point.x + step_size * self.factor.mul(p), 1)
            there = self.rebase(Point(there.x, jnp.where(there.logp < jnp.inf, there.logp, -jnp.inf), there.grad))
            return Phase(there, p + half * there.cache)

        return step
