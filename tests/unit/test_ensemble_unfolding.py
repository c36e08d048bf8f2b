"""Learned non-centring, on exact draws with exact gradients: layers that a model was written with, or none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout.ensemble import pooling, unfolding
from gadabout.ensemble.curvature import Sample
from gadabout.ensemble.divergence import fisher_divergence, gaussian_of
from gadabout.ensemble.in_words import in_words
from gadabout.ensemble.unfolding import layers_for, points_at
from tests.exact_draws import Rows, gaussian, generator

COUNT = 1_600
"""draws, as many as a pilot run passes on at most"""


def normal(x, mean, deviation):
    return jnp.sum(-0.5 * ((x - mean) / deviation) ** 2 - jnp.log(deviation) * jnp.ones_like(x))


def density_of(dim, log_density):
    function = jax.jit(jax.vmap(jax.value_and_grad(log_density)))
    return Rows(dim, lambda x: tuple(np.asarray(part) for part in function(x)))


def unfolded(density, x, dense, seed=0):
    """The divergence before, layers, and the divergence with them."""
    sample = Sample(x, density.value_and_grad(x)[1])
    layers, found = layers_for(density, sample, dense, generator(seed))
    divergence = fisher_divergence(sample.below(layers), dense)
    assert np.isfinite(divergence)
    assert found == pytest.approx(divergence, rel=1e-9)
    for layer in layers:
        assert all(np.isfinite(values).all() for values in vars(layer).values() if values is not None)
        assert not set(layer.ancestors) & set(layer.children)
    return fisher_divergence(sample, dense), layers, divergence


def log_scales(layer, ancestor):
    """K of all children for one ancestor."""
    return layer.log_scales[:, list(layer.ancestors).index(ancestor)]


def slopes(layer, ancestor):
    return layer.slopes[:, list(layer.ancestors).index(ancestor)]


both = pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])


# Models with layers


def neal(x):
    v, rest, n = x[:, 0], x[:, 1:], x.shape[1] - 1
    square = np.sum(rest**2, 1) * np.exp(-v)
    grad = np.column_stack([-v / 9 - 0.5 * n + 0.5 * square, -rest * np.exp(-v)[:, None]])
    return -0.5 * v**2 / 9 - 0.5 * square - 0.5 * n * v, grad


def funnel(count, n, seed=1):
    rng = generator(seed)
    v = 3 * rng.standard_normal((count, 1))
    return np.hstack([v, np.exp(0.5 * v) * rng.standard_normal((count, n - 1))])


@both
@pytest.mark.parametrize(("n", "count"), [(2, COUNT), (3, COUNT), (10, COUNT), (10, 100)])
def test_a_funnel_is_unfolded_exactly(n, count, dense):
    before, (layer,), after = unfolded(Rows(n, neal), funnel(count, n), dense)
    np.testing.assert_array_equal(layer.children, np.arange(1, n))
    np.testing.assert_array_equal(log_scales(layer, 0), 0.5)
    np.testing.assert_array_equal(layer.location, 0)
    assert before > 1
    assert after < 1e-3


def hierarchy(x):
    """μ ~ N(0, 5²), log τ ~ N(0, 1), eight θ ~ N(μ, τ²)."""
    return normal(x[0], 0.0, 5.0) + normal(x[1], 0.0, 1.0) + normal(x[2:], x[0], jnp.exp(x[1]))


SCHOOLS = ["mu", "log_tau", *(f"theta[{i}]" for i in range(8))]


@both
def test_a_hierarchy_that_is_written_centred_is_written_non_centred(dense):
    z = generator(2).standard_normal((COUNT, 10)) * np.array([5.0, *np.ones(9)])
    theta = z[:, :1] + np.exp(z[:, 1:2]) * z[:, 2:]
    before, layers, after = unfolded(density_of(10, hierarchy), np.hstack([z[:, :2], theta]), dense)
    (layer,) = layers
    np.testing.assert_array_equal(layer.children, np.arange(2, 10))
    np.testing.assert_array_equal(log_scales(layer, 1), 1)
    np.testing.assert_array_equal(log_scales(layer, 0), 0)
    np.testing.assert_array_equal(slopes(layer, 0), 1)
    np.testing.assert_array_equal(slopes(layer, 1), 0)
    assert in_words(layers, SCHOOLS) == ["theta is scaled by exp(log_tau), about mu"]
    assert before > 1
    assert after < 1e-3


@both
@pytest.mark.parametrize("seed", range(3))
def test_children_of_laplaces_law_have_no_curvature_and_are_found_by_their_gradients(dense, seed):
    law = lambda x: normal(x[:2], 0.0, 1.0) - jnp.sum(jnp.abs(x[2:] - x[0])) * jnp.exp(-x[1]) - (x.shape[0] - 2) * x[1]
    rng = generator(seed)
    z = np.column_stack([rng.standard_normal((COUNT, 2)), rng.laplace(size=(COUNT, 8))])
    theta = z[:, :1] + np.exp(z[:, 1:2]) * z[:, 2:]
    before, layers, after = unfolded(density_of(10, law), np.hstack([z[:, :2], theta]), dense)
    np.testing.assert_array_equal(layers[0].children, np.arange(2, 10))
    np.testing.assert_allclose(log_scales(layers[0], 1), 1, atol=0.05)
    np.testing.assert_allclose(slopes(layers[0], 0), 1, atol=0.1)
    assert after < 0.6 * before


EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def groups_drawn(y, error, mu, log_tau, rng):
    """Exact draws of μ, log τ and θ, shape (COUNT, 2 + groups), by rejection from prior draws with θ integrated out."""
    variance = error**2 + np.exp(2 * log_tau)[:, None]
    log_weights = np.sum(-0.5 * (y - mu[:, None]) ** 2 / variance - 0.5 * np.log(variance), 1)
    kept = np.flatnonzero(np.log(rng.random(len(mu))) < log_weights - log_weights.max())[:COUNT]
    assert len(kept) == COUNT
    mu, pull = mu[kept, None], np.exp(-2 * log_tau[kept, None])
    precision = error**-2 + pull
    theta = (y * error**-2 + mu * pull) / precision + rng.standard_normal((COUNT, len(y))) / np.sqrt(precision)
    return np.column_stack([mu, log_tau[kept], theta])


def schools(x):
    """Rubin's eight schools, centred: μ ~ N(0, 5²), τ ~ half-Cauchy(5)."""
    prior = normal(x[0], 0.0, 5.0) + x[1] - jnp.log1p((jnp.exp(x[1]) / 5) ** 2) + normal(x[2:], x[0], jnp.exp(x[1]))
    return prior + normal(EFFECTS, x[2:], ERRORS)


