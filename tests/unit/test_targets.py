"""The built-in targets: shapes, labels, derivatives and a pinned value of each."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout import AbstractModel, rwm, sample
from gadabout.targets import Problem, available, load, logistic
from gadabout.targets.log_sigmoid import log_sigmoid

DATA_HOME = Path(os.environ.get("GADABOUT_DATA") or Path(__file__).parents[3] / "shared" / "data")

# name: (rows, weights, rows labelled 1, files)
REGRESSIONS = {
    "breast-cancer": (569, 31, 357, []),
    "ripley": (250, 3, 125, ["synth.tr"]),
    "pima": (532, 8, 177, ["Pima.te.csv", "Pima.tr.csv"]),
    "heart": (270, 14, 120, ["heart.dat"]),
    "australian": (690, 15, 307, ["australian.dat"]),
    "german": (1000, 25, 300, ["german.data-numeric"]),
    "caravan": (5822, 86, 348, ["ticdata2000.txt"]),
    "mnist-56": (11339, 785, 5918, ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]),
    "mnist-56-as-published": (11339, 785, 5918, ["train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"]),
}
GAUSSIANS = {"neal": 100, "correlated-2d": 2, "gp-51d": 51}


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param):
        yield jnp.float64 if request.param else jnp.float32


def problem(name) -> Problem:
    missing = [file for file in REGRESSIONS.get(name, (0, 0, 0, []))[3] if not (DATA_HOME / file).exists()]
    if missing:
        pytest.skip(f"{', '.join(missing)} not in {DATA_HOME}: set GADABOUT_DATA to the folder that holds it")
    if name == "breast-cancer":
        pytest.importorskip("sklearn")
    return load(name, DATA_HOME)


def test_names_and_descriptions():
    assert set(available()) == set(REGRESSIONS) | set(GAUSSIANS)
    assert all(text and "\n" not in text for text in available().values())


def test_listing_loads_no_optional_library():
    code = "import sys; from gadabout.targets import *; available(); print({'pooch', 'sklearn'} & {*sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "set()", run.stderr


def test_an_unknown_name_is_named_with_its_neighbours():
    with pytest.raises(ValueError, match=r"'germen'.*did you mean german.*gadabout list"):
        load("germen")
    with pytest.raises(ValueError, match=r"'\?' is not a built-in one; `gadabout list`"):
        load("?")


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussians(name, dtype):
    target = problem(name)
    assert target.name == name
    assert target.dim == GAUSSIANS[name]
    assert target.covariance is not None
    assert target.covariance.shape == (target.dim, target.dim)
    assert target.data.dtype == dtype
    x = target.start(jax.random.key(0))
    assert x.shape == (target.dim,)
    assert x.dtype == dtype
    precision = -jax.hessian(target.log_density)(x, target.data)
    tolerance = 1e-9 if dtype == jnp.float64 else 2e-3
    np.testing.assert_allclose(target.covariance @ np.asarray(precision), np.eye(target.dim), atol=tolerance)
    np.testing.assert_allclose(
        target.log_density(x, target.data), -0.5 * np.asarray(x) @ np.asarray(precision) @ np.asarray(x), rtol=1e-4
    )


def test_a_problem_is_a_model(dtype):
    target = problem("correlated-2d")
    assert isinstance(target, AbstractModel)
    assert target.layout is not None
    assert (target.layout.names, target.layout.shapes, target.layout.dtypes) == (("x",), ((2,),), (dtype,))
    x = target.start(jax.random.key(0))
    np.testing.assert_array_equal(target.target.log_density(x), target.log_density(x, target.data))
    quick = {"sampler": rwm(), "num_chains": 2, "num_warmup": 20, "num_draws": 30, "progress": False}
    draws = sample(target, **quick)["posterior"]["x"]
    assert draws.shape == (2, 30, 2)
    assert draws.dtype == dtype


def test_gaussian_process_has_the_published_eigenvalues():
    covariance = problem("gp-51d").covariance
    assert covariance is not None
    values = np.linalg.eigvalsh(covariance)
    np.testing.assert_allclose(values[[0, -1]], [0.01, 12.07], atol=0.005)


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions(name, dtype):
    rows, dim, positive, _ = REGRESSIONS[name]
    target = problem(name)
    assert target.name == name
    assert target.dim == dim
    assert target.covariance is None
    assert target.data.shape == (rows, dim)
    assert target.data.dtype == dtype
    signs = np.asarray(target.data[:, -1])
    assert set(signs) == {-1.0, 1.0}
    assert np.sum(signs == 1) == positive
    zero = jnp.zeros(dim)
    value, gradient = jax.jit(jax.value_and_grad(target.log_density))(zero, target.data)
    np.testing.assert_allclose(value, -rows * np.log(2), rtol=1e-6 if dtype == jnp.float32 else 1e-13)
    np.testing.assert_allclose(gradient, np.asarray(target.data, float).sum(0) / 2, rtol=1e-3, atol=1e-2)
    value, gradient = jax.value_and_grad(target.log_density)(100 * target.start(jax.random.key(1)), target.data)
    assert jnp.isfinite(value)
    assert jnp.isfinite(gradient).all()


@pytest.mark.parametrize("name", [name for name in REGRESSIONS if not name.startswith("mnist")])
def test_inputs_are_standardised(name):
    with jax.enable_x64(True):
        signed = np.asarray(problem(name).data)
    inputs = signed[:, :-1] * signed[:, -1:]
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(inputs.var(0, ddof=1), 1, rtol=1e-12)


def test_mnist_pixels_are_only_divided():
    signed = np.asarray(problem("mnist-56").data)
    pixels = signed[:, :-1] * signed[:, -1:]
    assert pixels.min() == 0
    assert pixels.max() == 1
    np.testing.assert_allclose(pixels * 255, np.round(pixels * 255), atol=1e-4)


def test_mnist_labels_belong_to_their_images():
    """A ridge regression gets 2.2 % of the rows wrong; with labels mixed up as in the published run it gets 6.4 %."""
    signed = np.asarray(problem("mnist-56").data, float)
    weights = np.linalg.solve(signed.T @ signed + np.eye(785), signed.sum(0))
    assert np.mean(signed @ weights < 0) < 0.03


def test_mnist_as_published_mislabels_497_sixes():
    right, published = (np.asarray(problem(name).data) for name in ("mnist-56", "mnist-56-as-published"))
    fives, sixes = -right[right[:, -1] < 0], right[right[:, -1] > 0]
    np.testing.assert_array_equal(published[:5421], fives)
    np.testing.assert_array_equal(published[5421:5918], sixes[:497])
    np.testing.assert_array_equal(published[5918:], -sixes[497:])


def test_pima_rows_are_te_then_tr():
    with jax.enable_x64(True):
        signed = np.asarray(problem("pima").data)
    assert (signed[:332, -1] == 1).sum() == 109
    assert (signed[332:, -1] == 1).sum() == 68


def test_constant_column_becomes_zero():
    inputs = np.column_stack([np.full(10, 0.1), np.arange(10.0)])
    assert np.isfinite(logistic.standardise(inputs)).all()
    np.testing.assert_allclose(logistic.standardise(inputs)[:, 0], 0, atol=1e-15)


@pytest.mark.parametrize("derivative", [0, 1, 2, 3])
def test_log_sigmoid_equals_that_of_jax(dtype, derivative):
    z = jnp.concatenate([jnp.linspace(-40, 40, 201), jnp.array([0.0, -0.0, 1e-8, -1e-8])])
    ours, theirs = log_sigmoid, jax.nn.log_sigmoid
    for _ in range(derivative):
        ours, theirs = jax.grad(ours), jax.grad(theirs)
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(jax.vmap(ours)(z), jax.vmap(theirs)(z), rtol=20 * eps, atol=20 * eps)


def test_log_sigmoid_relative_error_in_the_tail(dtype):
    """log σ(z) is −e⁻ᶻ for large z: no digit is lost there."""
    z = jnp.array([20.0, 40.0, 80.0])
    rtol = 2e-6 if dtype == jnp.float32 else 3e-9
    np.testing.assert_allclose(log_sigmoid(z), -np.exp(-np.asarray(z, float)), rtol=rtol)


def test_log_sigmoid_at_extremes(dtype):
    z = jnp.array([-jnp.inf, -1e30, -1e4, 1e4, 1e30, jnp.inf])
    np.testing.assert_array_equal(log_sigmoid(z), jnp.array([-jnp.inf, -1e30, -1e4, 0, 0, 0]))
    np.testing.assert_array_equal(jax.vmap(jax.grad(log_sigmoid))(z), [1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(jax.vmap(jax.grad(jax.grad(log_sigmoid)))(z), 0)
    assert jnp.isnan(log_sigmoid(jnp.nan))
    assert jnp.isnan(jax.grad(log_sigmoid)(jnp.nan))


def test_hessian_vector_products(dtype):
    """Forward over reverse, reverse over reverse and reverse over forward, at zero (where a chain may start) too."""
    rng = np.random.default_rng(0)
    signed, w, v = jnp.asarray(rng.standard_normal((50, 4))), jnp.asarray(rng.standard_normal(4)), jnp.arange(1.0, 5.0)

    def log_density(w):
        return logistic.logistic_log_density(w, signed)

    @jax.jit
    def products(at):
        return [
            jax.jvp(jax.grad(log_density), (at,), (v,))[1],
            jax.grad(lambda x: jax.grad(log_density)(x) @ v)(at),
            jax.grad(lambda x: jax.jvp(log_density, (x,), (v,))[1])(at),
        ]

    for at in (w, jnp.zeros(4)):
        s = jax.nn.sigmoid(signed @ at)
        expected = -v - signed.T @ (s * (1 - s) * (signed @ v))
        for product in products(at):
            np.testing.assert_allclose(product, expected, rtol=1e-4 if dtype == jnp.float32 else 1e-12)


def test_other_data_compile_nothing_anew():
    traced = 0

    @jax.jit
    def value(w, data):
        nonlocal traced
        traced += 1
        return logistic.logistic_log_density(w, data)

    for scale in (1.0, 2.0):
        value(jnp.zeros(3), scale * jnp.ones((10, 3)))
    assert traced == 1
    names = [load(name).log_density.__qualname__ for name in GAUSSIANS]
    assert not any("<locals>" in name for name in names)


def test_files_are_read_and_never_written():
    problem("ripley")
    path = DATA_HOME / "synth.tr"
    before = path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()
    load("ripley", DATA_HOME)
    assert before == (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
