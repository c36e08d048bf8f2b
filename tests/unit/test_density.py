"""Batches of positions in, log π and gradients out, counted."""

import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from gadabout import executables
from gadabout.density import HostDensity, InThreads, JaxDensity, RowsDensity, density_of
from gadabout.layout import layout_of
from gadabout.target import LogDensityError, Target

DIM, CHAINS, BLOCK = 3, 4, 32
ROWS = [1, 3, 4, 5, 31, 32, 33, 70]
scale = 1.0


def rows(m, dim=DIM):
    return np.random.default_rng(m).normal(size=(m, dim))


def log_density(x):
    return -jnp.sum(jnp.cosh(x)) + x[0] * x[1]


def density(function, data=None, **settings):
    return JaxDensity(Target(function, data), DIM, CHAINS, BLOCK, **settings)


def value_at_ones(function, data=None):
    return float(density(function, data).value(np.ones((1, DIM)))[0])


def check(made, function, x, rtol=1e-13):
    values, gradients = jax.vmap(jax.value_and_grad(function))(jnp.asarray(x))
    found = made.value_and_grad(x)
    np.testing.assert_allclose(found[0], values, rtol=rtol)
    np.testing.assert_allclose(found[1], gradients, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(made.value(x), values, rtol=rtol)
    for array in (*found, made.value(x)):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64


def test_operations_of_a_gradient_are_counted():
    """A product of a matrix with x, and of its transpose with what follows, is 4 m n of them."""
    data = jnp.asarray(rows(200))
    made = density(lambda x, data: -0.5 * jnp.sum((data @ x) ** 2), data)
    assert 4 * 200 * DIM <= made.operations <= 6 * 200 * DIM


@pytest.mark.parametrize("chain_block", [None, 1, 2, 3])
def test_any_number_of_rows_has_the_values_and_gradients_of_jax(chain_block):
    made = density(log_density, chain_block=chain_block)
    for m in ROWS:
        check(made, log_density, rows(m))
    assert made.gradients == sum(ROWS)
    assert made.values == 2 * sum(ROWS)
    assert made.value(np.empty((0, DIM))).shape == (0,)
    assert [part.shape for part in made.value_and_grad(np.empty((0, DIM)))] == [(0,), (0, DIM)]


def test_rows_of_another_shape_are_refused():
    for x in (np.ones(DIM), np.ones((2, DIM + 1))):
        with pytest.raises(ValueError, match=r"rows of shape \(m, 3\)"):
            density(log_density).value(x)


def test_rows_that_are_not_finite_leave_others_alone():
    x = rows(5)
    x[0], x[3] = np.nan, np.inf
    values, gradients = density(log_density).value_and_grad(x)
    assert np.isfinite(values).tolist() == [False, True, True, False, True]
    assert np.isfinite(gradients[[1, 2, 4]]).all()


def test_a_density_in_single_precision_stays_so():
    with jax.enable_x64(False):
        made = density(log_density)
    assert made.dtype == np.float32
    check(made, log_density, rows(5), rtol=2e-5)
    assert np.array_equal(made.value(rows(5)), made.value(rows(5)).astype(np.float32))


def test_data_of_the_same_shape_compile_nothing():
    function = lambda x, data: -data["scale"] * jnp.sum(x**2) + data["shift"]
    assert value_at_ones(function, {"scale": 2.0 * jnp.ones(()), "shift": jnp.ones(())}) == -5
    before = executables.count()
    assert value_at_ones(function, {"scale": jnp.ones(()), "shift": jnp.zeros(())}) == -3
    assert executables.count() == before


def test_data_that_are_not_used_stay_apart():
    data = {"y1": jnp.ones(DIM), "y2": 2 * jnp.ones(DIM)}
    assert value_at_ones(lambda x, data: x @ data["y1"], data) == 3
    assert value_at_ones(lambda x, data: x @ data["y2"], data) == 6


def test_the_same_density_again_is_traced_and_not_compiled():
    traces = []

    def traced(x):
        traces.append(x)
        return -0.7717 * jnp.sum(x**2)

    for compilations in (2, 0):
        before = executables.count()
        density(traced)
        assert executables.count() - before == compilations
    assert len(traces) == 2, "value and gradient share a trace"


def helper(x):
    return jnp.sum(x)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
@pytest.mark.parametrize("edit", ["global", "helper", "in place", "nonlocal", "attribute"])
def test_what_was_edited_counts_as_it_is_now(edit, wrap, monkeypatch):
    array, factor = np.ones(DIM), 1.0

    class Model:
        factor = 1.0

        def __call__(self, x):
            return self.factor * jnp.sum(x)

    def redefine():
        nonlocal factor
        factor = 2.0

    model = Model()
    functions = {
        "global": lambda x: scale * jnp.sum(x),
        "helper": lambda x: helper(x),
        "in place": lambda x: array @ x,
        "nonlocal": lambda x: factor * jnp.sum(x),
        "attribute": model,
    }
    edits = {
        "global": lambda: monkeypatch.setitem(globals(), "scale", 2.0),
        "helper": lambda: monkeypatch.setitem(globals(), "helper", lambda x: 2 * jnp.sum(x)),
        "in place": lambda: array.fill(2.0),
        "nonlocal": redefine,
        "attribute": lambda: setattr(model, "factor", 2.0),
    }
    function = wrap(functions[edit])
    assert value_at_ones(function) == 3
    edits[edit]()
    assert value_at_ones(function) == 6


def test_errors_of_the_users_function_are_raised_when_it_is_traced():
    with pytest.raises(LogDensityError, match="scalar"):
        density(lambda x: x)
    with pytest.raises(ZeroDivisionError):
        density(lambda x: 1 / 0)


def logistic(w, signed):
    return -0.5 * w @ w + jnp.sum(jax.nn.log_sigmoid(signed @ w))


def bits(devices, chain_block, dim=25):
    """Values and gradients of a regression, as bytes, with rows laid over so many devices, or over none."""
    mesh = Mesh(np.array(jax.devices()[:devices]), ("chains",)) if devices else None
    signed = jnp.asarray(np.random.default_rng(0).normal(size=(300, dim)))
    made = JaxDensity(Target(logistic, signed), dim, 8, 24, mesh, chain_block)
    arrays = [*made.value_and_grad(rows(8, dim)), made.value(rows(24, dim)), made.value(rows(61, dim))]
    return b"".join(array.tobytes() for array in arrays)


@pytest.mark.parametrize("chain_block", [None, 2])
@pytest.mark.parametrize("devices", [1, 3, 4])
def test_rows_are_laid_over_devices(devices, chain_block):
    mesh = Mesh(np.array(jax.devices()[:devices]), ("chains",))
    function = lambda x, data: log_density(x) - jnp.sum(data * jax.lax.scan(lambda s, v: (s + v, s), 0.0, x)[1])
    made = density(function, np.arange(3.0), mesh=mesh, chain_block=chain_block)
    for m in ROWS:
        check(made, lambda x: function(x, jnp.arange(3.0)), rows(m))


def test_blocks_have_the_same_bits_on_any_number_of_devices():
    found = {bits(devices, 2) for devices in (None, 1, 2, 4)}
    script = "import sys, test_density; sys.stdout.write(test_density.bits(None if sys.argv[1] == '0' else 1, 2).hex())"
    for devices, forced in ((0, 1), (1, 4)):
        settings = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={forced}", "JAX_ENABLE_X64": "1"}
        environment = {**os.environ, **settings, "PYTHONPATH": os.path.dirname(__file__)}
        if jax.config.read("jax_disable_most_optimizations"):
            environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        command = [sys.executable, "-c", script, str(devices)]
        found.add(
            bytes.fromhex(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)
        )
    assert len(found) == 1


def normal(x):
    return -0.5 * np.sum(x**2, 1), -x


def test_rows_of_the_host_are_counted_and_checked():
    made = RowsDensity(normal, DIM)
    check(made, lambda x: -0.5 * jnp.sum(x**2), rows(5))
    assert (made.values, made.gradients) == (10, 5)
    assert RowsDensity(normal, DIM, value_rows=lambda x: np.full(len(x), 7)).value(rows(2)).tolist() == [7, 7]
    with pytest.raises(TypeError, match="no gradient"):
        RowsDensity(normal, DIM, differentiable=False).value_and_grad(rows(2))


@pytest.mark.parametrize("names", [None, ("a", "c", "b")])
def test_rows_of_the_host_hold_leaves_in_their_own_order(names):
    """The layout keeps the order in which a dict was written; rows have that of `names`, or JAX's, which is sorted."""
    position = {"c": np.zeros(2), "a": np.zeros(()), "b": np.zeros((2, 2))}
    weights = {"c": np.arange(1.0, 3.0), "a": np.array(3.0), "b": np.arange(4.0, 8.0).reshape(2, 2)}
    flat = np.concatenate([np.ravel(weights[name]) for name in names or sorted(weights)])
    target = Target(HostDensity(lambda x: (x**2 @ flat, 2 * x * flat), names=names), None, layout_of(position))
    before = executables.count()
    made = density_of(target, 7, chains=CHAINS, block=BLOCK)
    check(made, lambda x: x**2 @ jnp.arange(1.0, 8.0), rows(5, 7))
    assert isinstance(made, RowsDensity)
    assert executables.count() == before
    jax_made = JaxDensity(target, 7, CHAINS, BLOCK)
    np.testing.assert_allclose(jax_made.value_and_grad(rows(5, 7))[1], made.value_and_grad(rows(5, 7))[1], rtol=1e-13)


def test_functions_of_the_host_that_are_called_from_jax_are_never_remembered():
    for factor in (1.0, 2.0):
        function = HostDensity(lambda x, k=factor: (k * np.sum(x, 1), np.full_like(x, k)))
        assert value_at_ones(function) == 3 * factor


def test_transforms_take_their_jacobian_from_jax():
    constraints = pytest.importorskip("numpyro.distributions").transforms
    layout = layout_of({"b": np.ones(1), "a": np.ones(2)}, transforms={"a": constraints.ExpTransform()})
    target = Target(HostDensity(lambda x: (-np.sum(x, 1), -np.ones_like(x))), None, layout)
    made = density_of(target, 3, chains=CHAINS, block=BLOCK)
    check(made, lambda x: -x[0] - jnp.sum(jnp.exp(x[1:])) + jnp.sum(x[1:]), rows(5))


def test_one_position_at_a_time_is_evaluated_in_threads():
    barrier, used = threading.Barrier(3, timeout=20), set()

    def one(x):
        barrier.wait()  # passed once three threads are in it: waiting releases the lock
        used.add(threading.get_ident())
        return (-np.inf, None) if x[0] == 9 else (-0.5 * x @ x, -x)

    x = rows(6)
    x[4] = 9.0
    values, gradients = RowsDensity(InThreads(one, 3), DIM).value_and_grad(x)
    good = np.arange(6) != 4
    np.testing.assert_allclose(values[good], normal(x)[0][good])
    assert values[4] == -np.inf
    assert np.array_equal(gradients, np.where(good[:, None], -x, 0))
    assert len(used) == 3


def test_errors_of_threads_name_their_row():
    def one(x):
        if x[0] == 2:
            raise ArithmeticError("no density here")
        return 0.0, x

    x = np.arange(5.0)[:, None]
    with pytest.raises(ArithmeticError, match="no density here") as raised:
        RowsDensity(InThreads(one, 2), 1).value(x)
    assert raised.value.__notes__ == ["log density of row 2: [2.]"]
    assert InThreads(one, 2)(np.empty((0, 1)))[0].shape == (0,)


def test_a_host_density_compiles_nothing():
    script = """
import numpy as np, jax
from jax import monitoring
seen = []
monitoring.register_event_duration_secs_listener(lambda name, *_, **__: seen.append(name))
from gadabout.density import HostDensity, density_of
from gadabout.target import Target
made = density_of(Target(HostDensity(lambda x: (-x.sum(1), -np.ones_like(x)))), 2, chains=2, block=4)
assert made.value(np.ones((2, 2))).tolist() == [-2, -2]
assert not [name for name in seen if "compile" in name or "trace" in name], seen
"""
    subprocess.run([sys.executable, "-c", script], check=True)