@both
def test_eight_schools_are_written_non_centred(dense):
    """In a basis in which μ may be a child as well: given τ, all of them have a Gaussian law."""
    rng, tries = generator(3), 60_000
    mu, log_tau = 5 * rng.standard_normal(tries), np.log(5 * np.abs(rng.standard_cauchy(tries)))
    x = groups_drawn(EFFECTS, ERRORS, mu, log_tau, rng)
    before, layers, after = unfolded(density_of(10, schools), x, dense)
    (layer,) = layers
    assert set(range(2, 10)) <= set(layer.children) <= {0, *range(2, 10)}
    np.testing.assert_array_equal(log_scales(layer, 1), 1)
    (words,) = in_words(layers, SCHOOLS)
    assert "scaled by exp(log_tau)" in words
    assert before > 1
    assert after < 0.05 * before


@both
def test_data_pool_each_group_in_part(dense):
    """θ ~ N(0, τ²), and one observation of each: given τ the precisions are τ⁻² + error⁻², about 0 and y."""
    rng, error = generator(13), np.array([0.2, 0.5, 1.0, 2.0, 4.0])
    y = np.array([1.0, -0.5, 2.0, 1.0, -3.0])
    x = groups_drawn(y, error, np.zeros(200_000), rng.standard_normal(200_000), rng)[:, 1:]

    def pooled_in_part(x):
        return normal(x[0], 0.0, 1.0) + normal(x[1:], 0.0, jnp.exp(x[0])) + normal(y, x[1:], error)

    before, layers, after = unfolded(density_of(6, pooled_in_part), x, dense)
    layer = layers[0]
    own = layer.children - 1
    assert {1, 2, 3, 4} <= set(own)  # data leave nothing to scale of the first
    np.testing.assert_array_equal(log_scales(layer, 0), 1)
    assert layer.basis is None
    centre = layer.centre[list(layer.ancestors).index(0)]
    np.testing.assert_allclose(layer.precision * np.exp(2 * centre), 1, rtol=1e-6)
    np.testing.assert_allclose(layer.data_precision, error[own] ** -2, rtol=1e-6)
    np.testing.assert_allclose(layer.data_location, y[own], atol=1e-6)
    assert after < 0.1 * before


