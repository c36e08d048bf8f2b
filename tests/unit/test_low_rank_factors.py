"""Low-rank factors against their dense matrices, and the covariances that windows are fitted to against NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.adaptations import GeometricMean, Pool, RegularisedCovariance
from gadabout.adaptations.estimators import Moments
from gadabout.factors import Cholesky, Diagonal, LowRank, Scaled
from gadabout.sampler import Learned

N, R = 7, 2
_keys = jax.random.split(jax.random.key(0), 4)
LOW_RANK = LowRank(
    jnp.exp(jax.random.normal(_keys[0], (N,))),
    0.4 * jax.random.normal(_keys[1], (N, R)),
    0.4 * jax.random.normal(_keys[2], (N, R)),
)
DENSE = np.diag(LOW_RANK.scale) @ (np.eye(N) + np.asarray(LOW_RANK.left @ LOW_RANK.right.T))
U, V = np.random.default_rng(1).normal(size=(2, N))


def test_products_are_those_of_the_dense_matrix():
    np.testing.assert_allclose(LOW_RANK.dense(), DENSE, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(LOW_RANK.mul(V), DENSE @ V, rtol=1e-12)
    np.testing.assert_allclose(LOW_RANK.tmul(V), DENSE.T @ V, rtol=1e-12)
    np.testing.assert_allclose(LOW_RANK.solve(V), np.linalg.solve(DENSE, V), rtol=1e-10)
    np.testing.assert_allclose(LOW_RANK.log_det(), np.linalg.slogdet(DENSE)[1], rtol=1e-12)
    np.testing.assert_allclose(LOW_RANK.deviations(), np.sqrt(np.diag(DENSE @ DENSE.T)), rtol=1e-12)
    assert LOW_RANK.dim == N
    assert LOW_RANK.covariance_shape() == (N, N)
    assert (LOW_RANK.scales() > 0).all()
    assert LOW_RANK.floor(jnp.asarray(1.0)).scale.min() == 1


def test_outer_is_the_gradient_by_finite_differences():
    """The default, by automatic differentiation, leaf by leaf and number by number."""
    found, h = LOW_RANK.outer(jnp.asarray(U), jnp.asarray(V)), 1e-6
    assert isinstance(found, LowRank)
    value = lambda factor: float(U @ factor.mul(jnp.asarray(V)))
    for get in (lambda f: f.scale, lambda f: f.left, lambda f: f.right):
        leaf = get(LOW_RANK)
        for at in np.ndindex(leaf.shape):
            up, down = (eqx.tree_at(get, LOW_RANK, leaf.at[at].add(step)) for step in (h, -h))
            np.testing.assert_allclose(get(found)[at], (value(up) - value(down)) / (2 * h), rtol=1e-6, atol=1e-8)


def spiked(eigenvalues):
    """A covariance with uneven scales whose correlations have these eigenvalues, up to the scaling to a unit diagonal,
    and 1 for the rest."""
    Q = np.linalg.qr(np.random.default_rng(3).normal(size=(N, N)))[0]
    C = Q @ np.diag([*eigenvalues, *np.ones(N - len(eigenvalues))]) @ Q.T
    s = np.geomspace(0.1, 10, N)
    return s[:, None] * C * s


def test_a_full_rank_is_fitted_exactly():
    blank = LowRank(jnp.ones(N), jnp.zeros((N, N)), jnp.zeros((N, N)))
    covariance = spiked([9.0, 5.0, 0.2])
    L = np.asarray(blank.fitted(jnp.asarray(covariance)).dense())
    np.testing.assert_allclose(L @ L.T, covariance, rtol=1e-9, atol=1e-12)


def test_a_low_rank_keeps_the_strongest_eigenvalues_and_all_variances_but_theirs():
    """Of a correlation matrix the eigenvalues furthest from 1 are kept to the digit, the rest stand for 1."""
    covariance = spiked([20.0, 0.05])
    L = np.asarray(LOW_RANK.fitted(jnp.asarray(covariance)).dense())
    s = np.sqrt(np.diag(covariance))
    true, fitted = (np.linalg.eigvalsh(C / np.outer(s, s)) for C in (covariance, L @ L.T))
    strongest = np.argsort(-np.abs(np.log(true)))[:R]
    np.testing.assert_allclose(np.sort(fitted), np.sort([*true[strongest], *np.ones(N - R)]), rtol=1e-9)


def test_what_cannot_be_fitted_leaves_the_factor_alone():
    for bad in (jnp.full((N, N), jnp.nan), jnp.zeros((N, N))):
        assert eqx.tree_equal(LOW_RANK.fitted(bad), LOW_RANK)


def test_a_scaled_low_rank_fits_what_its_multiplier_leaves():
    blank = LowRank(jnp.ones(N), jnp.zeros((N, N)), jnp.zeros((N, N)))
    covariance = spiked([9.0])
    L = np.asarray(Scaled(jnp.asarray(3.0), blank).fitted(jnp.asarray(covariance)).dense())
    np.testing.assert_allclose(L @ L.T, covariance, rtol=1e-9, atol=1e-12)


def moments_of(rows, dense):
    """Rows (t, chains, n) added as the chains' rows of one iteration after another, far from where they began."""
    n = rows.shape[-1]
    moments = Moments(jnp.asarray(0), jnp.full(n, -3.0), jnp.zeros((n, n) if dense else n))
    for chains in rows:
        moments = moments.add(len(chains), *Pool().summed(moments.sums, jnp.asarray(chains)))
    return moments


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_moments_are_numpys_over_several_updates(dense, offset):
    """Also where the mean is a million standard deviations away, to what is left of sixteen digits."""
    rows = np.random.default_rng(4).normal(size=(25, 3, 4)) * [1.0, 2.0, 0.5, 1.0] + offset
    moments, flat = moments_of(rows, dense), rows.reshape(-1, 4)
    assert moments.count == 75
    np.testing.assert_allclose(moments.mean, flat.mean(0), rtol=1e-12, atol=1e-12)
    expected = np.cov(flat.T) if dense else flat.var(0, ddof=1)
    np.testing.assert_allclose(
        moments.covariance, expected, rtol=1e-9 if not offset else 2e-3, atol=1e-9 + 1e-9 * offset
    )


