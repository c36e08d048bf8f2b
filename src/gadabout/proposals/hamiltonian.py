"""The Hamiltonian proposal: a leapfrog trajectory of fixed length."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors import AbstractFactor
from gadabout.proposals.base import AbstractProposal


class Hamiltonian(AbstractProposal):
    r"""`num_steps` leapfrog steps of size h through coordinates whitened by a factor, mass matrix $(LL^\top)^{-1}$.

    With momentum $p \sim N(0, I)$, each step is $p \leftarrow p + \tfrac h2 L^\top\nabla\log\pi(x)$,
    $x \leftarrow x + hLp$, $p \leftarrow p + \tfrac h2 L^\top\nabla\log\pi(x)$ (Neal 2011, equations 5.18 to 5.20,
    in these coordinates). The map preserves volume and is its own inverse once the momentum is flipped, hence the
    log-ratio $\tfrac12\|p_0\|^2 - \tfrac12\|p\|^2$. A trajectory whose energy grows by more than 1000 is marked as
    diverging.
    """

    factor: AbstractFactor
    step_size: Float[Array, ""]
    num_steps: int = eqx.field(static=True, default=10)

    @property
    def order(self):
        return 1

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def move(self, noise, here, target):
        half = 0.5 * self.step_size

        def leapfrog(_, state):
            there, p = state
            p = p + half * self.factor.tmul(there.grad)
            there = target.at(there.x + self.step_size * self.factor.mul(p), 1)
            return there, p + half * self.factor.tmul(there.grad)

        there, p = jax.lax.fori_loop(0, self.num_steps, leapfrog, (here, noise))
        return there, 0.5 * (noise @ noise - p @ p)

    def record(self, noise, here, log_ratio):
        return {
            "diverging": ~(log_ratio > -1000),
            "energy": 0.5 * noise @ noise - here.logp,
            "n_steps": jnp.asarray(self.num_steps),
            "step_size": self.step_size,
        }

    def gradient_evaluations(self, learning):
        return self.num_steps