def test_children_that_another_ancestor_narrows_do_not_hide_the_form_of_a_hierarchy():
    """As above, beside children whose precision grows with ν, as that of counts grows with their rate."""
    rng, error, y = generator(14), np.array([0.5, 0.5, 1.0, 1.0, 2.0]), np.array([1.0, -0.5, 2.0, 1.0, -3.0])
    x = groups_drawn(y, error, np.zeros(400_000), rng.standard_normal(400_000), rng)[:, 1:]
    nu = rng.standard_normal((COUNT, 1))
    x = np.column_stack([x, nu, np.exp(-0.4 * nu) * rng.standard_normal((COUNT, 6))])

    def beside_others(x):
        groups = normal(x[0], 0.0, 1.0) + normal(x[1:6], 0.0, jnp.exp(x[0])) + normal(y, x[1:6], error)
        return groups + normal(x[6], 0.0, 1.0) + normal(x[7:], 0.0, jnp.exp(-0.4 * x[6]))

    before, layers, after = unfolded(density_of(13, beside_others), x, True)
    layer = layers[0]
    np.testing.assert_array_equal(layer.children, np.r_[1:6, 7:13])
    np.testing.assert_array_equal(log_scales(layer, 0), np.repeat([1.0, 0.0], [5, 6]))
    np.testing.assert_allclose(log_scales(layer, 6), np.repeat([0.0, -0.4], [5, 6]), atol=0.02)
    np.testing.assert_allclose(layer.data_precision, np.r_[error**-2, np.zeros(6)], rtol=1e-6)
    assert after < 0.05 * before


STATES, NOISE = 12, 0.5
WALK = np.tril(np.ones((STATES, STATES)))
"""states of a random walk from its steps"""
SEEN = WALK @ np.random.default_rng(12).normal(size=STATES) * 0.3


def walk(x):
    """log σ ~ N(−1, 1), states that begin at 0 and change by N(0, σ²), each of which is observed."""
    changes = jnp.diff(x[1:], prepend=0.0)
    return normal(x[0], -1.0, 1.0) + normal(changes, 0.0, jnp.exp(x[0])) + normal(SEEN, x[1:], NOISE)


def walks_drawn(rng):
    """Exact draws: log σ on a grid, with the states integrated out, then the states."""
    grid = np.linspace(-6, 3, 2_001)
    observed = np.exp(2 * grid)[:, None, None] * (WALK @ WALK.T) + NOISE**2 * np.eye(STATES)
    fit = np.einsum("i,aij,j->a", SEEN, np.linalg.inv(observed), SEEN)
    log_weights = -0.5 * (grid + 1) ** 2 - 0.5 * np.linalg.slogdet(observed)[1] - 0.5 * fit
    weights = np.exp(log_weights - log_weights.max())
    log_sigma = rng.choice(grid, COUNT, p=weights / weights.sum()) + (rng.random(COUNT) - 0.5) * (grid[1] - grid[0])
    steps = np.linalg.inv(WALK)
    precision = np.exp(-2 * log_sigma)[:, None, None] * (steps.T @ steps) + np.eye(STATES) / NOISE**2
    covariance = np.linalg.inv(precision)
    noise = np.einsum("aij,aj->ai", np.linalg.cholesky(covariance), rng.standard_normal((COUNT, STATES)))
    return np.column_stack([log_sigma, covariance @ SEEN / NOISE**2 + noise])


