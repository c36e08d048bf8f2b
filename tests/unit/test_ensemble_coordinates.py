"""Learned coordinates: maps, their inverses, log determinants and gradients against JAX's, and their words."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.in_words import in_words
from gadabout.ensemble.noncentring import Noncentring, packed, placed, unfolded, unpacked
from gadabout.ensemble.pooling import beside
from tests.exact_draws import Rows, generator

N = 7
LAYERS = (0, 1, 4)
"""numbers of layers"""


def layer_of(rng, n=N, p=2, q=3, pools=False, mixes=False, bends=False, turns=False, widens=False):
    """One with random ancestors and children, slopes and log scales; precisions, one of them 0; and so on."""
    indices = rng.permutation(n)
    matrix = lambda: 0.5 * rng.standard_normal((q, p))
    centre, location = rng.standard_normal(p), rng.standard_normal(q)
    layer = Noncentring(indices[:p], np.sort(indices[p : p + q]), centre, location, matrix(), matrix())
    if pools:
        q_of_data = np.exp(rng.standard_normal(q)) * (np.arange(q) > 0)
        layer = replace(layer, precision=np.exp(rng.standard_normal(q)), data_precision=q_of_data)
        layer = replace(layer, data_location=rng.standard_normal(q))
    V = rng.standard_normal((q, q))
    layer = replace(layer, basis=V / np.abs(np.linalg.det(V)) ** (1 / q)) if mixes else layer
    Q = 0.1 * rng.standard_normal((q, p, p))
    layer = replace(layer, bends=Q + np.swapaxes(Q, 1, 2)) if bends else layer
    W = np.linalg.qr(rng.standard_normal((n, n)))[0] @ np.diag(np.exp(np.linspace(-0.5, 0.5, n)))
    layer = replace(layer, location_scales=matrix()) if widens else layer
    return replace(layer, axes=W) if turns else layer


def coordinates_of(count, dense, seed=0, n=N):
    """Some with so many layers, of different sizes."""
    rng = generator(seed)
    has = lambda i: (i in (1, 2), i == 2, i > 1, i == 3, i in (0, 2))
    layers = tuple(layer_of(rng, n, 1 + i % 2, 2 + i % 2, *has(i)) for i in range(count))
    if count > 3:  # with less of each, or x would not be finite
        less = lambda values: None if values is None else 0.2 * values
        names = "log_scales", "slopes", "location_scales"
        layers = tuple(replace(layer, **{name: less(getattr(layer, name)) for name in names}) for layer in layers)
    factor = np.tril(0.3 * rng.standard_normal((n, n)), -1) + np.diag(0.5 + rng.random(n))
    factor = factor if dense else np.diagonal(factor) * rng.choice([-1, 1], n)
    return Coordinates(rng.standard_normal(n), factor, layers)


def x_of(here, z):
    """x of one z, by JAX: the definition, written anew."""
    factor = jnp.asarray(here.factor)
    x = here.mean + (factor @ z if here.dense else factor * z)
    for layer in reversed(here.layers):
        W = np.eye(len(x)) if layer.axes is None else layer.axes
        a = x[layer.ancestors] - layer.centre
        place, scale = layer.location + layer.slopes @ a, jnp.exp(layer.log_scales @ a)
        place += 0.0 if layer.bends is None else jnp.stack([a @ Q @ a for Q in layer.bends])
        place *= 1.0 if layer.location_scales is None else jnp.exp(layer.location_scales @ a)
        if layer.data_precision is not None:
            precision = layer.precision / scale**2 + layer.data_precision
            place = (layer.precision / scale**2 * place + layer.data_precision * layer.data_location) / precision
            scale = precision**-0.5
        V = np.eye(len(layer.children)) if layer.basis is None else layer.basis
        x = W @ x.at[layer.children].set(V @ (place + scale * x[layer.children]))
    return x


def log_density(x):
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(jnp.cos(x[1:] * x[:-1])) - 0.01 * jnp.sum(x**4)


def by_jax(x):
    value, grad = jax.vmap(jax.value_and_grad(log_density))(jnp.asarray(x))
    return np.asarray(value), np.asarray(grad)


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])
@pytest.mark.parametrize("count", LAYERS)
def test_maps_are_as_defined_and_inverse_to_each_other(count, dense):
    here, z = coordinates_of(count, dense), generator(1).standard_normal((11, N))
    x = here.x(z)
    np.testing.assert_allclose(x, jax.vmap(lambda row: x_of(here, row))(z), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(here.z(x), z, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(placed(here.layers, unfolded(here.layers, x)).x, x, rtol=1e-11, atol=1e-11)
    assert (here.dim, here.dense) == (N, dense)
    if not count:
        np.testing.assert_array_equal(x, here.affine(z))


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])
@pytest.mark.parametrize("count", LAYERS)
def test_the_log_determinant_is_that_of_the_jacobian(count, dense):
    here, z = coordinates_of(count, dense), generator(2).standard_normal((9, N))
    jacobians = jax.vmap(jax.jacfwd(lambda row: x_of(here, row)))(z)
    expected = np.linalg.slogdet(jacobians)[1]
    np.testing.assert_allclose(here.log_det(z) + here.log_volume(), expected, rtol=1e-11, atol=1e-11)
    if count:
        np.testing.assert_allclose(
            placed(here.layers, here.affine(z)).log_det, expected - here.log_volume(), atol=1e-11
        )
    else:
        assert not here.log_det(z).any()


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])
@pytest.mark.parametrize("count", LAYERS)
def test_gradients_are_those_of_jax(count, dense):
    """Of log π(x(z)) + log |∂x/∂z|, to 1e-10 of the largest."""
    here, z = coordinates_of(count, dense), generator(3).standard_normal((9, N))

    def of_z(row):
        volume = jnp.linalg.slogdet(jax.jacfwd(lambda r: x_of(here, r))(row))[1]
        return log_density(x_of(here, row)) + volume - here.log_volume()

    expected_value, expected = jax.vmap(jax.value_and_grad(of_z))(jnp.asarray(z))
    value, grad = here.value_and_grad(Rows(N, by_jax), z)
    size = np.abs(expected).max()
    np.testing.assert_allclose(value, expected_value, rtol=1e-10)
    np.testing.assert_allclose(grad, expected, atol=1e-10 * size)
    np.testing.assert_allclose(here.through_factor(here.at(z).pull(by_jax(here.x(z))[1])), expected, atol=1e-10 * size)
    pulled_back = here.through_factor(placed(here.layers, here.affine(z)).pull(by_jax(here.x(z))[1])) if count else grad
    np.testing.assert_allclose(pulled_back, expected, atol=1e-10 * size)


@pytest.mark.parametrize("count", [2, 3, 4], ids=["pools", "basis and bends", "axes"])
@pytest.mark.parametrize("bug", ["data_precision", "basis", "bends", "axes", "location_scales"])
def test_a_pull_that_leaves_something_out_is_found(count, bug):
    """The planted bugs: the share of the model's precision, the basis, the slope of a parabola, axes, or P."""

    class Wrong(Noncentring):
        def pull(self, y, grad, of=None):
            wrong = {bug: None}
            return Noncentring.pull(replace(Noncentring(**vars(self)), **wrong), y, grad)

    here, z = coordinates_of(count, True), generator(3).standard_normal((9, N))
    wrong = replace(here, layers=tuple(Wrong(**vars(layer)) for layer in here.layers))
    grad, other = (each.value_and_grad(Rows(N, by_jax), z)[1] for each in (here, wrong))
    assert (np.abs(grad - other).max() > 0.1) == (
        count >= {"data_precision": 2, "axes": 4, "location_scales": 1}.get(bug, 3)
    )


