"""Executables that are remembered by the text of their program."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gadabout import executables

ROW = jax.ShapeDtypeStruct((3,), np.float64)
ONES = np.ones(3)
scale = 1.0


def compilations(*programs, **settings):
    before = executables.count()
    for program in programs:
        executables.compiled(*program, **settings)
    return executables.count() - before


def scaled(x):
    return jnp.sum(x) * scale


def step(total, x):
    return total + scale * x, None


def scanned(x):
    return jax.lax.scan(step, 0.0, x)[0]


branches = lambda x: jax.lax.cond(x[0] > 0, scaled, jnp.sum, x)
turns = lambda x: jax.lax.fori_loop(0, 1, lambda i, total: total + scaled(x), 0.0)
IDENTITIES = [scaled, jax.jit(scaled), jax.checkpoint(scaled), scanned, branches, turns]


@pytest.mark.parametrize("function", IDENTITIES)
def test_a_global_counts_as_it_is_now(function, monkeypatch):
    """Also where JAX knows a trace by the identity of a jitted function or of a loop's body."""
    spec = jax.ShapeDtypeStruct((1, 3), np.float64) if function is IDENTITIES[-1] else ROW
    x, found = np.ones(spec.shape), []
    for value in (1.0, 2.0, 1.0):
        monkeypatch.setitem(globals(), "scale", value)
        found.append(float(executables.compiled(function, spec)(x).squeeze()))
    assert found == [3.0, 6.0, 3.0]


@pytest.mark.parametrize("hoisted", [False, True])
@pytest.mark.parametrize("size", [3, 5_000])
@pytest.mark.parametrize("make", [np.full, jnp.full])
def test_another_constant_of_the_same_shape_is_another_program(make, size, hoisted):
    before = jax.config.jax_use_simplified_jaxpr_constants
    jax.config.update("jax_use_simplified_jaxpr_constants", hoisted)  # constants beside the text, as arguments
    try:
        for wrap in (lambda f: f, jax.jit, lambda f: lambda x: jax.lax.fori_loop(0, 1, lambda i, y: f(y), x)):
            constants = [make(size, value) for value in (1.25, 2.5, 1.25)]
            functions = [wrap(lambda x, c=c: x * jnp.sum(c[: len(c)])) for c in constants]
            found = [float(executables.compiled(function, ROW)(ONES)[0]) for function in functions]
            assert found == [1.25 * size, 2.5 * size, 1.25 * size]
            assert compilations(*((function, ROW) for function in functions)) == 0
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", before)


def test_an_array_that_changed_in_place_is_another_constant():
    array = np.arange(3.0)
    function = lambda x: x @ array
    assert executables.compiled(function, ROW)(ONES) == 3
    array[0] = 7
    assert executables.compiled(function, ROW)(ONES) == 10


def test_random_keys_are_constants():
    keys = [jax.random.key(seed) for seed in (71, 72, 71)]
    functions = [lambda x, key=key: x + jax.random.uniform(key, (3,)) for key in keys]
    first, other, again = (executables.compiled(function, ROW) for function in functions)
    assert first is again
    assert not np.array_equal(first(ONES), other(ONES))


def test_the_same_program_of_other_functions_is_compiled_once():
    functions = [lambda x: jnp.sum(x) * 0.671, lambda y: 0.671 * jnp.sum(y)]
    one, other = (executables.compiled(function, ROW) for function in functions[:1] * 2)
    assert one is other
    assert compilations((lambda z: jnp.sum(z) * 0.671, ROW)) == 0


def test_arguments_that_are_not_used_stay_apart():
    data = {"y1": ROW, "y2": ROW}
    found = [
        float(executables.compiled(lambda data, name=name: jnp.sum(data[name]), data)({"y1": ONES, "y2": 2 * ONES}))
        for name in ("y1", "y2")
    ]
    assert found == [3, 6]


def test_callbacks_are_never_remembered():
    like = jax.ShapeDtypeStruct((3,), np.float64)
    functions = [lambda x, k=k: jax.pure_callback(lambda x: k * np.asarray(x), like, x) for k in (1.0, 2.0)]
    assert [executables.compiled(function, ROW)(ONES)[0] for function in functions] == [1.0, 2.0]
    assert compilations(*[(functions[0], ROW)] * 2) == 2


def test_references_are_never_remembered():
    reference = jax.new_ref(jnp.ones(3))
    assert compilations(*[(lambda x: x + reference[...], ROW)] * 2) == 2


def test_settings_options_types_and_devices_are_parts_of_the_key():
    function = lambda x: 0.3172 * x @ x
    one, other = (jax.sharding.SingleDeviceSharding(device) for device in jax.devices()[:2])
    specs = [jax.ShapeDtypeStruct((3,), np.float64, sharding=sharding) for sharding in (one, other)]
    assert compilations((function, ROW), (function, specs[0]), (function, specs[1]), (function, ROW)) == 3
    assert compilations((function, ROW), options={"xla_backend_optimization_level": 0}) == 1
    with jax.default_matmul_precision("highest"):
        assert compilations((function, ROW)) == 1
    with jax.enable_x64(False):
        narrow = executables.compiled(function, jax.ShapeDtypeStruct((3,), np.float32))
    assert narrow(np.ones(3, np.float32)).dtype == np.float32  # called where JAX has the other precision
    wide = executables.compiled(function, ROW)
    with jax.enable_x64(False):
        assert wide(ONES).dtype == np.float64


def test_meshes_inside_a_function_are_parts_of_the_key():
    meshes = [jax.sharding.Mesh(np.array(jax.devices()[i : i + 2]), ("rows",)) for i in (0, 2)]
    spec = jax.sharding.PartitionSpec("rows")
    over = lambda mesh: jax.shard_map(lambda x: 2 * x, mesh=mesh, in_specs=spec, out_specs=spec)
    found = [executables.compiled(over(mesh), jax.ShapeDtypeStruct((4,), np.float64))(np.ones(4)) for mesh in meshes]
    assert found[0].devices() != found[1].devices()


def test_several_are_compiled_side_by_side_and_traced_here():
    threads = []

    def function(x):
        threads.append(threading.current_thread())
        return 0.913 * x

    futures = executables.side_by_side((function, ROW), (lambda x: function(function(x)), ROW))
    assert [float(future.result()(ONES)[0]) for future in futures] == pytest.approx([0.913, 0.913**2])
    assert threads == [threading.current_thread()] * 3


def test_errors_of_tracing_are_raised_at_once_and_of_the_compiler_each_time():
    with pytest.raises(ZeroDivisionError):
        executables.side_by_side((lambda x: 1 / 0, ROW))
    for _ in range(2):
        (future,) = executables.side_by_side((jnp.sum, ROW), options={"no_such_option": 1})
        with pytest.raises(Exception, match="no_such_option"):
            future.result()


def test_threads_share_a_compilation():
    before, barrier, found = executables.count(), threading.Barrier(4), []

    def compile_it():
        barrier.wait()
        found.append(executables.compiled(lambda x: jnp.sum(x) * 0.4447, ROW))

    threads = [threading.Thread(target=compile_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert executables.count() == before + 1
    assert len(set(map(id, found))) == 1


def test_those_used_last_are_remembered(monkeypatch):
    monkeypatch.setattr(executables, "MOST", 2)
    executables.forget()
    first, second, third = ((lambda x, k=k: x + k, ROW) for k in (0.101, 0.202, 0.303))
    assert compilations(first, second, first, third, first) == 3
    assert compilations(second) == 1