@both
def test_states_that_depend_on_each_other_have_a_basis_of_their_own(dense):
    before, layers, after = unfolded(density_of(1 + STATES, walk), walks_drawn(generator(14)), dense)
    layer = layers[0]
    np.testing.assert_array_equal(layer.children, np.arange(1, 1 + STATES))
    np.testing.assert_array_equal(log_scales(layer, 0), 1)
    assert layer.basis is not None
    np.testing.assert_allclose(np.abs(np.linalg.det(layer.basis)), 1)
    steps = np.linalg.inv(WALK) @ layer.basis
    products = steps.T @ steps
    size = np.sqrt(np.diagonal(products))
    np.testing.assert_allclose(products / np.outer(size, size), np.eye(STATES), atol=1e-3)
    assert before > 0.2
    assert after < 0.1 * before


def test_what_all_states_are_about_is_not_scaled_in_the_neck():
    """The model's scale says nothing of μ: deep in the neck it keeps its width, where it is a child too."""
    rng, tries = generator(3), 60_000
    mu, log_tau = 5 * rng.standard_normal(tries), np.log(5 * np.abs(rng.standard_cauchy(tries)))
    x = groups_drawn(EFFECTS, ERRORS, mu, log_tau, rng)
    _, (layer,), _ = unfolded(density_of(10, schools), x, True)
    y = generator(15).standard_normal((200, 10))
    y[:, 1] = -12.0
    there = layer.x(y)
    if 0 in layer.children:
        assert 2 < there[:, 0].std() < 8
    assert np.abs(there[:, 2:] - there[:, :1]).max() < 1e-3


def two_levels(x):
    """x₁ is scaled by e^{x₀/2}, and scales the others: a child that is an ancestor."""
    return normal(x[0], 0.0, 1.0) + normal(x[1], 0.0, jnp.exp(0.5 * x[0])) + normal(x[2:], 0.0, jnp.exp(x[1]))


@both
def test_levels_are_unfolded_one_after_the_other(dense):
    z = generator(4).standard_normal((COUNT, 8))
    z[:, 1] *= np.exp(0.5 * z[:, 0])
    z[:, 2:] *= np.exp(z[:, 1:2])
    before, (first, second), after = unfolded(density_of(8, two_levels), z, dense)
    np.testing.assert_array_equal(first.children, np.arange(2, 8))
    np.testing.assert_array_equal(log_scales(first, 1), 1)
    np.testing.assert_array_equal(second.children, [1])
    np.testing.assert_array_equal(log_scales(second, 0), 0.5)
    assert before > 1
    assert after < 1e-3


UNEVEN = np.geomspace(0.1, 2.0, 10)
"""errors of ten groups: data say much of the first, and little of the last"""