def test_no_draws_or_one_have_no_spread():
    assert (moments_of(np.zeros((0, 1, 2)), False).covariance == 0).all()
    np.testing.assert_allclose(moments_of(np.ones((1, 1, 2)), True).covariance, 0, atol=1e-12)


def test_the_regularised_covariance_is_stans():
    rows = np.random.default_rng(5).normal(size=(10, 2, 3))
    for dense in (False, True):
        expected = 20 / 25 * np.cov(rows.reshape(-1, 3).T) + 1e-3 * 5 / 25 * np.eye(3)
        found = RegularisedCovariance()(moments_of(rows, dense), None)
        np.testing.assert_allclose(found, expected if dense else np.diag(expected), rtol=1e-9)


def gaussian_moments(dense, draws=40):
    """Moments of draws of a Gaussian of 5 coordinates and of the gradients there, and its covariance."""
    n = 5
    A = np.random.default_rng(6).normal(size=(n, n)) + 2 * np.eye(n)
    scales = np.geomspace(1e-3, 1e3, n)
    covariance = scales[:, None] * (A @ A.T) * scales if dense else np.diag(scales**2)
    x = np.random.default_rng(7).normal(size=(draws, 2, n)) @ np.linalg.cholesky(covariance).T
    grad = -np.linalg.solve(covariance, x.reshape(-1, n).T).T.reshape(x.shape)
    return (moments_of(x, dense), moments_of(grad, dense)), covariance


def test_the_geometric_mean_is_exact_on_a_gaussian():
    """g = −Σ⁻¹x: Σ C_g Σ = C_x for whatever draws, here 80 of them, scales a million apart."""
    (x, grad), covariance = gaussian_moments(dense=False)
    np.testing.assert_allclose(GeometricMean()(x, grad), np.diag(covariance), rtol=1e-9)
    (x, grad), covariance = gaussian_moments(dense=True)
    found, s = np.asarray(GeometricMean()(x, grad)), np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found / np.outer(s, s), covariance / np.outer(s, s), atol=2e-4)  # the ridge is 1e-5
    np.testing.assert_allclose(found, found.T, rtol=1e-12)


