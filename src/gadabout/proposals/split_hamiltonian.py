"""Hamiltonian proposals that turn about a Gaussian known to be near the target: split Hamiltonian Monte Carlo."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.proposals.base import AbstractProposal
from gadabout.proposals.distributions import normals, uniforms
from gadabout.target import Point

QUARTER = 0.5 * math.pi
"""the turn after which a trajectory on N(m, L Lᵀ) has forgotten where it began"""
SHORTEST = 0.6
"""the smallest turn of a trajectory, as a share of the largest"""


class Whitened(NamedTuple):
    """What is kept of a point: z = L⁻¹(x − m), and the residual r = Lᵀ∇log π(x) + z, which is 0 on the Gaussian."""

    z: Float[Array, " n"]
    residual: Float[Array, " n"]


class Turn(NamedTuple):
    """The momentum, and a uniform on [0, 1) for the length of the trajectory."""

    momentum: Float[Array, " n"]
    for_length: Float[Array, ""]


class SplitHamiltonian(AbstractProposal):
    r"""Trajectories that are exact on $N(m, LL^\top)$ and kicked by what the target differs from it.

    In coordinates $z = L^{-1}(x - m)$ the energy is split into that of the Gaussian, whose flow is a rotation, and the
    rest, whose gradient is minus the residual $r(z) = L^\top\nabla\log\pi(x) + z$ (Shahbaba, Lan, Johnson & Neal 2014):
    $$p \leftarrow p + \tfrac h2 r(z),\quad (z, p) \leftarrow (z\cos h + p\sin h,\; p\cos h - z\sin h),\quad
    p \leftarrow p + \tfrac h2 r(z).$$
    Each part preserves volume and is reversible, so that the log-ratio is the change of $\tfrac12\|p\|^2$ beside that
    of $\log\pi$. A trajectory turns by an angle uniform on (0.6, 1) · π/2, in as many equal steps for all chains as a
    step of at most `step_size` radians makes necessary, at most `max_steps`, beyond which it turns by less. Steps carry
    z, so that there is no triangular solve among them.
    """

    mean: Float[Array, " n"]
    factor: AbstractFactor
    step_size: Float[Array, ""]
    max_steps: int = eqx.field(static=True, default=32)

    @property
    def order(self):
        return 1

    def noise(self, key, here):
        v = uniforms(key, here.x.size + 1, here.x.dtype)
        return Turn(normals(v[:-1]), 0.5 + 0.5 * v[-1])

    def cache(self, here):
        z = self.factor.solve(here.x - self.mean)
        return Whitened(z, self.factor.tmul(here.grad) + z)

    @property
    def cached_by(self):
        return self.mean, self.factor

    def whitened(self, here: Point) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """z, and the gradient Lᵀ∇log π(x) with respect to it, from the cache."""
        return here.cache.z, here.cache.residual - here.cache.z

    def move(self, noise, here, target):
        N = self._steps()
        h = (SHORTEST + (1 - SHORTEST) * noise.for_length) * jnp.minimum(QUARTER / N, self.step_size)
        cos, sin = jnp.cos(h), jnp.sin(h)

        def step(z, p, residual):
            p = p + 0.5 * h * residual
            z, p = z * cos + p * sin, p * cos - z * sin
            there = target.at(self.mean + self.factor.mul(z), 1)
            residual = self.factor.tmul(there.grad) + z
            return there, (z, p + 0.5 * h * residual, residual)

        begin = here.cache.z, noise.momentum, here.cache.residual
        on_the_way = jax.lax.fori_loop(0, N - 1, lambda _, at: step(*at)[1], begin)  # gradients alone: log π is dropped
        there, (z, p, residual) = step(*on_the_way)
        cache = Whitened(z, residual)
        return Point(there.x, there.logp, there.grad, cache), 0.5 * (noise.momentum @ noise.momentum - p @ p)

    def record(self, noise, here, log_ratio):
        steps = self._steps()
        return {
            "diverging": ~(log_ratio > -1000),
            "energy": 0.5 * noise.momentum @ noise.momentum - here.logp,
            "n_steps": steps,
            "gradient_evaluations": steps,
            "step_size": self.step_size,
        }

    def _steps(self):
        return jnp.clip(jnp.ceil(QUARTER / self.step_size), 1, self.max_steps).astype(int)