@both
@pytest.mark.parametrize("power", [1.0, 0.5], ids=["deviation", "variance"])
def test_a_non_centred_writing_is_centred_where_data_say_much(power, dense):
    """Ten groups θ = μ + τ x about data, with τ = exp(power v). Given v the precisions are τ²/error² + 1, about
    (y − μ)/τ and 0."""
    rng, tries = generator(5), 400_000
    y = 1 + np.random.default_rng(5).normal(size=10)
    x = groups_drawn(y, UNEVEN, 2 * rng.standard_normal(tries), rng.standard_normal(tries), rng)
    x[:, 2:] = (x[:, 2:] - x[:, :1]) * np.exp(-x[:, 1:2])
    x[:, 1] /= power

    def written_non_centred(x):
        prior = normal(x[0], 0.0, 2.0) + normal(power * x[1], 0.0, 1.0) + normal(x[2:], 0.0, 1.0)
        return prior + normal(y, x[0] + jnp.exp(power * x[1]) * x[2:], UNEVEN)

    before, layers, after = unfolded(density_of(12, written_non_centred), x, dense)
    layer = layers[0]
    own = layer.children - 2
    assert set(range(7)) <= set(own)  # data leave nothing to scale of the last
    mu, v = (layer.centre[list(layer.ancestors).index(a)] for a in (0, 1))
    tau = np.exp(power * v)
    np.testing.assert_array_equal(log_scales(layer, 1), -power)
    np.testing.assert_array_equal(layer.location_scales, layer.log_scales)
    np.testing.assert_allclose(layer.precision, tau**2 / UNEVEN[own] ** 2, rtol=1e-3)
    np.testing.assert_allclose(layer.data_precision, 1, rtol=1e-3)
    np.testing.assert_allclose(layer.data_location, 0, atol=1e-3)
    np.testing.assert_allclose(layer.location, (y[own] - mu) / tau, rtol=1e-3)
    np.testing.assert_allclose(slopes(layer, 0), -1 / tau, rtol=1e-3)
    assert after < 0.15 * before


def steps(x):
    """The walk by its standardised steps: log σ, the log of the noise's deviation, and steps ~ N(0, 1)."""
    prior = normal(x[0], -1.0, 0.5) + normal(x[1], -2.0, 0.5) + normal(x[2:], 0.0, 1.0)
    return prior + normal(SEEN, jnp.exp(x[0]) * (WALK @ x[2:]), jnp.exp(x[1]))


def steps_drawn(rng, tries=20_000):
    """Exact draws: both scales by importance resampling with the steps integrated out, then the steps."""
    scales = rng.normal([-1, -2], 0.5, (tries, 2))
    along, V = np.linalg.eigh(WALK @ WALK.T)
    variance = np.exp(2 * scales[:, :1]) * along + np.exp(2 * scales[:, 1:])
    log_weights = -0.5 * np.sum(np.log(variance) + (V.T @ SEEN) ** 2 / variance, 1)
    weights = np.exp(log_weights - log_weights.max())
    kept = scales[rng.choice(tries, COUNT, p=weights / weights.sum())]
    sigma, noise = np.exp(kept).T
    inverse = np.linalg.inv(np.eye(STATES) + (sigma / noise)[:, None, None] ** 2 * (WALK.T @ WALK))
    mean = (sigma / noise**2)[:, None] * (inverse @ (WALK.T @ SEEN))
    return np.column_stack(
        [kept, mean + np.einsum("aij,aj->ai", np.linalg.cholesky(inverse), rng.standard_normal((COUNT, STATES)))]
    )


@both
def test_standardised_steps_of_a_walk_have_a_basis_and_two_scales(dense):
    """The precision among them is σ²/noise² WᵀW + 1: exp(−log σ + log noise) scales them where data say much."""
    before, layers, after = unfolded(density_of(2 + STATES, steps), steps_drawn(generator(16)), dense)
    layer = layers[0]
    np.testing.assert_array_equal(layer.children, np.arange(2, 2 + STATES))
    np.testing.assert_array_equal(log_scales(layer, 0), -1)
    np.testing.assert_array_equal(log_scales(layer, 1), 1)
    np.testing.assert_array_equal(layer.location_scales[:, list(layer.ancestors).index(1)], 0)
    sums = WALK @ layer.basis
    for products in (sums.T @ sums, layer.basis.T @ layer.basis):
        size = np.sqrt(np.diagonal(products))
        np.testing.assert_allclose(products / np.outer(size, size), np.eye(STATES), atol=1e-3)
    assert after < 0.1 * before


