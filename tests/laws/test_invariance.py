"""With θ frozen, a sampler leaves the target's law unchanged.

Chains start from exact draws and make 20 iterations. If the law stands still, each moment's change along a chain has
mean zero: z = mean / (sd / √chains) is normal. Threshold 4.75 on nine moments of some 50 samplers: a false alarm
in 50 · 9 · 2·10⁻⁶ = 1 in 1,000 suites. With 100,000 chains a moment that drifts by 2 % of its change's standard
deviation is found with a chance of 95 % (4.75 + 1.65 = 6.4 standard errors of 0.32 %).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import gadabout as gad
from gadabout.proposals import Hamiltonian, Langevin, RandomWalk
from tests.laws import law_target
from tests.laws.registry import SAMPLERS, Shrinking, entry, every

CHAINS = 100_000
ITERATIONS = 20
THRESHOLD = 4.75


def largest_z(sampler):
    target = gad.Target(law_target.log_density)
    start_key, step_key = jax.random.split(jax.random.key(20_191))
    start = law_target.draws(start_key, CHAINS)

    @jax.jit
    def end(start):
        state = sampler.init(target, start)
        step = lambda state, key: sampler.step(key, state, target, adapt=False)
        state, record = jax.lax.scan(step, state, jax.random.split(step_key, ITERATIONS))
        return state.position, record["acceptance_rate"].mean()

    position, acceptance = end(start)
    assert 0.1 < acceptance < 0.995, "moves this small or large would hide a wrong acceptance ratio"
    change = law_target.moments(position) - law_target.moments(start)
    return float(jnp.max(jnp.abs(change.mean(0) / (change.std(0) / jnp.sqrt(CHAINS)))))


@every(SAMPLERS)
def test_law_stands_still(name):
    assert largest_z(entry(name)) < THRESHOLD


class NoReverseDrift(Langevin):
    """Bug: the Hastings correction is left out."""

    def move(self, noise, here, target):
        return super().move(noise, here, target)[0], 0.0


class HalfCorrection(Langevin):
    """Bug: the Hastings correction is a little too small."""

    def move(self, noise, here, target):
        there, log_q = super().move(noise, here, target)
        return there, 0.9 * log_q


class OneSidedLeapfrog(Hamiltonian):
    """Bug: the momentum's last half step is forgotten."""

    def move(self, noise, here, target):
        there, _ = super().move(noise, here, target)
        p = (there.x - here.x) / self.step_size
        return there, 0.5 * (noise @ noise - p @ p)


class Narrowing(Shrinking):
    """Bug: an asymmetric proposal that claims to be symmetric."""

    def move(self, noise, here, target):
        return super().move(noise, here, target)[0], 0.0


class Deaf(RandomWalk):
    """Bug: a tenth of the log density's difference is lost."""

    def move(self, noise, here, target):
        there, _ = super().move(noise, here, target)
        return there, 0.1 * (here.logp - there.logp)


@pytest.mark.parametrize(
    "proposal",
    [
        NoReverseDrift(gad.factors.Diagonal(0.8 * jnp.ones(3))),
        HalfCorrection(gad.factors.Diagonal(0.8 * jnp.ones(3))),
        OneSidedLeapfrog(gad.factors.Diagonal(jnp.ones(3)), jnp.asarray(0.7), 1),
        Narrowing(jnp.asarray(0.4), jnp.asarray(-0.3)),
        Deaf(gad.factors.Diagonal(0.8 * jnp.ones(3))),
    ],
    ids=lambda proposal: type(proposal).__name__,
)
def test_planted_bugs_are_found(proposal):
    sampler = eqx.tree_at(
        lambda s: s.make_kernel,
        gad.rwm(),
        lambda n, learned: gad.kernels.Metropolis(proposal),
        is_leaf=lambda x: x is None,
    )
    assert largest_z(sampler) > THRESHOLD
