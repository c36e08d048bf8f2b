"""Layers of parabolas, on exact draws with exact gradients: those that a density has, or none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout.ensemble.bending import Regression, bent, bent_in_axes, products, quadratic
from gadabout.ensemble.curvature import Density, Sample, curvature_at
from gadabout.ensemble.divergence import fisher_divergence
from gadabout.ensemble.unfolding import layers_for
from tests.exact_draws import Rows, generator

COUNT = 800
"""draws, as many as a pilot run passes on at least"""


def normal(x, mean=0.0, deviation=1.0):
    return -0.5 * jnp.sum(((x - mean) / deviation) ** 2)


def density_of(dim, log_density):
    function = jax.jit(jax.vmap(jax.value_and_grad(log_density)))
    return Rows(dim, lambda x: tuple(np.asarray(part) for part in function(x)))


@np.errstate(all="ignore")  # as for those who call it
def found(log_density, x, bending=bent):
    """The layer, or None, and the sample."""
    density = density_of(x.shape[1], log_density)
    sample = Sample(x, density.value_and_grad(x)[1])
    curvature = curvature_at(Density(density, ()), x[:12], x.std(0))
    return bending(sample, curvature), sample


def twisted(x):
    return normal(x[0], 0.0, 10.0) + normal(x[1], 3 - 0.03 * x[0] ** 2, 1.0) + normal(x[2:])


def of_twisted(rng, along, n=4):
    x = rng.standard_normal((len(along), n))
    x[:, 0], x[:, 1] = along, x[:, 1] + 3 - 0.03 * along**2
    return x


@pytest.mark.parametrize("part", ["all", "one side"])
def test_a_parabola_is_found_exactly_also_in_draws_of_a_part(part):
    rng = generator(0)
    along = 10 * rng.standard_normal(COUNT) if part == "all" else 12 + 3 * rng.standard_normal(COUNT)
    layer, sample = found(twisted, of_twisted(rng, along))
    assert (layer.ancestors.tolist(), layer.children.tolist()) == ([0], [1])
    assert layer.bends.item() == pytest.approx(-0.03, rel=1e-6)
    assert fisher_divergence(sample.under(layer), True) < 1e-9
    assert fisher_divergence(sample, True) > 0.1
    y = layer.y(of_twisted(rng, 10 * rng.standard_normal(20_000)))
    assert np.abs(np.corrcoef(np.column_stack([y, y[:, 0] ** 2]).T) - np.eye(5)).max() < 0.03


def branches(x):
    a, b = x[0], x[1:].reshape(3, 2)
    return normal(a, 1.0) + normal(b[:, 0], a**2, 0.3) + normal(b[:, 1], b[:, 0] ** 2, 0.3)


def test_parabolas_of_parabolas_are_two_layers():
    """The outer ones first: only after these do the inner ones explain the gradients of their children."""
    rng = generator(1)
    a = 1 + rng.standard_normal((COUNT, 1))
    inner = a**2 + 0.3 * rng.standard_normal((COUNT, 3))
    x = np.hstack([a, np.stack([inner, inner**2 + 0.3 * rng.standard_normal((COUNT, 3))], 2).reshape(COUNT, 6)])
    layer, sample = found(branches, x)
    np.testing.assert_array_equal(layer.children, [2, 4, 6])
    layers, divergence = layers_for(density_of(7, branches), sample, True, generator(2))
    assert len(layers) == 2
    np.testing.assert_array_equal(layers[1].children, [1, 3, 5])
    assert divergence < 1e-9


def saddles(x):
    u, v = x[:3], x[3:]
    return normal(u, 1.0) + normal(v, jnp.stack([u[0] * u[1], u[1] * u[2], u[0] * u[2]]), 0.2)


def test_products_without_squares_are_found():
    rng = generator(3)
    u = 1 + rng.standard_normal((COUNT, 3))
    pairs = np.stack([u[:, 0] * u[:, 1], u[:, 1] * u[:, 2], u[:, 0] * u[:, 2]], 1)
    layer, _ = found(saddles, np.hstack([u, pairs + 0.2 * rng.standard_normal((COUNT, 3))]))
    np.testing.assert_array_equal(layer.ancestors, [0, 1, 2])
    np.testing.assert_array_equal(layer.children, [3, 4, 5])
    expected = np.zeros((3, 3, 3))
    for child, (i, j) in enumerate(((0, 1), (1, 2), (0, 2))):
        expected[child, i, j] = expected[child, j, i] = 0.5
    np.testing.assert_allclose(layer.bends, expected, atol=1e-6)


def test_children_that_depend_on_each_other():
    """A precision that is not diagonal: bends are those of the children, not of their gradients."""
    L = np.array([[0.5, 0.0], [0.45, 0.1]])
    place = lambda a: jnp.stack([0.7 * a**2, a - 0.4 * a**2])
    rng = generator(4)
    a = rng.standard_normal(COUNT)
    x = np.column_stack([a, np.stack([0.7 * a**2, a - 0.4 * a**2], 1) + rng.standard_normal((COUNT, 2)) @ L.T])
    layer, _ = found(lambda x: normal(x[0]) + normal(jnp.linalg.solve(L, x[1:] - place(x[0]))), x)
    np.testing.assert_array_equal(layer.children, [1, 2])
    np.testing.assert_allclose(layer.bends.ravel(), [0.7, -0.4], atol=1e-6)


def test_ancestors_are_found_among_many_coordinates():
    """Of 40 coordinates, five bend others; products are tried of twelve."""
    rng = generator(5)
    x = rng.standard_normal((1_600, 40))
    x[:, 10:15] = x[:, 20:25] ** 2 + 0.3 * x[:, 10:15]
    log_density = lambda x: normal(jnp.concatenate([x[:10], x[15:]])) + normal(x[10:15], x[20:25] ** 2, 0.3)
    layer, sample = found(log_density, x)
    np.testing.assert_array_equal(layer.ancestors, np.arange(20, 25))
    np.testing.assert_array_equal(layer.children, np.arange(10, 15))
    assert fisher_divergence(sample.under(layer), True) < 0.05


@pytest.mark.parametrize("children", [1, 2])
def test_a_parabola_in_axes_of_its_own_is_found(children):
    """In coordinates that mix parabola and Gaussian directions, in units from 1e-3 to 1e3: no coordinate is a child."""
    rng = generator(9)
    mixed = np.logspace(-3, 3, 5)[:, None] * np.linalg.qr(rng.standard_normal((5, 5)))[0]
    back = np.linalg.inv(mixed)
    z = rng.standard_normal((COUNT, 5))
    z[:, :children] = z[:, 2 : 2 + children] ** 2 + 0.2 * z[:, :children]

    def log_density(x):
        y = back @ x
        return normal(y[children:]) + normal(y[:children], y[2 : 2 + children] ** 2, 0.2)

    assert found(log_density, z @ mixed.T)[0] is None
    layer, sample = found(log_density, z @ mixed.T, bent_in_axes)
    assert len(layer.children) == children
    assert np.linalg.slogdet(layer.axes)[1] == pytest.approx(0, abs=1e-9)
    assert fisher_divergence(sample, True) > 1
    assert fisher_divergence(sample.under(layer), True) < 1e-4
    density = density_of(5, log_density)
    _, divergence = layers_for(density, sample, True, generator(10))
    assert divergence < 1e-4


@pytest.mark.parametrize("bending", [bent, bent_in_axes])
@pytest.mark.parametrize("gap", ["few draws", "gaussian", "neal", "quartic", "constant", "infinite"])
def test_no_layer_without_a_parabola(gap, bending):
    """Nor from too few draws for a regression, from a coordinate that stands still, or from infinite gradients."""
    rng, log_density = generator(6), normal
    x = rng.standard_normal((COUNT, 4))
    if gap == "few draws":
        x, log_density = of_twisted(rng, 10 * rng.standard_normal(29)), twisted
    elif gap == "neal":
        x[:, 1:] *= np.exp(0.5 * x[:, :1])
        log_density = lambda x: normal(x[0]) + normal(x[1:], 0.0, jnp.exp(0.5 * x[0])) - 1.5 * x[0]
    elif gap == "quartic":
        log_density = lambda x: -0.1 * jnp.sum(x**4)
    elif gap == "constant":
        x[:, 2] = 1.0
    elif gap == "infinite":
        log_density = lambda x: normal(x) * 1e200
    layer, _ = found(log_density, x, bending)
    assert layer is None


def test_many_coordinates_take_no_products_of_all():
    """Of 600, as many as layers are searched for in, there are 180,000."""
    rng = generator(11)
    sample = Sample(x := rng.standard_normal((COUNT, 600)), -x)
    few = curvature_at(Density(density_of(600, normal), ()), x[:1], x.std(0))
    assert bent(sample, few) is None
    assert bent_in_axes(sample, few) is None


def test_features_are_what_they_say():
    rng = generator(7)
    h, coefficients = rng.standard_normal((6, 3)), rng.standard_normal((2, 6))
    pairs, first, second = products(h)
    np.testing.assert_array_equal(pairs, h[:, first] * h[:, second])
    assert sorted(zip(first.tolist(), second.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    forms = quadratic(coefficients, 3)
    np.testing.assert_allclose(np.einsum("ma,qab,mb->mq", h, forms, h), pairs @ coefficients.T, rtol=1e-12)
    np.testing.assert_array_equal(forms, np.swapaxes(forms, 1, 2))


def test_features_without_meaning_explain_nothing():
    """By degrees of freedom: a third as many features as draws leave as much as there was, to a tenth."""
    rng = generator(8)
    h, g = rng.standard_normal((300, 12)), rng.standard_normal((300, 12))
    regression = Regression.of(h, g, np.ones(300), np.arange(12))
    assert regression is not None
    each = [regression.unexplained(j, np.arange(12)) for j in range(12)]
    assert np.mean(each) == pytest.approx(1, abs=0.1)
    among = np.arange(5)
    each = [regression.unexplained(j, np.setdiff1d(among, j)) for j in range(12)]
    np.testing.assert_allclose(regression.unexplained_by(among), each, rtol=1e-6)
