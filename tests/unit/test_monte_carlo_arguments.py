"""What Monte Carlo is asked with: seeds, models and positions in the form of `sample`, and the moves of SMC."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout import monte_carlo as mc
from gadabout.schedule import plan_of

DATA = jnp.array([0.5, -0.3, 1.2])
POSITION = {"level": jnp.zeros(()), "slopes": jnp.zeros((2, 1))}
Q = gad.proposals.Gaussian(jnp.array([0.2, 0.1, -0.1]), gad.factors.Diagonal(jnp.full(3, 1.2)))
ENVELOPE = 4.0
TRUTH = gad.proposals.Gaussian(jnp.zeros(3), gad.factors.Diagonal(jnp.ones(3)))


def by_name(position, data):
    return -0.5 * (position["level"] ** 2 + jnp.sum((position["slopes"] - data[:2, None]) ** 2))


def flat(x, data):
    return -0.5 * (x[0] ** 2 + jnp.sum((x[1:] - data[:2]) ** 2))


MODEL = gad.Model(by_name, POSITION, data=DATA)
CALLS = {
    "importance": lambda model, **more: mc.importance(model, Q, num_draws=200, **more),
    "rejection": lambda model, **more: mc.rejection(model, Q, log_envelope=ENVELOPE, num_draws=50, **more),
    "smc": lambda model, **more: mc.smc(model, Q, num_particles=50, **more),
    "elbo": lambda model, **more: mc.elbo(model, Q, num_draws=50, **more),
    "fit_gaussian": lambda model, **more: mc.fit_gaussian(model, Q, num_steps=100, **more),
}


@pytest.mark.parametrize("name", ["importance", "rejection", "smc"])
def test_draws_are_positions_as_the_user_holds_them(name):
    """The same draws and estimates for a dict as for a flat vector, and for a `Target` as for a function with data."""
    named, vector = CALLS[name](MODEL), CALLS[name](flat, data=DATA)
    np.testing.assert_allclose(named.flat_draws, vector.flat_draws, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(vector.draws, vector.flat_draws)
    np.testing.assert_array_equal(named.draws["level"], named.flat_draws[:, 0])
    np.testing.assert_array_equal(named.draws["slopes"][:, :, 0], named.flat_draws[:, 1:])
    target = CALLS[name](gad.Target(flat, DATA))
    np.testing.assert_array_equal(target.draws, vector.draws)
    if name != "rejection":
        by_dict = named.expectation(lambda p: p["level"] * p["slopes"][:, 0])
        by_vector = vector.expectation(lambda x: x[0] * x[1:])
        np.testing.assert_allclose(by_dict, by_vector, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(named.log_marginal_likelihood, vector.log_marginal_likelihood, rtol=1e-9)


@pytest.mark.parametrize("name", ["elbo", "fit_gaussian"])
def test_the_bound_of_a_dict_is_that_of_its_vector(name):
    named, vector = (getattr(r, "elbo", r) for r in (CALLS[name](MODEL), CALLS[name](flat, data=DATA)))
    np.testing.assert_allclose(named, vector, rtol=1e-9)


def test_a_fit_begins_where_the_user_says_and_is_a_start():
    """From a dict, a function of a key, a start of the model's own, with the layout of a plain function's start.

    100 steps of ρ_t, which sum to 7.2, leave exp(−7.2) of the first distance.
    """
    fits = [
        mc.fit_gaussian(MODEL, POSITION, num_steps=100),
        mc.fit_gaussian(by_name, lambda key: POSITION, data=DATA, num_steps=100),
        mc.fit_gaussian(gad.Model(by_name, start=lambda key: POSITION, data=DATA), num_steps=100),
    ]
    for fit in fits:
        np.testing.assert_allclose(fit.distribution.mean, [0, 0.5, -0.3], atol=2e-3)
        assert jax.tree.map(jnp.shape, fit.start(jax.random.key(0))) == {"level": (), "slopes": (2, 1)}
    tree = gad.sample(MODEL, fits[0].start, sampler=gad.rwm(), num_warmup=5, num_draws=5, progress=False)
    assert set(tree["posterior"].data_vars) == {"level", "slopes"}
    with pytest.raises(ValueError, match="init has the leaves"):
        mc.fit_gaussian(MODEL, jnp.zeros(3))
    with pytest.raises(TypeError, match=r"init: .* has no start of its own"):
        mc.fit_gaussian(MODEL)
    with pytest.raises(TypeError, match="init: 'x' has the type int"):
        mc.fit_gaussian(flat, jnp.zeros(3, int), data=DATA)


def test_models_of_the_library_and_models_with_a_way_back():
    class Positive(gad.Model):
        def constrain(self, x):
            return {"scale": jnp.exp(x[..., 0])}

    problem = gad.Model(lambda x: -0.5 * x @ x, start=lambda key: jax.random.normal(key, (3,)))
    assert mc.importance(problem, TRUTH, num_draws=50).draws.shape == (50, 3)
    model = Positive(lambda x: -0.5 * x @ x, jnp.zeros(3))
    result = mc.importance(model, TRUTH, num_draws=50)
    np.testing.assert_allclose(result.draws["scale"], np.exp(result.flat_draws[:, 0]))
    np.testing.assert_allclose(result.expectation(lambda p: p["scale"]).value, result.draws["scale"].mean())


def test_plain_hands_f_what_it_takes():
    f = lambda p: p["slopes"] * p["level"]
    given = mc.plain(f, TRUTH, position=POSITION, num_draws=100, seed=3)
    np.testing.assert_allclose(given.value[:, 0], mc.plain(lambda x: x[1:] * x[0], TRUTH, num_draws=100, seed=3).value)
    draw = lambda key: {"slopes": jnp.ones((2, 1)), "level": jax.random.normal(key)}
    assert mc.plain(f, draw, num_draws=100).value.shape == (2, 1)
    with pytest.raises(ValueError, match="position has 2 coordinates, distribution 3"):
        mc.plain(f, TRUTH, position=jnp.zeros(2))
    with pytest.raises(TypeError, match="position: "):
        mc.plain(f, draw, position=POSITION)
    with pytest.raises(TypeError, match="f must be a function of one draw, got 3"):
        mc.plain(3, TRUTH)  # pyright: ignore
    with pytest.raises(TypeError, match="distribution must be a function of a key"):
        mc.plain(f, 3)  # pyright: ignore


@pytest.mark.parametrize("name", CALLS)
def test_a_seed_is_a_number_or_its_key(name):
    value = lambda result: jax.tree.leaves(getattr(result, "draws", getattr(result, "elbo", result)))[0]
    by_number, by_numpys, by_key = (value(CALLS[name](MODEL, seed=s)) for s in (7, np.int64(7), jax.random.key(7)))
    np.testing.assert_array_equal(by_number, by_key)
    np.testing.assert_array_equal(by_number, by_numpys)
    for seed, error in ((-1, ValueError), (2**32, ValueError), (0.5, ValueError), ("0", TypeError), (True, TypeError)):
        with pytest.raises(error, match="seed must be a whole number"):
            CALLS[name](MODEL, seed=seed)
    with pytest.raises(TypeError, match="seed must be a whole number"):
        CALLS[name](MODEL, seed=jax.random.PRNGKey(0))
    with pytest.raises(ValueError, match=r"seed must be one key, got keys of the shape \(2,\)"):
        CALLS[name](MODEL, seed=jax.random.split(jax.random.key(0)))


@pytest.mark.parametrize("name", CALLS)
def test_models_that_cannot_be(name):
    call = CALLS[name]
    with pytest.raises(TypeError, match=r"must be a function of a position, or a gadabout\.Model"):
        call(3)
    for model in (MODEL, gad.Target(flat, DATA)):
        with pytest.raises(TypeError, match=r"data: a .* has its own"):
            call(model, data=DATA)
    with pytest.raises(ValueError, match="NaN"):
        call(flat, data=jnp.array([0.0, jnp.nan]))
    with pytest.raises(ValueError, match="distribution has 3 coordinates, but the model's position has 2"):
        call(gad.Model(by_name, {"a": jnp.zeros(2)}, data=DATA))
    with pytest.raises(TypeError, match="model: 'x' has the type int"):
        call(gad.Model(flat, jnp.zeros(3, int), data=DATA))
    with pytest.raises(ValueError, match="must return a scalar"):
        call(lambda x: x)
    rows = gad.Minibatches(lambda x: -0.5 * x @ x, lambda x, rows: 0.01 * rows * x[0], np.ones(9), batch_size=3)
    with pytest.raises(ValueError, match="model: batches only estimate"):
        call(rows)
    assert call(rows.log_density, data=np.ones(9)) is not None


def test_distributions_that_cannot_be():
    with pytest.raises(TypeError, match="distribution must be one of the library's"):
        mc.importance(MODEL, POSITION)  # pyright: ignore
    student = gad.proposals.StudentT(Q.mean, Q.factor, jnp.asarray(3.0))
    with pytest.raises(TypeError, match="Cholesky or Diagonal, got StudentT"):
        mc.fit_gaussian(MODEL, student)
    with pytest.raises(TypeError, match="log_envelope must be a finite number, got None"):
        mc.rejection(MODEL, Q, log_envelope=None)  # pyright: ignore


REFUSED = {
    "ula": (gad.ula(0.1), "the moves of ula do not leave their target as it is"),
    "psgld": (
        gad.psgld(gad.minibatch.polynomial(0.1, 10.0, 0.6)),
        "the moves of psgld do not leave their target as it is",
    ),
    "gibbs": (gad.gibbs(lambda key, x: x), "the conditionals of gibbs are those of the target itself"),
    "part": (gad.cycle(gad.rwm(), gad.gibbs(lambda key, x: x)), "the conditionals of cycle"),
    "reprojected": (gad.reprojected(), "reprojected-haario may put chains back to where they began"),
    "memory": (
        gad.Sampler("own", gad.rwm().make_kernel, gad.rwm().adaptation, state_is_point=False),
        "own keeps more than a point between its moves",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_moves_that_would_make_the_particles_wrong(name):
    sampler, message = REFUSED[name]
    with pytest.raises(ValueError, match=f"sampler: {message}.*mala"):
        mc.smc(MODEL, Q, sampler=sampler)


def test_what_is_no_sampler():
    with pytest.raises(TypeError, match="sampler must be a recipe's result"):
        mc.smc(MODEL, Q, sampler="mala")  # pyright: ignore
    with pytest.raises(TypeError, match="sampler must be a recipe's result"):
        mc.smc(MODEL, Q, sampler=plan_of(gad.mala()))  # pyright: ignore


@pytest.mark.parametrize("sampler", [gad.nuts(), gad.hmc(3), gad.cycle(gad.rwm(), gad.mala()), gad.haario()])
def test_recipes_with_windows_and_parts_move_particles(sampler):
    """Means within 5 standard errors of 500 particles, whose moves mix well."""
    result = mc.smc(MODEL, Q, sampler=sampler, num_particles=500)
    estimate = result.expectation(lambda p: jnp.append(p["slopes"], p["level"]))
    assert np.all(np.abs(estimate.value - [0.5, -0.3, 0]) < 5 / np.sqrt(500))