def test_each_child_may_have_an_ancestor_of_its_own():
    """A horseshoe's prior: b_j ~ N(0, (τ λ_j)²) with log τ and log λ_j ~ N(0, 0.5²)."""
    z = generator(6).standard_normal((COUNT, 9)) * np.array([*np.full(5, 0.5), *np.ones(4)])
    x = np.hstack([z[:, :5], np.exp(z[:, :1] + z[:, 1:5]) * z[:, 5:]])
    prior = lambda x: normal(x[:5], 0.0, 0.5) + normal(x[5:], 0.0, jnp.exp(x[0] + x[1:5]))
    _, (layer,), after = unfolded(density_of(9, prior), x, True)
    np.testing.assert_array_equal(layer.children, np.arange(5, 9))
    np.testing.assert_array_equal(log_scales(layer, 0), 1)
    for j in range(4):
        np.testing.assert_array_equal(log_scales(layer, 1 + j), np.arange(4) == j)
    assert after < 1e-3


# None


FACTOR = np.linalg.cholesky(0.5 + 0.5 * np.eye(6)) * np.array([1.0, 10.0, 0.1, 1.0, 1.0, 1.0])[:, None]


def correlated(x):
    precision = np.linalg.inv(FACTOR @ FACTOR.T)
    return -0.5 * np.einsum("ai,ij,aj->a", x, precision, x), -x @ precision


def test_a_gaussian_has_no_layers_and_no_divergence():
    """What the prior draws of a fit leave: 1e-3 at 200 draws, less at more."""
    rng = generator(7)
    for count, least in ((200, 1e-2), (COUNT, 1e-3)):
        x = 3 + rng.standard_normal((count, 6)) @ FACTOR.T
        before, layers, after = unfolded(Rows(6, lambda x: correlated(x - 3)), x, True)
        assert layers == ()
        assert 0 <= before == after < least
    z = rng.standard_normal((COUNT, 6)) * np.geomspace(0.01, 100, 6)
    before, layers, _ = unfolded(Rows(6, lambda x: gaussian(x, np.geomspace(0.01, 100, 6))), z, False)
    assert layers == ()
    assert before < 1e-20
    _, layers, after = unfolded(Rows(6, correlated), rng.standard_normal((COUNT, 6)) @ FACTOR.T, False)
    assert layers == ()
    assert after > 0.1  # correlations are left, of which no layer knows


@both
def test_a_logistic_regression_has_no_layers(dense):
    """Exact draws of eight coefficients, by rejection from Student's t about the mode."""
    data, rng, n = np.random.default_rng(5), generator(8), 8
    rows = data.normal(size=(100, n))
    signs = np.where(data.random(100) < 1 / (1 + np.exp(-2 * rows[:, 0])), 1.0, -1.0)
    log_density = lambda w: -0.125 * jnp.sum(w**2) + jnp.sum(jax.nn.log_sigmoid(signs * (rows @ w)))
    gradient, hessian, mode = jax.jit(jax.grad(log_density)), jax.jit(jax.hessian(log_density)), np.zeros(n)
    for _ in range(20):
        mode = mode - np.linalg.solve(hessian(mode), gradient(mode))
    root, density = np.linalg.cholesky(np.linalg.inv(-hessian(mode))), density_of(n, log_density)
    t = rng.standard_normal((40_000, n)) / np.sqrt(rng.chisquare(5, (40_000, 1)) / 5)
    w = mode + t @ root.T
    log_weights = density.value(w) + 0.5 * (5 + n) * np.log1p(np.sum(t**2, 1) / 5)
    kept = np.flatnonzero(np.log(rng.random(len(w))) < log_weights - log_weights.max())[:COUNT]
    assert len(kept) == COUNT
    before, layers, after = unfolded(density, w[kept], dense)
    assert layers == ()
    assert before == after < 0.3


