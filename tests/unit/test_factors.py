"""Factors against the matrices they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout.factors import Diagonal, isotropic, pooled_sum
from tests.unit.test_gradients import FACTORS, every_factor


def dense(factor):
    return jnp.stack([factor.mul(e) for e in jnp.eye(3)], 1)


@every_factor
def test_products_belong_to_one_matrix(kind):
    factor, v = FACTORS[kind], jnp.asarray([0.3, -1.0, 2.0])
    L = dense(factor)
    np.testing.assert_allclose(factor.mul(v), L @ v, rtol=1e-12)
    np.testing.assert_allclose(factor.tmul(v), L.T @ v, rtol=1e-12)
    np.testing.assert_allclose(factor.solve(v), jnp.linalg.solve(L, v), rtol=1e-12)
    np.testing.assert_allclose(factor.log_det(), jnp.linalg.slogdet(L)[1], rtol=1e-12)
    assert factor.dim == 3


@every_factor
def test_outer_is_the_gradient_and_stays_lower_triangular(kind):
    factor, u, v = FACTORS[kind], jnp.asarray([0.3, -1.0, 2.0]), jnp.asarray([1.0, 0.2, -0.5])
    expected = jax.grad(lambda f: u @ f.mul(v))(factor)
    transposed = jax.grad(lambda f: v @ f.tmul(u))(factor)
    stacked = jax.tree.map(lambda leaf: leaf[None], factor.outer(u, v))
    for ours, theirs, other in zip(*map(jax.tree.leaves, (pooled_sum(stacked), expected, transposed)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        np.testing.assert_allclose(ours, other, rtol=1e-12)
        if ours.ndim == 2:
            np.testing.assert_array_equal(np.triu(ours, 1), 0)


@every_factor
def test_gradient_of_the_log_determinant(kind):
    gradient = jax.grad(lambda f: f.log_det())(FACTORS[kind])
    for value, g in zip(jax.tree.leaves(FACTORS[kind]), jax.tree.leaves(gradient), strict=True):
        if value.ndim == 2:
            np.testing.assert_allclose(g, jnp.diag(1 / jnp.diag(value)), rtol=1e-12)
        elif value.ndim == 1:
            np.testing.assert_allclose(g, 1 / value, rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_floor_touches_the_diagonal_alone(kind):
    factor = isotropic(3, jnp.asarray(1e-5), kind).floor(jnp.asarray(1e-3))
    np.testing.assert_allclose(dense(factor), 1e-3 * np.eye(3))


def test_a_diagonal_factor_stays_where_a_variance_is_infinite():
    fitted = Diagonal(jnp.array([2.0, 3.0])).fitted(jnp.array([jnp.inf, 4.0]))
    np.testing.assert_array_equal(fitted.scale, [2.0, 2.0])
