"""Log densities that no proper posterior has: refused within few evaluations; proper ones, however far, are not."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.density.base import AbstractDensity
from gadabout.ensemble.ascent import climb_to_typical_set
from gadabout.ensemble.growth import Improper, grows, refuse_directions, too_flat

ROWS = np.random.default_rng(0).normal(size=(60, 3))
ONES = np.random.default_rng(1).integers(0, 2, 60)


class Density(AbstractDensity):
    """Of a function of rows that returns log π and its gradient, computed in some precision."""

    def __init__(self, function, dim, dtype=np.float64):
        super().__init__(dim)
        self.function, self.dtype = function, dtype

    def _value_and_grad(self, x):
        value, grad = (np.asarray(part, self.dtype) for part in self.function(x.astype(self.dtype)))
        return value.astype(float), grad.astype(float)

    def _value(self, x):
        return self._value_and_grad(x)[0]


def gaussian(scale=1.0):
    return lambda x: (-0.5 * np.sum((x / scale) ** 2, 1), -x / scale**2)


def student(nu, scale=1.0):
    """Independent Student's t."""

    def function(x):
        z = x / scale
        return -(nu + 1) / 2 * np.sum(np.log1p(z**2 / nu), 1), -(nu + 1) * z / (nu + z**2) / scale

    return function


def logistic_regression(x):
    a = x @ ROWS.T.astype(x.dtype)
    value = a @ ONES - np.sum(np.logaddexp(0, a), 1) - 0.5 * np.sum(x**2, 1)
    return value, (ONES - 0.5 * (1 + np.tanh(a / 2))) @ ROWS.astype(x.dtype) - x


def minus(function):
    return lambda x: tuple(-part for part in function(x))


def linear_in_second(x):
    return -0.5 * x[:, 0] ** 2 + x[:, 1], np.column_stack([-x[:, 0], np.ones(len(x)), np.zeros(len(x))])


def flat_in_second(x):
    return -0.5 * x[:, 0] ** 2, np.column_stack([-x[:, 0], np.zeros((len(x), 2))])


def climbed(function, starts, dtype=np.float64, kind="dense"):
    density = Density(function, starts.shape[1], dtype)
    with np.errstate(all="ignore"):
        return climb_to_typical_set(density, starts, kind, names=["a", "b", "c"])


STARTS = np.random.default_rng(2).normal(size=(16, 3))
IMPROPER = {
    "minus a Gaussian": minus(gaussian()),
    "minus a logistic regression": minus(logistic_regression),
    "minus a Student-t": minus(student(3.0)),
    "linear": lambda x: (x.sum(1), np.ones_like(x)),
    "linear in one coordinate": linear_in_second,
    "a square root": lambda x: (np.sum(np.abs(x) ** 0.5, 1), 0.5 * np.sign(x) * np.abs(x) ** -0.5),
}


@pytest.mark.parametrize("name", IMPROPER)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_density_that_grows_without_bound_is_refused_within_few_gradients(name, dtype):
    density = Density(IMPROPER[name], 3, dtype)
    with np.errstate(all="ignore"), pytest.raises(Improper, match=r"grows without bound along .*is the sign right"):
        climb_to_typical_set(density, STARTS, "dense", names=["a", "b", "c"])
    assert density.gradients < 13_000  # two ascents of 16 chains in full
    assert density.values < 2_000


@pytest.mark.parametrize("function", [flat_in_second, lambda x: (np.zeros(len(x)), np.zeros_like(x))])
def test_a_density_that_does_not_depend_on_a_coordinate_is_refused_by_its_name(function):
    with pytest.raises(Improper, match=r"does not fall along .*b.*proper prior"):
        climbed(function, STARTS)


def test_one_that_falls_more_slowly_than_any_proper_one_is_refused():
    """Student's t of 0.01 degrees of freedom is proper, 1/|x|^0.5 is not."""
    climbed(student(0.01), STARTS)
    with pytest.raises(Improper, match="does not fall"):
        climbed(lambda x: (-0.25 * np.sum(np.log1p(x**2), 1), -0.5 * x / (1 + x**2)), STARTS)


PROPER = {
    "Gaussian": gaussian,
    "Student-t": lambda scale: student(3.0, scale),
    "Cauchy": lambda scale: student(1.0, scale),
}


@pytest.mark.parametrize("name", PROPER)
@pytest.mark.parametrize("scale", [1e-10, 1e-3, 1.0, 1e5, 1e10])
@pytest.mark.parametrize("away", [0.0, 1e3])
@pytest.mark.parametrize("kind", ["dense", "diagonal"])
def test_proper_posteriors_in_any_units_are_not_refused_from_a_thousand_deviations_away(name, scale, away, kind):
    tails = climbed(PROPER[name](scale), scale * (away + STARTS), kind=kind).tails
    assert set(tails) == (set("abc") if name == "Cauchy" else set())


@pytest.mark.parametrize("name", PROPER)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_nor_where_chains_start_at_random_in_other_units_than_the_posteriors(name, scale):
    climbed(PROPER[name](scale), STARTS)


def test_nor_a_regression_from_afar_in_either_precision():
    for dtype in (np.float64, np.float32):
        climbed(logistic_regression, 1e3 * STARTS, dtype)


def student_of_all(nu):
    """A Student's t of three coordinates together."""

    def function(x):
        square = np.sum(x**2, 1)
        return -(nu + 3) / 2 * np.log1p(square / nu), -(nu + 3) * x / (nu + square)[:, None]

    return function


