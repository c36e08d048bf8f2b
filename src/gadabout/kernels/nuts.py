"""The No-U-Turn kernel, made of BlackJAX's trajectory building blocks in coordinates whitened by a factor."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from gadabout.factors import AbstractFactor
from gadabout.kernels.alone import alone
from gadabout.kernels.base import AbstractKernel, Info
from gadabout.target import Point, Target

DIVERGENCE = 1000.0
"""The growth of energy along a trajectory that counts as a divergence, in nats (Stan's)."""


class NoUTurn(AbstractKernel):
    r"""Doubles a leapfrog trajectory forwards or backwards until it turns, and draws the next state from it.

    In coordinates whitened by L, $x = x_0 + Lz$, momentum $p \sim N(0, I)$ and energy $H = -\log\pi(x) +
    \tfrac12\|p\|^2$: the mass matrix is $(LL^\top)^{-1}$ and never formed, and a leapfrog costs one gradient and two
    products with L. A state is drawn from the trajectory with weights $e^{-H}$, the later half being favoured
    (multinomial and biased progressive sampling; Betancourt 2017, appendix A.3). A trajectory whose momenta sum to ρ
    turns where $p_{left}\cdot\rho \le 0$ or $p_{right}\cdot\rho \le 0$, with half the end points taken off ρ; so does
    one of which a half, quarter, … turns. It is Hoffman & Gelman's (2014) algorithm in the form that Stan and BlackJAX
    give it, and makes BlackJAX's moves from the same keys.

    A trajectory whose energy grows by more than 1000, or stops being finite, diverges: it ends, and the half that
    diverged is not drawn from. `nonfinite` counts those of the second kind. `acceptance_rate` is the mean of
    $\min(1, e^{H_0 - H})$ over all states visited, `accepted` says whether the chain moved.

    Chains that advance together wait for the longest trajectory among them, which is why those of `sample` go one by
    one where a CPU gains little by their company (`uneven`); `gradient_evaluations` counts a chain's own.

    Args:
        factor: L.
        step_size: ε, positive.
        max_depth: doublings of a leapfrog, or stride, at most, known at run time only.
        depth_of_draws: the same once the kernel is `settled`.
        deepest: static, the largest depth that there is memory for, 2n numbers a doubling.
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
        arrays, rest = eqx.partition((self, target, state, momentum), eqx.is_array)
        build = lambda bits, arrays: _trajectory(bits, *eqx.combine(arrays, rest))
        return self._after(state, momentum, *alone(build)(jax.random.key_data(trajectory_key), arrays))

    def _after(self, before: Point, momentum: Array, whole: Any, diverging: Array, turned: Array) -> tuple[Point, Info]:
        """The chain's next state and its `Info`, from BlackJAX's expansion state."""
        there, path, steps = whole.proposal.state, whole.trajectory, whole.trajectory.num_states
        after = Point(there.position, there.logdensity, *there.logdensity_grad)
        moved = jnp.any(after.x != before.x)
        finite = jnp.isfinite(energy_of(path.leftmost_state)) & jnp.isfinite(energy_of(path.rightmost_state))
        rate = jnp.exp(whole.proposal.sum_log_p_accept) / steps
        statistics = {
            "diverging": diverging,
            "energy": whole.proposal.energy,
            "tree_depth": whole.step,
            "n_steps": steps,
            "step_size": self.step_size,
            "reached_max_treedepth": (whole.step >= self.max_depth) & ~turned & ~diverging,
        }
        return after, Info(after.logp, rate, moved, finite, statistics=statistics, gradient_evaluations=steps)


def _blackjax(module: str) -> Any:
    """A module of BlackJAX, imported where it is first used: it takes a while. Nothing of it is traced."""
    with jax.ensure_compile_time_eval():
        return import_module(f"blackjax.mcmc.{module}")


def _trajectory(bits: Array, kernel: NoUTurn, target: Target, here: Point, momentum: Array) -> tuple[Any, Array, Array]:
    """BlackJAX's expansion state at the end of a trajectory, whether it diverged, and whether it turned.

    The key goes in as bits, because a batched choice copies what its branches hold.
    """
    start = _phase(here, momentum)
    energy = energy_of(start)
    checkpoints, expand = _blocks(kernel, target)
    trajectory = _blackjax("trajectory")
    proposal = _blackjax("proposal").Proposal(start, energy, 0.0 * energy, -jnp.inf + 0.0 * energy)
    path = trajectory.Trajectory(start, start, momentum, 0)
    state = trajectory.DynamicExpansionState(0, proposal, path, checkpoints)
    whole, (diverging, turned) = expand(bits, state, energy, kernel.step_size)
    return whole._replace(termination_state=None), diverging, turned


def energy_of(state: Any) -> Float[Array, ""]:
    """−log π + ‖p‖²/2 of a phase state."""
    return 0.5 * state.momentum @ state.momentum - state.logdensity


def _phase(here: Point, momentum: Float[Array, " n"]) -> Any:
    """BlackJAX's name for a point with a momentum; in the gradient's place stand ∇ log π and Lᵀ ∇ log π."""
    return _blackjax("integrators").IntegratorState(here.x, momentum, here.logp, (here.grad, here.cache))


def _leapfrog(kernel: NoUTurn, target: Target) -> Callable:
    """One step of a phase state, of a size that may be negative; a log density of +∞ counts as one of −∞."""

    def step(state, step_size):
        half = 0.5 * step_size
        p = state.momentum + half * state.logdensity_grad[1]
        there = target.at(state.position + step_size * kernel.factor.mul(p), 1)
        there = kernel.rebase(Point(there.x, jnp.where(there.logp < jnp.inf, there.logp, -jnp.inf), there.grad))
        return _phase(there, p + half * there.cache)

    return step


def _turning(left: Any, right: Any, total: Any) -> Any:
    """Whether a trajectory turns, from its first and last momentum and the sum of all."""
    rho = total - 0.5 * (left + right)
    return (left @ rho <= 0) | (right @ rho <= 0)


def _blocks(kernel: NoUTurn, target: Target) -> tuple[Any, Callable]:
    """The checkpoints of the U-turn criterion before the first step, and the function that expands a trajectory."""
    trajectory, state = _blackjax("trajectory"), _blackjax("integrators").IntegratorState
    kinetic = lambda momentum, position=None: 0.5 * momentum @ momentum
    new, update, is_met = _blackjax("termination").iterative_uturn_numpyro(_turning)
    leapfrog = _leapfrog(kernel, target)
    integrate = trajectory.dynamic_progressive_integration(leapfrog, kinetic, update, is_met, DIVERGENCE)
    checkpoints = new(state(jnp.zeros(kernel.factor.dim), None, None, None), kernel.deepest)
    return checkpoints, trajectory.dynamic_multiplicative_expansion(integrate, _turning, kernel.max_depth)
