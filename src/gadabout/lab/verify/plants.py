"""Contexts, each of which plants a bug for the length of a block."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import jax.numpy as jnp
import numpy as np

from gadabout.adaptations import Haario
from gadabout.driver import Checkpoint, loop
from gadabout.ensemble import halving
from gadabout.ensemble.nuts import Nuts
from gadabout.ensemble.split_hmc import SplitHMC
from gadabout.ensemble.tails import ScaleMixture
from gadabout.kernels import Metropolis, metropolis
from gadabout.lab.verify.exact import GAUSSIAN
from gadabout.programs import forget
from gadabout.proposals import RandomWalk
from gadabout.proposals.integrators import Leapfrog
from gadabout.target import Point, Target


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Gives an attribute another value; programs compiled with one value are not used with the other."""
    forget()
    try:
        with mock.patch.object(owner, name, value):
            yield
    finally:
        forget()


def no_correction(proposal):
    """A proposal without its correction of the acceptance ratio, as if it were symmetric."""
    move = proposal.move
    return patched(proposal, "move", lambda self, *arguments: (move(self, *arguments)[0], 0.0))


def warm():
    """Acceptance at a temperature of 1.02."""
    judge = metropolis.accept
    return patched(metropolis, "accept", lambda wait, log_ratio, finite: judge(wait, log_ratio / 1.02, finite))


def stale_gradient():
    """The gradient at the proposed point, whether or not it was accepted."""
    step = Metropolis.step

    def stale(self, key, state, target):
        after, info = step(self, key, state, target)
        return Point(after.x, after.logp, info.proposed.grad, info.proposed.cache), info

    return patched(Metropolis, "step", stale)


def reused_key():
    """One key for the noise and for accepting."""

    def step(self, key, state, target):
        noise = self.proposal.noise(key, state)
        there, log_q = self.proposal.move(noise, state, target)
        return self._judged(key, noise, state, there, log_q, None)

    return patched(Metropolis, "step", step)


def half_a_leapfrog():
    """The leapfrog without its last half step."""

    def step(self, here, p, step_size, factor, target):
        p = p + 0.5 * step_size * factor.tmul(here.grad)
        return target.at(here.x + step_size * factor.mul(p), 1), p

    return patched(Leapfrog, "step", step)


def off_by_one():
    """Gains that are one update ahead."""
    update = Haario.update

    def late(self, memory, kernel, states, pooled):
        ahead = type(memory)(memory.mean, memory.covariance, memory.count + 1)
        kernel, after, states = update(self, ahead, kernel, states, pooled)
        return kernel, type(memory)(after.mean, after.covariance, memory.count + 1), states

    return patched(Haario, "update", late)


def entropy_upside_down():
    """The entropy with the wrong sign."""
    entropy = RandomWalk.entropy
    return patched(RandomWalk, "entropy", lambda self, here: -entropy(self, here))


def one_key_for_all():
    """The first chain's key for all chains."""
    keys = loop._keys
    return patched(loop, "_keys", lambda run, t: jnp.broadcast_to(keys(run, t)[:, :1], run.chain_keys.shape))


def mixed_up_chains():
    """Chains that are shifted by one place after a run resumes."""
    progress = Checkpoint.progress

    def mixed(self, like):
        arrays = {
            name: np.roll(array, 1, 1) if name.startswith(".pools.chains") else array
            for name, array in self.arrays.items()
        }
        return progress(replace(self, arrays=arrays), like)

    return patched(Checkpoint, "progress", mixed)


def stale_block():
    """A block that is conditional on the mean of the other coordinates, not on their values."""
    conditional = Target.conditional
    return patched(
        Target, "conditional", lambda self, x, indices: conditional(self, jnp.asarray(GAUSSIAN.mean), indices)
    )


def wrong_half_turn():
    """Half-turns whose normals are multiplied by 0.8."""
    half_turn = ScaleMixture.half_turn
    return patched(ScaleMixture, "half_turn", staticmethod(lambda normal: 0.8 * half_turn(normal)))


def no_odds_of_halvings():
    """Strides of halved steps without the odds of the reverse stride in their weight."""
    return patched(halving, "log_odds", lambda forth, back: np.zeros_like(forth))


def even_weights_of_a_tree():
    """Weights of the states of a tree that are too even: their logarithms are multiplied by 0.7."""
    return patched(Nuts, "_log_weight", lambda self, change: 0.7 * change)


def no_last_kick():
    """Split HMC without the last half kick of its momentum."""
    trajectory = SplitHMC.trajectory

    def early(self, state, momentum, *rest):
        there, p = trajectory(self, state, momentum, *rest)
        return there, p - 0.5 * self.step_size * there["residual"]

    return patched(SplitHMC, "trajectory", early)


def generator_begun_anew():
    """A generator that restarts when a run resumes."""
    nested = Checkpoint.nested
    return patched(Checkpoint, "nested", lambda self: nested(self) | {"rng": np.random.Philox(0).state})