@pytest.mark.parametrize("make", [student, student_of_all])
@pytest.mark.parametrize("nu", [0.5, 1.0, 2.0, 2.1, 3.0, 5.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tails_without_a_variance_have_their_index(make, nu, dtype):
    """k = 1/ν; a variance is there from ν > 2 on."""
    tails = climbed(make(nu), STARTS, dtype).tails
    assert tails == ({} if nu > 2 else pytest.approx(dict.fromkeys("abc", 1 / nu), rel=2e-3))


def test_one_heavy_coordinate_among_light_ones_is_named():
    def function(x):
        light, heavy = gaussian()(x[:, [0, 2]]), student(1.0)(x[:, 1:2])
        return light[0] + heavy[0], np.column_stack([light[1][:, 0], heavy[1], light[1][:, 1]])

    assert climbed(function, STARTS).tails == {"b": pytest.approx(1.0, rel=2e-3)}


def test_rays_are_judged_by_their_last_decades():
    """A valley before the rise, NaN after it, and a rise that ends in a fall."""
    decades = np.arange(40.0)
    rows = np.stack(
        [np.abs(decades - 10), np.where(decades < 30, decades, np.nan), -np.abs(decades - 30), -2 * decades]
    )
    assert grows(rows).tolist() == [True, True, False, False]
    assert too_flat(rows).tolist() == [True, True, True, True]
    assert too_flat(-3 * rows[3:]).tolist() == [True]
    assert not too_flat(1.5 * rows[3:])[0]


def test_sample_says_that_the_sign_may_be_wrong_and_names_the_variable():
    with pytest.raises(ValueError, match=r"grows without bound along b\[0\].*is the sign right"):
        gad.sample(lambda p: p["b"] @ p["b"] - 0.5 * p["a"] ** 2, {"a": 0.0, "b": jnp.zeros(1)}, progress=False)


def test_an_improper_posterior_leaves_no_store(tmp_path):
    with pytest.raises(ValueError, match=r"does not fall along b"):
        gad.sample(lambda p: -0.5 * p["a"] ** 2, {"a": 0.0, "b": 0.0}, progress=False, out=tmp_path / "run.zarr")
    assert not list(tmp_path.iterdir())


GROUP = np.array([0, 0, 1, 1, 2, 2])
COUNTS = np.array([3.0, 5.0, 2.0])
COLLINEAR = np.column_stack([ROWS, ROWS @ [0.3, -1.7, 0.9]])


def _softmax(p):
    return COUNTS @ jax.nn.log_softmax(p["b"]) - 0.5 * jnp.sum(p["a"] ** 2)


def _intercept_and_groups(p):
    return -0.5 * jnp.sum((jnp.arange(6.0) - p["a"] - p["b"][GROUP]) ** 2) - 0.5 * p["c"] ** 2


def _collinear(p):
    a = COLLINEAR @ p["b"]
    return a @ ONES - jnp.sum(jax.nn.softplus(a))


TOGETHER = {
    "a sum": (lambda p: -0.5 * (p["a"] + p["b"]) ** 2 - 0.5 * p["c"] ** 2, ["a", "b", "c"], {"a", "b"}),
    "softmax": (_softmax, {"a": 2, "b": 3}, {"b[0]", "b[1]", "b[2]"}),
    "intercept and groups": (_intercept_and_groups, {"a": None, "b": 3, "c": None}, {"a", "b[0]", "b[1]", "b[2]"}),
    "collinear columns": (_collinear, {"b": 4}, {"b[0]", "b[1]", "b[2]", "b[3]"}),
}


def zeros(shapes):
    shapes = dict.fromkeys(shapes) if isinstance(shapes, list) else shapes
    return {name: 0.0 if size is None else jnp.zeros(size) for name, size in shapes.items()}


@pytest.mark.parametrize("name", TOGETHER)
def test_a_flat_direction_of_several_coordinates_is_refused_by_their_names(name):
    log_density, shapes, names = TOGETHER[name]
    with pytest.raises(ValueError, match=r"does not fall where .* change together") as caught:
        gad.sample(log_density, zeros(shapes), progress=False)
    told = str(caught.value).split("where ")[1].split(" change")[0]
    assert set(told.split(" and ")[0].split(", ")) <= names


def test_so_is_one_along_which_log_pi_rises():
    with pytest.raises(ValueError, match=r"grows without bound along (a, b|b, a);"):
        gad.sample(lambda p: -0.5 * (p["a"] - p["b"]) ** 2 + 0.1 * p["a"], zeros(["a", "b"]), progress=False)


@pytest.mark.parametrize("sd", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("tails", ["normal", "Cauchy"])
def test_a_vague_prior_along_such_a_direction_is_proper(sd, tails):
    """Nor is a narrow ridge refused."""
    prior = {"normal": lambda z: -0.5 * z**2, "Cauchy": lambda z: -np.log1p(z**2)}[tails]
    slope = {"normal": lambda z: -z, "Cauchy": lambda z: -2 * z / (1 + z**2)}[tails]

    def function(x):
        apart, mean = x[:, 0] - x[:, 1], (x[:, 0] + x[:, 1]) / sd
        across, along = -apart, slope(mean) / sd
        value = -0.5 * apart**2 + prior(mean) - 0.5 * x[:, 2] ** 2
        return value, np.column_stack([across + along, -across + along, -x[:, 2]])

    refuse_directions(Density(function, 3), STARTS[0], function(STARTS[:1])[0][0], np.ones(3), ["a", "b", "c"])


@pytest.mark.parametrize("scale", [1e-2, 1e-3])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_steep_side_that_starts_are_on_is_not_taken_for_a_flat_direction(scale, seed):
    """exp(−x) is 10⁴³ and more there, so that widths by curvature are far too small."""
    density = lambda x: -x[0] / scale - jnp.exp(-x[0] / scale) - 0.5 * jnp.sum((x[1:] / scale) ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = gad.sample(density, jnp.zeros(3), seed=seed, num_draws=100, progress=False)
    assert tree["posterior"].sizes["draw"] == 100
