"""Integrators side by side, the Hamiltonian proposal against its textbook form, MALA, and random trajectories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.proposals import Euler, GaussianFlow, JitteredHamiltonian, Leapfrog
from tests.laws import law_target

GAUSSIAN = gad.Target(lambda x: -0.5 * x @ x)
CURVED = gad.Target(law_target.log_density)
L = gad.factors.Cholesky(jnp.asarray([[0.8, 0, 0], [0.3, 0.5, 0], [-0.2, 0.1, 0.6]]))
X, P = jnp.asarray([0.4, -0.3, 0.7]), jnp.asarray([0.5, -1.1, 0.2])


def flow(integrator, step_size, steps, target, factor):
    """(x, p), flat, after some steps from (x, p)."""

    def run(xp):
        x, p = jnp.split(xp, 2)
        here = target.at(x, 2)  # the Jacobian goes through the gradient

        def step(state, _):
            here, p = integrator.step(*state, step_size, factor, target)
            return (target.at(here.x, 2), p), None

        (here, p), _ = jax.lax.scan(step, (here, p), length=steps)
        return jnp.concatenate([here.x, p])

    return jax.jit(run)


def energy(xp):
    return 0.5 * xp @ xp


def back(run, xp):
    """Where the map leads from its own end once the momentum is flipped, with the momentum flipped again."""
    flip = lambda xp: xp * jnp.repeat(jnp.asarray([1, -1]), xp.size // 2)
    return flip(run(flip(run(xp))))


ONE = gad.factors.Diagonal(jnp.ones(1))
START = jnp.asarray([1.0, 0.5])


@pytest.mark.parametrize("step_size", [0.3, 1.2])
def test_leapfrog_on_the_lectures_gaussian(step_size):
    """p² + (1 − h²/4) x² is conserved, so that the energy errs by h²/8 (x_t² − x₀²), bounded for ever; volume 1."""
    for steps in (1, 7, 40):
        run = flow(Leapfrog(), step_size, steps, GAUSSIAN, ONE)
        end = run(START)
        error = step_size**2 / 8 * (end[0] ** 2 - START[0] ** 2)
        np.testing.assert_allclose(energy(end) - energy(START), error, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(jnp.linalg.det(jax.jacobian(run)(START)), 1, rtol=1e-10)
        np.testing.assert_allclose(back(run, START), START, atol=1e-10)


def test_euler_on_the_lectures_gaussian():
    """Energy and volume grow by 1 + h² a step, and the way back misses the start."""
    for steps in (1, 7, 40):
        run, growth = flow(Euler(), 0.3, steps, GAUSSIAN, ONE), 1.09**steps
        np.testing.assert_allclose(energy(run(START)), growth * energy(START), rtol=1e-12)
        np.testing.assert_allclose(jnp.linalg.det(jax.jacobian(run)(START)), growth, rtol=1e-10)
        np.testing.assert_allclose(back(run, START), growth * START, rtol=1e-10)


@pytest.mark.parametrize("step_size", [0.3, 1.2])
def test_the_exact_flow_is_the_ideal(step_size):
    """It keeps the energy and turns with period 2π; leapfrog approaches it as h², Euler as h."""
    run = flow(GaussianFlow(jnp.zeros(1)), step_size, 5, GAUSSIAN, ONE)
    x, p = START
    time = 5 * step_size
    np.testing.assert_allclose(
        run(START), [x * np.cos(time) + p * np.sin(time), p * np.cos(time) - x * np.sin(time)], rtol=1e-12
    )
    np.testing.assert_allclose(energy(run(START)), energy(START), rtol=1e-12)
    ideal = flow(GaussianFlow(jnp.zeros(1)), 1.0, 1, GAUSSIAN, ONE)(START)
    for integrator, ratio in ((Leapfrog(), 4), (Euler(), 2)):
        miss = [jnp.linalg.norm(flow(integrator, 1 / n, n, GAUSSIAN, ONE)(START) - ideal) for n in (64, 128)]
        np.testing.assert_allclose(miss[0] / miss[1], ratio, rtol=0.02)


@pytest.mark.parametrize("integrator", [Leapfrog(), GaussianFlow(0.3 * jnp.ones(3))], ids=lambda i: type(i).__name__)
def test_what_a_proposal_may_use_is_reversible_and_keeps_volume(integrator):
    """On a curved target, in coordinates whitened by a dense factor, far from small steps."""
    run, start = flow(integrator, 0.35, 4, CURVED, L), jnp.concatenate([X, P])
    np.testing.assert_allclose(jnp.linalg.det(jax.jacobian(run)(start)), 1, rtol=1e-10)
    np.testing.assert_allclose(back(run, start), start, atol=1e-10)


def test_euler_is_neither_and_is_refused():
    run, start = flow(Euler(), 0.35, 4, CURVED, L), jnp.concatenate([X, P])
    assert jnp.abs(jnp.linalg.det(jax.jacobian(run)(start)) - 1) > 0.1
    assert jnp.abs(back(run, start) - start).max() > 0.1
    with pytest.raises(TypeError, match="reversible"):
        gad.proposals.Hamiltonian(L, jnp.asarray(0.3), 5, Euler())  # pyright: ignore[reportArgumentType]


def test_the_factor_is_a_mass_matrix():
    """The textbook's leapfrog with M = Σ⁻¹ and p ~ N(0, M), Σ = L Lᵀ, makes the same moves and ratio."""
    h, steps, Sigma = 0.3, 6, L.matrix @ L.matrix.T
    M = jnp.linalg.inv(Sigma)
    x, p = X, jnp.linalg.solve(L.matrix.T, P)
    gradient = jax.grad(law_target.log_density)
    kinetic = [0.5 * p @ Sigma @ p]
    for _ in range(steps):
        p = p + 0.5 * h * gradient(x)
        x = x + h * jnp.linalg.solve(M, p)
        p = p + 0.5 * h * gradient(x)
    kinetic.append(0.5 * p @ Sigma @ p)
    there, log_q = gad.proposals.Hamiltonian(L, jnp.asarray(h), steps).move(P, CURVED.at(X, 1), CURVED)
    np.testing.assert_allclose(there.x, x, rtol=1e-10)
    np.testing.assert_allclose(log_q, kinetic[0] - kinetic[1], rtol=1e-10)


