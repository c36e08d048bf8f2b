"""A few leapfrog steps whose factor Algorithm 1 learns."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float

from gadabout.checks import check_whole
from gadabout.factors import AbstractFactor
from gadabout.factors.base import check_factor
from gadabout.proposals.base import AbstractReparametrised
from gadabout.proposals.integrators import Leapfrog
from gadabout.target import Point, Target


class Trajectory(AbstractReparametrised):
    r"""K leapfrog steps with mass matrix $(LL^\top)^{-1}$ from $p \sim N(0, I)$, of a length near 1 in units of L.

    One step of length 1 is the `Langevin` proposal. The length is uniform on $1 \pm j$, whatever x, so that no
    trajectory closes upon itself in every move. As the fast gadMALA does, gradients of the target along the way are
    constants to whoever differentiates in L; then $(y, p')$ is made of products with L alone, and the entropy
    $\log|\partial y/\partial p|$ is taken to be $\log|L|$: the curvature's part of it, which Hirt, Titsias &
    Dellaportas (2021, "Entropy-based adaptive Hamiltonian Monte Carlo") estimate by series, is left out. Both
    only bend what is learned: the acceptance ratio is exact.

    Args:
        factor: L.
        num_steps: K.
        jitter: j, in [0, 1).
    """

    factor: AbstractFactor
    num_steps: int = eqx.field(static=True, default=3)
    jitter: float = eqx.field(static=True, default=0.2)

    def __check_init__(self):
        check_factor(self.factor)
        check_whole("num_steps", self.num_steps)
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be in [0, 1), got {self.jitter}; 0.2 is typical")

    @property
    def order(self):
        return 1

    def noise(self, key, here):
        normal, uniform = jax.random.split(key)
        u = jax.random.uniform(uniform, dtype=here.x.dtype)
        return jax.random.normal(normal, here.x.shape, here.x.dtype), 1 + self.jitter * (2 * u - 1)

    def move(self, noise, here, target):
        return self._moved(noise, here, target)[:2]

    def entropy(self, here):
        return self.factor.log_det()

    def move_and_pullback(self, noise, here, target):
        there, log_q, gradients = self._moved(noise, here, target)
        momentum, h = noise
        before = jnp.concatenate([here.grad[None], gradients[:-1]])

        def held(factor):
            """log π(y) + log q and y, with every gradient of the target held."""

            def step(carry, pair):
                x, p = carry
                p = p + 0.5 * h * factor.tmul(pair[0])
                x = x + h * factor.mul(p)
                return (x, p + 0.5 * h * factor.tmul(pair[1])), None

            (y, p), _ = jax.lax.scan(step, (here.x, momentum), (before, gradients))
            return there.grad @ y - 0.5 * p @ p, y

        _, pull = jax.vjp(held, self.factor)
        return there, log_q, Partial(_pullback, self, pull)

    def record(self, noise, here, log_ratio):
        return {"n_steps": jnp.asarray(self.num_steps), "diverging": ~(log_ratio > -1000)}

    def gradient_evaluations(self, learning):
        return self.num_steps

    def _moved(self, noise: Any, here: Point, target: Target) -> tuple[Point, Array, Float[Array, "steps n"]]:
        """y, the log-ratio, and ∇ log π after each step."""
        momentum, h = noise

        def step(carry, _):
            there, p = Leapfrog().step(*carry, h, self.factor, target)
            return (there, p), there.grad

        (there, p), gradients = jax.lax.scan(step, (here, momentum), None, self.num_steps)
        return there, 0.5 * (momentum @ momentum - p @ p), gradients


def _pullback(proposal, pull, weight, direction=None):
    (factor,) = pull((weight, jnp.zeros(proposal.factor.dim) if direction is None else direction))
    return Trajectory(factor, proposal.num_steps, proposal.jitter)