def test_what_draws_did_not_explore_stays_as_it_was():
    """96 draws of N(0, I), n = 300, on a long way along one direction, in single precision: Σ is I in all others.

    Rounding takes a part of the longest axis; where that is added to gradients alone a width of 1 becomes 0.5.
    """
    rng, n = np.random.default_rng(0), 300
    x = rng.normal(size=(48, 2, n)) + 1_000 * rng.normal(size=(48, 2, 1)) * np.full(n, n**-0.5)
    single = lambda leaf: leaf.astype(np.float32) if leaf.dtype == float else leaf
    x, grad = (jax.tree.map(single, moments_of(rows, dense=True)) for rows in (x, -x))
    widths = np.linalg.eigvalsh(np.asarray(GeometricMean(prior_draws=5.0)(x, grad), float))
    assert 0.9 < widths[0] < widths[-1] < 1.1


def test_a_diagonal_factor_is_fitted_to_variances():
    np.testing.assert_allclose(Diagonal(jnp.ones(2)).fitted(jnp.asarray([4.0, 0.0])).scale, [2.0, 1.0])


@pytest.mark.parametrize("recipe", [gad.gad_mala, gad.gad_rwm])
def test_a_recipe_with_a_low_rank_factor_starts_round_and_learns_directions(recipe):
    sampler, n = recipe(factor="low-rank"), 12
    factor = sampler.kernel(n).proposal.factor
    assert isinstance(factor, LowRank)
    np.testing.assert_allclose(factor.dense(), 0.1 / np.sqrt(n) * np.eye(n), atol=1e-12)
    target = gad.Target(lambda x: -0.5 * (x @ x + 5 * (x.sum() ** 2)))
    state = sampler.init(target, jnp.zeros((4, n)))
    state, _ = jax.lax.scan(lambda s, k: sampler.step(k, s, target), state, jax.random.split(jax.random.key(1), 50))
    assert np.abs(state.kernel.proposal.factor.right).max() > 1e-4  # V has left 0


def test_a_warm_start_fits_a_low_rank_factor_to_the_covariance_of_the_draws():
    """Five strong directions are fitted whole; θ of a run with the same sampler is taken as it is."""
    n = 9
    Q = np.linalg.qr(np.random.default_rng(4).normal(size=(n, n)))[0]
    covariance = Q @ np.diag([30.0, 20.0, 10.0, 0.1, 0.05, 1, 1, 1, 1]) @ Q.T
    known = Cholesky(jnp.asarray(np.linalg.cholesky(covariance)))
    factor = gad.gad_mala(factor="low-rank").kernel(n, Learned(jnp.zeros(n), known)).proposal.factor
    L = np.sqrt(n) * np.asarray(factor.dense())
    shape = np.linalg.solve(np.linalg.cholesky(covariance), L)
    assert (np.abs(np.linalg.svd(shape, compute_uv=False) - 1) < 1e-9).sum() == 5

    own = {"proposal.factor.scale": jnp.ones(n), "proposal.factor.left": jnp.ones((n, 5))}
    again = gad.gad_mala(factor="low-rank").kernel(n, Learned(jnp.zeros(n), known, own)).proposal.factor
    np.testing.assert_array_equal(again.left, 1)
    np.testing.assert_array_equal(again.scale, 1)


def test_of_many_coordinates_known_one_by_one_nothing_of_size_n_squared_is_made():
    n = 200_000
    factor = (
        gad.gad_mala(factor="low-rank").kernel(n, Learned(jnp.zeros(n), Diagonal(jnp.full(n, 3.0)))).proposal.factor
    )
    np.testing.assert_allclose(factor.scale, 3 / np.sqrt(n))
    np.testing.assert_array_equal(factor.right, 0)
