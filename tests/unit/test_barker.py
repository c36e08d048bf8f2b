"""The Barker proposal against its density written out, detailed balance, and its sturdiness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.proposals import Barker
from gadabout.proposals.barker import BarkerNoise

ONE = gad.factors.Diagonal(jnp.asarray([0.7]))
TWO = gad.factors.Cholesky(jnp.asarray([[0.8, 0.0], [-0.5, 0.6]]))


def log_density(x):
    """Skew and light-tailed, in any dimension."""
    return -0.25 * jnp.sum(x**4) + 0.5 * x[0] - 0.4 * x[0] * x[-1]


TARGET = gad.Target(log_density)


def density(y, x, factor):
    """q(y|x) = |L|⁻¹ Π 2 φ(ζ_i) / (1 + exp(−c_i ζ_i)), ζ = L⁻¹(y − x), c = Lᵀ ∇ log π(x)."""
    zeta, c = factor.solve(y - x), factor.tmul(jax.grad(log_density)(x))
    normal = jnp.exp(-0.5 * zeta**2) / jnp.sqrt(2 * jnp.pi)
    return jnp.prod(2 * normal / (1 + jnp.exp(-c * zeta))) * jnp.exp(-factor.log_det())


def start(proposal, x):
    return gad.kernels.Metropolis(proposal).init(x, TARGET)


@pytest.mark.parametrize("factor", [ONE, TWO], ids=["1-D", "2-D"])
def test_the_density_integrates_to_one(factor):
    n = factor.dim
    x, grid = 0.6 * jnp.ones(n), jnp.linspace(-8, 8, 401)
    points = jnp.stack(jnp.meshgrid(*[grid] * n), -1).reshape(-1, n)
    total = jax.vmap(lambda y: density(y, x, factor))(points).sum() * (grid[1] - grid[0]) ** n
    np.testing.assert_allclose(total, 1, rtol=1e-9)


@pytest.mark.parametrize("factor", [ONE, TWO], ids=["1-D", "2-D"])
def test_the_log_ratio_is_that_of_the_densities(factor):
    proposal, n = Barker(factor), factor.dim

    def one(key):
        x_key, noise_key = jax.random.split(key)
        here = start(proposal, jax.random.normal(x_key, (n,)))
        noise = proposal.noise(noise_key, here)
        there, log_q = proposal.move(noise, here, TARGET)
        expected = jnp.log(density(here.x, there.x, factor)) - jnp.log(density(there.x, here.x, factor))
        cache = factor.tmul(jax.grad(log_density)(there.x))
        return noise.z, factor.solve(there.x - here.x), (log_q, there.cache), (expected, cache)

    z, zeta, found, expected = jax.vmap(one)(jax.random.split(jax.random.key(0), 200))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11), found, expected)
    np.testing.assert_allclose(jnp.abs(zeta), jnp.abs(z), rtol=1e-7)
    assert 0.25 < np.mean(np.sign(zeta) != np.sign(z)) < 0.75  # a half on average, z being symmetric


def frequencies(proposal, count=400_000):
    """Relative frequencies of proposals from one point in 24 cells of a line, and the density's, by its integral."""
    x, edges = jnp.asarray([0.9]), jnp.linspace(-3, 3, 25)
    here = start(proposal, x)
    keys = jax.random.split(jax.random.key(8), count)
    y = jax.vmap(lambda key: proposal.move(proposal.noise(key, here), here, TARGET)[0].x[0])(keys)
    seen = np.histogram(y - x[0], edges)[0]
    fine = jnp.linspace(-3, 3, 24 * 200 + 1)
    fine = (fine[1:] + fine[:-1]) / 2
    mass = jax.vmap(lambda step: density(x + step, x, ONE))(fine[:, None]).reshape(24, 200).sum(1) * (6 / 4800)
    return (seen - count * mass) / jnp.sqrt(count * mass * (1 - mass))


def test_proposals_follow_the_density():
    """24 cells, each within 5.5 standard errors: a false alarm in a million; 6 % in a cell of 5 % is found."""
    assert jnp.abs(frequencies(Barker(ONE))).max() < 5.5


class Unflipped(Barker):
    """Bug: signs are flipped with a gradient that is 10 % too small."""

    def move(self, noise, here, target):
        z, c = noise.z, 0.9 * here.cache
        sign = jnp.where(noise.uniform < jax.nn.sigmoid(-c * z), -1, 1)
        return super().move(BarkerNoise(sign * z, jnp.ones_like(z)), here, target)


def test_a_planted_bug_in_the_signs_is_found():
    assert jnp.abs(frequencies(Unflipped(ONE))).max() > 5.5


def test_detailed_balance():
    """π(x) q(y|x) α(x, y) = π(y) q(x|y) α(y, x), with α from the kernel's own log-ratio, both ways."""
    proposal = Barker(TWO)

    @jax.vmap
    def flow(x, zeta):
        here = start(proposal, x)
        there, log_q = proposal.move(BarkerNoise(zeta, jnp.ones(2)), here, TARGET)  # uniform 1: nothing is flipped
        alpha = jnp.exp(jnp.minimum(0, there.logp - here.logp + log_q))
        return there.x, jnp.exp(here.logp) * density(there.x, x, TWO) * alpha

    x, z = jax.random.normal(jax.random.key(0), (2, 50, 2))
    y, forward = flow(x, z)
    again, backward = flow(y, -z)
    np.testing.assert_allclose(again, x, atol=1e-12)
    np.testing.assert_allclose(forward, backward, rtol=1e-9)


@pytest.mark.parametrize(("recipe", "leaves"), [(gad.barker, True), (gad.mala, False)], ids=["barker", "mala"])
def test_a_step_far_too_large_sticks_mala_and_not_barker(recipe, leaves):
    """Standard deviations 1 and 0.05, a step of 0.5 in both, from two standard deviations out: MALA's drift throws it
    to x₁ = −4.8 ± 0.5, so that no move in 200 iterations of 50 chains is all there can be seen; Barker's walks back."""
    sampler = recipe(step_size=0.5)
    target = gad.Target(lambda x: -0.5 * jnp.sum((x / jnp.asarray([1.0, 0.05])) ** 2))
    state = sampler.init(target, jnp.tile(jnp.asarray([0.0, 0.1]), (50, 1)))

    @jax.jit
    def end(state):
        step = lambda state, key: sampler.step(key, state, target, adapt=False)
        return jax.lax.scan(step, state, jax.random.split(jax.random.key(1), 200))[0].position

    moved = jnp.any(end(state) != state.position, -1)
    assert moved.all() if leaves else not moved.any()


def test_gradients_too_large_for_floats_are_no_poison():
    """Far out the signs are certain and the logarithms stay finite."""
    proposal = Barker(ONE)
    here = start(proposal, jnp.asarray([1e60]))
    there, log_q = proposal.move(BarkerNoise(jnp.asarray([1.0]), jnp.asarray([0.5])), here, TARGET)
    assert there.x[0] <= here.x[0]
    assert not jnp.isnan(log_q)