@pytest.mark.parametrize("h", [0.2, 0.9])
def test_mala_is_hmc_with_one_step(h):
    hmc, mala = (
        gad.proposals.Hamiltonian(L, jnp.asarray(h), 1),
        gad.proposals.Langevin(gad.factors.Scaled(jnp.asarray(h), L)),
    )
    here = CURVED.at(X, 1)
    one, one_ratio = hmc.move(P, here, CURVED)
    other, other_ratio = mala.move(P, gad.Point(here.x, here.logp, here.grad, mala.cache(here)), CURVED)
    np.testing.assert_allclose(one.x, other.x, rtol=1e-13)
    np.testing.assert_allclose(one_ratio, other_ratio, rtol=1e-11)


def test_the_exact_flow_is_always_accepted_on_its_gaussian():
    mean = jnp.asarray([1.0, -2.0, 0.5])
    target = gad.Target(lambda x: -0.5 * jnp.sum(L.solve(x - mean) ** 2))
    kernel = gad.kernels.Metropolis(gad.proposals.Hamiltonian(L, jnp.asarray(0.7), 2, GaussianFlow(mean)))
    _, info = jax.vmap(lambda k: kernel.step(k, kernel.init(X, target), target))(
        jax.random.split(jax.random.key(0), 99)
    )
    np.testing.assert_allclose(info.log_ratio, 0, atol=1e-11)


def jittered(step_jitter=0.4, steps_jitter=3, num_steps=5):
    return gad.hmc(num_steps, step_size=0.2, step_jitter=step_jitter, steps_jitter=steps_jitter).kernel(3)


