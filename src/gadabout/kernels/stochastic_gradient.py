"""Unadjusted moves along (estimated) gradients: never rejected, and so only approximately invariant."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from gadabout.kernels.base import AbstractKernel, Info
from gadabout.target import Point, Target


class Walker(eqx.Module):
    """A chain's state: its point, whose gradient the next move uses, the number of moves made, and kernel memory."""

    point: Point
    t: Int[Array, ""]
    memory: PyTree


class AbstractStochasticGradient(AbstractKernel):
    """A move by ε_t times the gradient, with noise in place of an accept–reject step.

    The gradient at a new position is computed on the batch of the iteration that moved there, and used in the next
    iteration. Each batch is thus used once, at a position that does not depend on it, as if it were drawn just before
    the move. `lp` is the log density of the stored position, estimated from that batch.
    """

    step_size: eqx.AbstractVar[Callable[[Any], Any]]
    """ε_t as a function of t = 1, 2, …, moves made since the start, warm-up included"""

    @property
    def order(self):
        return 1

    @abstractmethod
    def begin(self, point: Point, target: Target) -> PyTree:
        """The memory at the start."""

    @abstractmethod
    def move(
        self, key: Key[Array, ""], eps: Float[Array, ""], here: Point, memory: PyTree, target: Target
    ) -> tuple[Float[Array, " n"], PyTree]:
        """The next position and memory, from the gradient of `here`."""

    def init(self, x, target):
        point = target.at(x, 1)
        return Walker(point, jnp.asarray(0), self.begin(point, target))

    def step(self, key, state, target):
        t = state.t + 1
        eps = jnp.asarray(self.step_size(t), state.point.x.dtype)
        x, memory = self.move(key, eps, state.point, state.memory, target)
        there = target.at(x, 1)
        one, taken = jnp.ones((), x.dtype), jnp.asarray(True)
        statistics = {"step_size": eps, **self.record(memory)}
        return Walker(there, t, memory), Info(there.logp, one, taken, there.finite, statistics=statistics)

    def position(self, state):
        return state.point.x

    def record(self, memory: PyTree) -> dict[str, Array]:
        """The values of the memory to trace, by name."""
        return {}


class LangevinDynamics(AbstractStochasticGradient):
    r"""$\theta \leftarrow \theta + \tfrac{\epsilon_t}{2}\hat g(\theta) + N(0, \epsilon_t I)$."""

    step_size: Callable[[Any], Any]

    def begin(self, point, target):
        return None

    def move(self, key, eps, here, memory, target):
        return here.x + 0.5 * eps * here.grad + jnp.sqrt(eps) * _normal(key, here.x), None


class PreconditionedLangevin(AbstractStochasticGradient):
    r"""Langevin dynamics whose step in coordinate i is ε P_i, with P from a running mean V of squared gradients.

    $$V \leftarrow \alpha V + (1 - \alpha)\,\bar g^2,\quad P = 1/(\lambda + \sqrt V),\quad
    \theta \leftarrow \theta + \tfrac{\epsilon_t}{2}(P\hat g + \Gamma) + N(0, \epsilon_t P),$$

    $\bar g = \hat g/N$. With `drift`, $\Gamma_i = \partial P_i/\partial\theta_i
    = -(1-\alpha) P_i^2\,\bar g_i\,\partial_i\bar g_i / \sqrt{V_i}$, the diagonal of the Hessian estimated by
    $z \odot Hz$ with random signs z, on the batch of the next gradient. If `frozen`, V is fixed at `squares` and Γ is
    zero. With `freezes` this happens once draws are made, with V at its mean over chains.
    """

    step_size: Callable[[Any], Any]
    decay: Float[Array, ""]
    damping: Float[Array, ""]
    squares: Float[Array, " n"]
    frozen: Bool[Array, ""]
    drift: bool = eqx.field(static=True, default=False)
    freezes: bool = eqx.field(static=True, default=True)

    def begin(self, point, target):
        return (point.grad / target.num_rows) ** 2

    @property
    def settles(self):
        return self.freezes

    def settled(self, states):
        if not self.freezes:
            return self
        V = jnp.mean(states.memory, 0)
        return eqx.tree_at(lambda kernel: (kernel.squares, kernel.frozen), self, (V, jnp.asarray(True)))

    def move(self, key, eps, here, memory, target):
        noise_key, sign_key = jax.random.split(key)
        g = here.grad / target.num_rows
        V = jnp.where(self.frozen, self.squares, self.decay * memory + (1 - self.decay) * g**2)
        P = 1 / (self.damping + jnp.sqrt(V))
        ascent = P * here.grad
        if self.drift:
            z = jax.random.rademacher(sign_key, here.x.shape, here.x.dtype)
            curvature = z * jax.jvp(jax.grad(target.log_density), (here.x,), (z,))[1] / target.num_rows
            gamma = -(1 - self.decay) * P**2 * g * curvature / jnp.sqrt(jnp.where(V > 0, V, 1))
            ascent = ascent + jnp.where(self.frozen | (V == 0), 0, gamma)
        return here.x + 0.5 * eps * ascent + jnp.sqrt(eps * P) * _normal(noise_key, here.x), V


class StochasticHamiltonian(AbstractStochasticGradient):
    r"""$v \leftarrow v + \epsilon_t\hat g(\theta) - \alpha v + N(0, 2(\alpha - \hat\beta)\epsilon_t I)$, then
    $\theta \leftarrow \theta + v$.
    """

    step_size: Callable[[Any], Any]
    friction: Float[Array, ""]
    noise_estimate: Float[Array, ""]

    def begin(self, point, target):
        return jnp.zeros_like(point.x)

    def move(self, key, eps, here, memory, target):
        scale = jnp.sqrt(2 * (self.friction - self.noise_estimate) * eps)
        v = (1 - self.friction) * memory + eps * here.grad + scale * _normal(key, here.x)
        return here.x + v, v


class NoseHooverThermostat(AbstractStochasticGradient):
    r"""$v \leftarrow v + \epsilon_t\hat g(\theta) - \xi v + N(0, 2a\epsilon_t I)$, $\theta \leftarrow \theta + v$,
    $\xi \leftarrow \xi + v^\top v/n - \epsilon_t$, from $\xi = a$.
    """

    step_size: Callable[[Any], Any]
    friction: Float[Array, ""]

    def begin(self, point, target):
        return jnp.zeros_like(point.x), jnp.asarray(self.friction, point.x.dtype)

    def move(self, key, eps, here, memory, target):
        v, xi = memory
        v = (1 - xi) * v + eps * here.grad + jnp.sqrt(2 * self.friction * eps) * _normal(key, here.x)
        return here.x + v, (v, xi + jnp.mean(v**2) - eps)

    def record(self, memory):
        return {"friction": memory[1]}


def _normal(key: Key[Array, ""], x: Float[Array, " n"]) -> Float[Array, " n"]:
    return jax.random.normal(key, x.shape, x.dtype)
