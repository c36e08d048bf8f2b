"""Every sampler, one line each: a new one adds a line and inherits all laws.

The settings make moves as large as a well-adapted sampler's on the laws' target, so that a wrong acceptance ratio
shows in the moments.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import gadabout as gad
from gadabout.factors import Cholesky


class StudentWalk(gad.AbstractReparametrised):
    """A user's proposal: a random walk with Student-t steps and one learned scale per coordinate."""

    log_scale: jax.Array

    def noise(self, key, here):
        return jax.random.t(key, 5.0, here.x.shape)

    def move(self, noise, here, target):
        return target.at(here.x + jnp.exp(self.log_scale) * noise), 0.0

    def entropy(self, here):
        return self.log_scale.sum()


class Shrinking(gad.AbstractReparametrised):
    """An asymmetric, nonlinear user's proposal: y = x + s ε exp(−a tanh(x₀)), whose log-ratio is not zero."""

    a: jax.Array
    log_scale: jax.Array
    factor: Cholesky = eqx.field(default_factory=lambda: Cholesky(jnp.eye(3)))

    def width(self, x):
        return jnp.exp(self.log_scale - self.a * jnp.tanh(x[0]))

    def noise(self, key, here):
        return jax.random.normal(key, here.x.shape, here.x.dtype)

    def move(self, noise, here, target):
        there = target.at(here.x + self.width(here.x) * self.factor.mul(noise))
        ratio = self.width(here.x) / self.width(there.x)
        n = noise.size
        return there, n * jnp.log(ratio) - 0.5 * (ratio**2 - 1) * noise @ noise

    def entropy(self, here):
        return noise_entropy(self, here)


def noise_entropy(proposal, here):
    return here.x.size * jnp.log(proposal.width(here.x)) + proposal.factor.log_det()


SAMPLERS = {
    "rwm": gad.rwm(step_size=0.8),
    "mala": gad.mala(step_size=0.8),
    "hmc": gad.hmc(5, step_size=0.35),
    "hmc-1": gad.hmc(1, step_size=0.7),
    "am": gad.am(scale=2.0),
    "am-diagonal": gad.am(factor="diagonal", scale=2.0),
    "am-as-written": gad.am("as-written", scale=0.8),
    "gad-rwm": gad.gad_rwm(scale=0.8),
    "gad-rwm-diagonal": gad.gad_rwm("diagonal", scale=0.8),
    "gad-mala": gad.gad_mala(scale=0.8),
    "gad-mala-exact": gad.gad_mala("exact", scale=0.8),
    "gad-mala-diagonal": gad.gad_mala(factor="diagonal", scale=0.8),
    "gad-mala-adam": gad.gad_mala(scale=0.8, optimiser=optax.adam(1e-3)),
    "gad-user": gad.gad(StudentWalk(jnp.full(3, -0.3))),
    "gad-user-asymmetric": gad.gad(Shrinking(jnp.asarray(0.4), jnp.asarray(-0.3))),
}