def test_a_pull_with_scales_twice_as_large_is_found():
    """The planted bug. Moves whose gradients are wrong in this way leave their law as it is, and accept less."""

    class Twice(Noncentring):
        def pull(self, y, grad, of=None):
            return Noncentring.pull(replace(self, log_scales=2 * self.log_scales), y, grad)

    here, z = coordinates_of(2, True), generator(3).standard_normal((9, N))
    twice = replace(here, layers=tuple(Twice(**vars(layer)) for layer in here.layers))
    (value, grad), (same, wrong) = (each.value_and_grad(Rows(N, by_jax), z) for each in (here, twice))
    np.testing.assert_array_equal(value, same)
    assert np.abs(grad - wrong).max() > 0.1


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])
@pytest.mark.parametrize("then_dense", [True, False], ids=["dense", "diagonal"])
def test_coordinates_of_coordinates(count, dense, then_dense):
    here, inner = coordinates_of(count, dense), coordinates_of(0, then_dense, seed=4)
    z = generator(5).standard_normal((6, N))
    both = here.then(inner.mean, inner.factor)
    np.testing.assert_allclose(both.x(z), here.x(inner.x(z)), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(both.log_volume(), here.log_volume() + inner.log_volume())
    np.testing.assert_allclose(both.log_det(z), here.log_det(inner.x(z)), atol=1e-11)
    assert both.dense == (dense or then_dense)
    assert both.layers is here.layers


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "diagonal"])
def test_widths_and_volumes_are_those_of_the_factor(dense):
    here = coordinates_of(1, dense)
    matrix = here.factor if dense else np.diag(here.factor)
    np.testing.assert_allclose(here.deviations(), np.sqrt(np.diagonal(matrix @ matrix.T)))
    np.testing.assert_allclose(here.log_volume(), np.linalg.slogdet(matrix)[1])
    alone = here.diagonal()
    assert not alone.dense
    assert alone.layers is here.layers
    np.testing.assert_array_equal(alone.factor, here.deviations())


