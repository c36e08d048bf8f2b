"""Integrators of Hamilton's equations: leapfrog, explicit Euler, and the exact flow of a Gaussian."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.target import Point, Target


class AbstractIntegrator(eqx.Module):
    r"""One step of size h of Hamilton's equations in coordinates whitened by a factor L.

    $\dot x = Lp$, $\dot p = L^\top\nabla\log\pi(x)$, with energy $H(x, p) = -\log\pi(x) + \tfrac12\|p\|^2$. The mass
    matrix is $M = (LL^\top)^{-1}$ and the momentum $L^{-\top}p$.
    """

    @abstractmethod
    def step(
        self, here: Point, p: Float[Array, " n"], step_size: Float[Array, ""], factor: AbstractFactor, target: Target
    ) -> tuple[Point, Float[Array, " n"]]:
        """The position with its gradient, and the momentum, after one step."""


class AbstractReversibleIntegrator(AbstractIntegrator):
    """An integrator that preserves volume, and returns to its starting point once the momentum is flipped.

    With both properties the log-ratio of a Metropolis move is exactly the difference of energies, for any target and
    any step size. A `Hamiltonian` proposal takes only such integrators.
    """


class Leapfrog(AbstractReversibleIntegrator):
    r"""Half a step of momentum, one of position, half a step of momentum (Neal 2011, equations 5.18 to 5.20):

    $p \leftarrow p + \tfrac h2 L^\top\nabla\log\pi(x)$, $x \leftarrow x + hLp$,
    $p \leftarrow p + \tfrac h2 L^\top\nabla\log\pi(x)$. One gradient a step; stable on a standard Gaussian for h < 2.
    """

    def step(self, here, p, step_size, factor, target):
        half = 0.5 * step_size
        p = p + half * factor.tmul(here.grad)
        there = target.at(here.x + step_size * factor.mul(p), 1)
        return there, p + half * factor.tmul(there.grad)


class Euler(AbstractIntegrator):
    r"""The explicit Euler step, both updates from the old state: $x' = x + hLp$, $p' = p + hL^\top\nabla\log\pi(x)$.

    Neither reversible nor volume-preserving: on a standard Gaussian every step multiplies energy and, for each
    coordinate, volume by $1 + h^2$. It is for comparison with `Leapfrog`; no proposal takes it.
    """

    def step(self, here, p, step_size, factor, target):
        there = target.at(here.x + step_size * factor.mul(p), 1)
        return there, p + step_size * factor.tmul(here.grad)


class GaussianFlow(AbstractReversibleIntegrator):
    r"""The exact flow of $N(m, LL^\top)$ over the time h, which other integrators approximate.

    $z = L^{-1}(x - m)$ and p rotate in their plane: $z' = z\cos h + p\sin h$, $p' = p\cos h - z\sin h$. A rotation
    preserves volume and is reversible, so that it is a valid proposal for any target. On its own Gaussian the energy
    does not change, and every move is accepted.
    """

    mean: Float[Array, " n"]

    def step(self, here, p, step_size, factor, target):
        z, cos, sin = factor.solve(here.x - self.mean), jnp.cos(step_size), jnp.sin(step_size)
        return target.at(self.mean + factor.mul(z * cos + p * sin), 1), p * cos - z * sin
