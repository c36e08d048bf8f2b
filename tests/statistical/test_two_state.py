r"""The two-state chain of the slides, which adapts itself into the wrong law (Andrieu & Moulines, "Toy example").

On {0, 1}, P_θ flips with probability θ: every P_θ has the uniform law. Chosen by the current state, θ(x), it has the
law (θ₂, θ₁)/(θ₁ + θ₂). Measured with 64 chains of 5,000 draws: the standard error comes from the chains' spread
(Student's t with 63 degrees of freedom: 4 is exceeded once in 6,000). With θ = (0.2, 0.6) it is below 0.002: a law that
is wrong by 0.012 is found with 97 %, and the uniform one lies a hundred standard errors away.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import AbstractAdaptation, ForEver

THETA = jnp.array([0.2, 0.6])
TARGET = gad.Target(lambda x: 0.0 * x.sum())


class Flip(gad.AbstractProposal):
    """x → 1 − x with probability θ: symmetric, so that the uniform law stands still for every θ."""

    theta: jax.Array

    def noise(self, key, here):
        return jax.random.uniform(key)

    def move(self, noise, here, target):
        return target.at(jnp.where(noise < self.theta, 1 - here.x, here.x)), 0.0


class ByTheState(AbstractAdaptation):
    """θ ← θ(x), the state that the chain is in now; if `vanishing`, by an ever smaller part of the way."""

    vanishing: bool = eqx.field(static=True, default=False)

    def init(self, kernel, states):
        return jnp.asarray(1.0)

    def observe(self, memory, kernel, transition):
        return transition.after.x[0], {}

    def update(self, memory, kernel, states, pooled):
        wanted = THETA[pooled.astype(int)]
        gain = memory**-0.7 if self.vanishing else 1.0
        theta = kernel.proposal.theta + gain * (wanted - kernel.proposal.theta)
        return eqx.tree_at(lambda k: k.proposal.theta, kernel, theta), memory + 1, states


def sampler(adaptation=None):
    make_kernel = lambda n, learned: gad.kernels.Metropolis(Flip(jnp.asarray(0.2)))
    return gad.Sampler("two-state", make_kernel, adaptation or ByTheState())


def share_of_ones(sampler, adapt, chains=64, draws=5_000):
    """Mean and standard error of x, each chain learning its own θ."""

    def chain(key):
        state = sampler.init(TARGET, jnp.zeros((1, 1)))
        step = lambda state, key: ((new := sampler.step(key, state, TARGET, adapt=adapt)[0]), new.position[0, 0])
        return jax.lax.scan(step, state, jax.random.split(key, draws))[1][500:].mean()

    means = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(11), chains)))
    return means.mean(), means.std(ddof=1) / np.sqrt(chains)


def test_a_theta_chosen_by_the_state_has_the_wrong_law():
    wrong = float(THETA[0] / THETA.sum())  # of state 1: θ₁ / (θ₁ + θ₂)
    mean, error = share_of_ones(sampler(), adapt=True)
    assert error < 0.002
    assert abs(mean - wrong) < 4 * error
    assert abs(mean - 0.5) > 50 * error


def test_frozen_it_has_the_right_law():
    mean, error = share_of_ones(sampler(), adapt=False)
    assert abs(mean - 0.5) < 4 * error


def test_with_vanishing_gains_it_comes_back_to_the_right_law():
    """The same rule with gains that diminish: θ settles, and the bias with it; what is left of it after 4,500 draws
    and 500 of warm-up is well below a tenth of the wrong law's."""
    mean, error = share_of_ones(sampler(ByTheState(vanishing=True)), adapt=True)
    assert abs(mean - 0.5) < 0.025 + 4 * error


def test_it_cannot_go_on_for_ever():
    with pytest.raises(ValueError, match="do not diminish"):
        sampler(ForEver(ByTheState()))