@pytest.mark.parametrize("count", LAYERS)
def test_layers_are_packed_and_unpacked_to_the_bit(count):
    layers = coordinates_of(count, True).layers
    again = unpacked(packed(layers))
    assert len(again) == count
    for one, other in zip(layers, again, strict=True):
        for name, values in vars(one).items():
            assert (vars(other)[name] is None) == (values is None)
            if values is not None:
                np.testing.assert_array_equal(vars(other)[name], values, strict=True, err_msg=name)
    assert unpacked(None) == ()


def test_layers_that_another_version_packed_are_refused():
    """Its vector: number of layers, p, q, whether precisions add, whether there is a basis, arrays. Or one cut off."""
    layer = of_words([0], [1, 2], [[1.0], [1.0]])
    arrays = [values.ravel() for values in vars(layer).values() if values is not None]
    for vector in (np.concatenate([[1, 1, 2, 0, 0], *arrays]), packed((layer,))[:-1], np.r_[packed((layer,)), 0.0]):
        with pytest.raises(ValueError, match="another version's"):
            unpacked(vector)


@pytest.mark.parametrize(
    "kinds", [("", "w"), ("p", "w"), ("p", "pw"), ("pm", "pw"), ("p", "pmw"), ("pm", "pmw"), ("pm", "")]
)
def test_layers_beside_each_other_are_one(kinds):
    """Children of two layers with the same ancestors: pooled (p), in a basis (m), and with scaled locations (w)."""
    rng, parts = generator(9), []
    for kind, children in zip(kinds, ([2, 3, 4], [5, 6]), strict=True):
        layer = layer_of(rng, N, 2, len(children), "p" in kind, "m" in kind, widens="w" in kind)
        where = {"ancestors": np.array([0, 1]), "centre": np.zeros(2), "children": np.array(children)}
        parts.append(replace(layer, **where))
    y, grad = generator(10).standard_normal((2, 11, N))
    x, value = parts[0].x(parts[1].x(y)), parts[0].log_det(y) + parts[1].log_det(y)
    both = beside(*parts)
    np.testing.assert_allclose(both.x(y), x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(both.y(x), y, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(both.log_det(y), value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(both.pull(y, grad), parts[1].pull(y, parts[0].pull(y, grad)), rtol=1e-10, atol=1e-10)


def test_a_state_holds_coordinates():
    for count in (0, 2):
        here, z = coordinates_of(count, True), generator(6).standard_normal((4, N))
        arrays = here.arrays()
        assert all(type(values) is np.ndarray for values in arrays.values())
        assert ("layers" in arrays) == (count > 0)
        np.testing.assert_array_equal(Coordinates.of(arrays | {"other": z}).x(z), here.x(z))


def test_maps_do_not_change_what_they_are_given():
    here, z = coordinates_of(3, True), generator(7).standard_normal((4, N))
    x = here.x(z)
    grad = by_jax(x)[1]
    given = [z, x, grad]
    copies = [each.copy() for each in given]
    here.x(z), here.z(x), here.at(z).pull(grad), here.log_det(z), here.then(np.ones(N), np.ones(N))
    for each, copy in zip(given, copies, strict=True):
        np.testing.assert_array_equal(each, copy)


def test_a_factor_is_inverted_as_the_triangle_that_it_is():
    """Widths as a candidate layer may leave them; elimination with pivots calls this factor singular, or is 10^20 off.

    Which of the two depends on the processor.
    """
    factor = np.array([[-90.0, 0, 0, 0], [-6.8e24, 9e-19, 0, 0], [3.4e34, 2.7e31, 3.2e12, 0], [9e15, 5e7, 4e22, 6e26]])
    try:
        error = np.abs(np.linalg.solve(factor, factor) - np.eye(4)).max()
    except np.linalg.LinAlgError:
        error = np.inf
    assert error > 1e6
    here = Coordinates(np.zeros(4), factor)
    np.testing.assert_allclose(here.z(here.x(np.eye(4))), np.eye(4), atol=1e-12)


def test_no_rows_and_no_pairs():
    nothing = Noncentring(np.zeros(0, int), np.zeros(0, int), *(np.zeros(s) for s in (0, 0, (0, 0), (0, 0))))
    here = Coordinates(np.zeros(N), np.ones(N), (nothing,))
    z = generator(8).standard_normal((3, N))
    np.testing.assert_array_equal(here.x(z), z)
    np.testing.assert_array_equal(here.log_det(z), 0)
    assert here.x(z[:0]).shape == here.z(z[:0]).shape == (0, N)
    (again,) = unpacked(packed((nothing,)))
    assert again.slopes.shape == (0, 0)


# Words


def of_words(ancestors, children, K, B=None):
    K = np.array(K, float)
    B = np.zeros(K.shape) if B is None else np.array(B, float)
    p, q = len(ancestors), len(children)
    return Noncentring(np.array(ancestors), np.array(children), np.zeros(p), np.zeros(q), B, K)


def pools(layer):
    ones = np.ones(len(layer.children))
    return replace(layer, precision=ones, data_precision=ones, data_location=ones)


def centres(layer):
    return replace(pools(layer), location_scales=layer.log_scales)


def bends(layer):
    return replace(layer, bends=np.ones((*layer.slopes.shape, len(layer.ancestors))))


BASIS = np.eye(4) + 0.5 * np.eye(4, k=1) + 0.5 * np.eye(4, k=-1)
SCHOOLS = ["mu", "log_tau", *(f"theta[{i}]" for i in range(3))]


@pytest.mark.parametrize(
    ("layers", "names", "words"),
    [
        (
            [of_words([0, 1], [2, 3, 4], 3 * [[0, 1]], 3 * [[1, 0]])],
            SCHOOLS,
            ["theta is scaled by exp(log_tau), about mu"],
        ),
        (
            [of_words([0, 1], [2, 3, 4], 3 * [[0, 0.98]], [[0.9, 0.2], [1.1, 0.3], [1.2, 0]])],
            SCHOOLS,
            ["theta is scaled by exp(log_tau), about mu"],
        ),
        ([of_words([1], [2, 3, 4], 3 * [[0.5]])], SCHOOLS, ["theta is scaled by exp(0.5 log_tau)"]),
        ([of_words([1], [2, 3, 4], 3 * [[-1]])], SCHOOLS, ["theta is scaled by exp(−log_tau)"]),
        ([of_words([1], [2, 3, 4], 3 * [[-0.5]])], SCHOOLS, ["theta is scaled by exp(−0.5 log_tau)"]),
        ([of_words([0, 1], [2], [[0.9, 0.5]])], SCHOOLS, ["theta[0] is scaled by exp(0.9 mu + 0.5 log_tau)"]),
        ([of_words([0, 1], [2], [[-0.9, -0.5]])], SCHOOLS, ["theta[0] is scaled by exp(−0.9 mu − 0.5 log_tau)"]),
        ([of_words([0, 1], [2], [[0.9, -0.5]])], SCHOOLS, ["theta[0] is scaled by exp(0.9 mu − 0.5 log_tau)"]),
        (
            [of_words([0, 1, 2, 3], [4, 5, 6], [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]])],
            ["log_tau", *(f"log_lambda[{i}]" for i in range(3)), *(f"beta[{i}]" for i in range(3))],
            ["beta is scaled by exp(log_tau + log_lambda)"],
        ),
        (
            [of_words([0], [1, 2, 3], [[1], [1], [2]])],
            ["s", "a[0]", "a[1]", "b"],
            ["a is scaled by exp(s)", "b is scaled by exp(2.0 s)"],
        ),
        (
            [of_words([1], [2], [[1]]), of_words([0], [1], [[0.5]])],
            ["s", "v", "x"],
            ["x is scaled by exp(v)", "v is scaled by exp(0.5 s)"],
        ),
        ([of_words([0], [2, 3], [[0], [0]], [[1], [1]])], SCHOOLS, []),
        (
            [pools(of_words([1], [2, 3, 4], 3 * [[1]]))],
            SCHOOLS,
            ["theta is scaled by exp(log_tau), where data say little"],
        ),
        (
            [centres(of_words([1], [2, 3, 4], 3 * [[-1]]))],
            SCHOOLS,
            ["theta is scaled by exp(−log_tau), where data say much"],
        ),
        (
            [replace(pools(of_words([1], [0, 2, 3, 4], 4 * [[1]])), basis=BASIS)],
            SCHOOLS,
            ["mu and theta are scaled by exp(log_tau), in a basis of their own, where data say little"],
        ),
        (
            [
                beside(
                    replace(pools(of_words([1], [0, 2], 2 * [[1]])), basis=BASIS[:2, :2]), of_words([1], [3], [[-0.3]])
                )
            ],
            SCHOOLS,
            [
                "mu and theta are scaled by exp(log_tau), in a basis of their own, where data say little",
                "theta[1] is scaled by exp(−0.3 log_tau)",
            ],
        ),
        ([bends(of_words([1], [0], [[0]]))], ["x[0]", "x[1]"], ["x[0] lies about a parabola of x[1]"]),
        (
            [bends(of_words([0, 1], [2, 3, 4], 3 * [[0, 1]], 3 * [[1, 0]]))],
            SCHOOLS,
            ["theta is scaled by exp(log_tau), about a parabola of mu and log_tau"],
        ),
        (
            [bends(of_words([2, 3, 4], [0], [[0, 0, 0]]))],
            SCHOOLS,
            ["mu lies about a parabola of theta"],
        ),
        (
            [replace(bends(of_words([1], [0], [[0]])), axes=np.eye(5))],
            SCHOOLS,
            ["mu, log_tau and theta lie about a parabola in axes of their own"],
        ),
        (
            [replace(bends(of_words([1], [0], [[0]])), axes=np.eye(2))],
            ["x[0]", "x[1]"],
            ["x lies about a parabola in axes of its own"],
        ),
        ([], SCHOOLS, []),
    ],
)
def test_layers_in_words(layers, names, words):
    assert in_words(layers, names) == words