@both
def test_one_coordinate_has_no_layers(dense):
    density, x = Rows(1, neal), funnel(400, 1)
    before, layers, after = unfolded(density, x, dense)
    assert layers == ()
    assert before == after
    assert density.gradients == len(x)


def test_where_a_gaussian_fits_well_no_further_layer_is_sought(monkeypatch):
    """A funnel beside a slight parabola, which is a layer if such small divergences count."""

    def funnel_and_parabola(x):
        return normal(x[0], 0.0, 1.0) + normal(x[1], 0.13 * x[0] ** 2, 1.0) + normal(x[2:], 0.0, jnp.exp(x[0]))

    x = generator(17).standard_normal((COUNT, 8))
    x = np.column_stack([x[:, 0], x[:, 1] + 0.13 * x[:, 0] ** 2, np.exp(x[:, :1]) * x[:, 2:]])
    _, (layer,), after = unfolded(density_of(8, funnel_and_parabola), x, True)
    np.testing.assert_array_equal(layer.children, np.arange(2, 8))
    assert 1e-3 < after < unfolding.SMALL
    monkeypatch.setattr(unfolding, "SMALL", 0.0)
    assert len(unfolded(density_of(8, funnel_and_parabola), x, True)[1]) == 2


def test_nor_do_more_than_are_looked_at(monkeypatch):
    monkeypatch.setattr(unfolding, "MOST_COORDINATES", 9)
    assert unfolded(Rows(10, neal), funnel(400, 10), True)[1] == ()


# Draws that say little, or are wild


@both
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_few_draws_leave_all_finite(count, dense):
    unfolded(Rows(5, neal), funnel(count, 5), dense)


@both
@pytest.mark.parametrize("fixed", [0, 3])
def test_a_coordinate_that_stands_still_leaves_all_finite(fixed, dense):
    unfolded(Rows(5, neal), np.where(np.arange(5) == fixed, 0.3, funnel(400, 5)), dense)


HUGE = [(size, dense) for size in (1e10, 1e100, 1e160) for dense in (True, False)]


@pytest.mark.parametrize(("size", "dense"), HUGE)
def test_huge_gradients_leave_all_finite(size, dense):
    """Beyond a wall of some of the draws."""

    def walled(x):
        value, grad = neal(x)
        return value, np.where(x[:, 1:2] > 5, size * np.sign(grad), grad)

    density, x = Rows(5, walled), funnel(400, 5)
    sample = Sample(x, density.value_and_grad(x)[1])
    with np.errstate(all="ignore"):
        layers, _ = layers_for(density, sample, dense, generator(9))
        here = gaussian_of(sample.below(layers), dense, layers)
    assert np.isfinite(here.mean).all()
    assert np.isfinite(here.factor).all()
    assert (np.diagonal(here.factor) if dense else here.factor).all()


@both
def test_gradients_that_are_not_finite_away_from_draws_leave_all_finite(dense):
    """Differences lead beyond a wall, where log π is −∞."""

    def walled(x):
        value, grad = neal(x)
        return np.where(x[:, 1] > 0, value, -np.inf), np.where(x[:, 1:2] > 0, grad, np.nan)

    x = funnel(800, 6)
    x[:, 1] = np.abs(x[:, 1])
    _, (layer,), _ = unfolded(Rows(6, walled), x, dense)
    assert set(range(2, 6)) <= set(layer.children)
    np.testing.assert_allclose(log_scales(layer, 0), 0.5, atol=0.1)


def test_the_curvature_takes_few_gradients():
    assert [points_at(n) for n in (3, 100, 1_000, 10_000)] == [32, 32, 10, 6]
    density, x = Rows(10, neal), funnel(COUNT, 10)
    unfolded(density, x, True)
    deep = 3 * unfolding.TRIES * pooling.DEEP_POINTS  # of each set of pairs that is tried
    assert density.gradients - len(x) <= (2 * points_at(10) + deep) * (2 * 10 + 1)