def test_a_drawn_trajectory_is_the_plain_one_of_that_length():
    """Also under vmap, where every chain has a trip count of its own."""
    proposal = jittered().proposal
    assert isinstance(proposal, JitteredHamiltonian)
    here = CURVED.at(X, 1)
    noise = jax.vmap(lambda key: proposal.noise(key, here))(jax.random.split(jax.random.key(1), 12))
    there, log_q = jax.vmap(lambda noise: proposal.move(noise, here, CURVED))(noise)
    record = jax.vmap(lambda noise, log_q: proposal.record(noise, here, log_q))(noise, log_q)
    assert len(np.unique(record["n_steps"])) > 3
    for i, steps in enumerate(record["n_steps"]):
        size = 0.2 * (1 + 0.4 * (2 * noise.for_size[i] - 1))
        plain = gad.proposals.Hamiltonian(proposal.base.factor, size, int(steps))
        expected, expected_ratio = plain.move(noise.momentum[i], here, CURVED)
        np.testing.assert_allclose(there.x[i], expected.x, rtol=1e-12)
        np.testing.assert_allclose(log_q[i], expected_ratio, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(record["trajectory_length"][i], steps * size, rtol=1e-14)


def test_sizes_and_numbers_of_steps_are_uniform():
    """χ² with 6 degrees of freedom below 38 and Kolmogorov's distance below 2.5/√N: each errs once in a million;
    a number of steps left out, or twice as frequent as the others, is always found."""
    proposal, N = jittered().proposal, 20_000
    noise = jax.vmap(lambda key: proposal.noise(key, CURVED.at(X, 1)))(jax.random.split(jax.random.key(2), N))
    record = jax.vmap(lambda noise: proposal.record(noise, CURVED.at(X, 1), jnp.zeros(())))(noise)
    seen = np.bincount(np.asarray(record["n_steps"]), minlength=9)
    assert seen[:2].sum() == 0
    assert seen[9:].sum() == 0
    assert np.sum((seen[2:] - N / 7) ** 2 / (N / 7)) < 38
    size = np.sort(np.asarray(record["trajectory_length"] / record["n_steps"]))
    assert 0.12 <= size[0] < size[-1] <= 0.28
    assert np.abs((size - 0.12) / 0.16 - np.arange(N) / N).max() < 2.5 / np.sqrt(N)
    assert abs(np.corrcoef(noise.for_size, noise.for_steps)[0, 1]) < 5 / np.sqrt(N)


def test_gradient_evaluations_are_those_made():
    sampler = gad.hmc(5, step_size=0.2, steps_jitter=3)
    settings = {"num_warmup": 40, "num_draws": 60, "num_chains": 3, "progress": False}
    tree = gad.sample(law_target.log_density, jnp.zeros(3), sampler=sampler, **settings)
    made = [tree[group]["n_steps"].values for group in ("sample_stats", "warmup_sample_stats")]
    assert tree.attrs["gradient_evaluations"] == sum(int(steps.sum()) for steps in made)
    assert (made[0] != made[0][:, :1]).any()
    assert (made[0][0] != made[0][1]).any()


def test_jitter_breaks_the_resonance():
    """A trajectory of one period ends where it began; drawn lengths go elsewhere."""
    steps = 20
    period = 2 * np.sin(np.pi / steps)  # leapfrog turns by arccos(1 − h²/2) a step
    moved = {}
    for jitter in (0, 10):
        kernel = gad.hmc(steps, step_size=period, steps_jitter=jitter).kernel(3)
        step = lambda key, kernel=kernel: kernel.step(key, kernel.init(X, GAUSSIAN), GAUSSIAN)[0].x
        moved[jitter] = jnp.abs(jax.vmap(step)(jax.random.split(jax.random.key(0), 200)) - X).mean()
    assert moved[0] < 1e-9
    assert moved[10] > 0.3


def test_nothing_drawn_leaves_the_fixed_trajectory_as_it_was():
    kernel = gad.hmc(7, step_jitter=0.0).kernel(3)
    assert type(kernel.proposal) is gad.proposals.Hamiltonian
    key = jax.random.key(3)
    np.testing.assert_array_equal(kernel.proposal.noise(key, CURVED.at(X, 1)), jax.random.normal(key, (3,)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_jitter": 1.0}, "step_jitter"),
        ({"step_jitter": -0.1}, "step_jitter"),
        ({"steps_jitter": 10}, "from 0 to num_steps - 1 = 9"),
        ({"steps_jitter": 0.5}, "steps_jitter"),
        ({"step_size_rule": "newton"}, "step_size_rule"),
        ({"inverse_mass_matrix": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
        ({"inverse_mass_matrix": [1.0, 0.0]}, "positive definite"),
        ({"inverse_mass_matrix": [[np.nan, 0.0], [0.0, 1.0]]}, "positive definite"),
        ({"inverse_mass_matrix": [[1.0, 0.5], [0.0, 1.0]]}, "positive definite"),
        ({"inverse_mass_matrix": 2.0}, "positive definite"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        gad.hmc(10, **settings)


def test_a_mass_matrix_of_another_size():
    with pytest.raises(ValueError, match="2 coordinates, the position has 3"):
        gad.hmc(inverse_mass_matrix=np.eye(2)).kernel(3)
