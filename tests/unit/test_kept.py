"""What other processes compiled is found by what it was made from, and by nothing else.

Another process is played by this one once it has forgotten all programs, but where LAPACK has to be found.
"""

import os
import subprocess
import sys
from concurrent.futures import Future
from contextlib import nullcontext

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout import early
from gadabout.driver import kept, loop, programs
from gadabout.driver.engine import Engine
from gadabout.driver.kept import name_of, recalled
from gadabout.model import Model
from gadabout.schedule import judge


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_folder", None)
    gad.keep_programs(tmp_path)
    yield tmp_path / "gadabout"
    programs.forget()


def model(scale=1.0, n=3):
    """A model whose function is another each time."""
    return Model(lambda x: -0.5 * jnp.sum((x / scale) ** 2), jnp.zeros(n))


def drawn(sampler, log_density, **settings):
    programs.forget()
    tree = gad.sample(
        log_density, jnp.zeros(3), sampler=sampler, num_warmup=40, num_draws=60, progress=False, **settings
    )
    return tree["posterior"]["x"].values


def test_another_process_lowers_nothing_and_makes_the_same_draws(folder, monkeypatch):
    log_density = lambda: lambda x: -0.5 * jnp.sum(x**2) - jnp.sum(x**4)
    first = drawn(gad.gad_mala(), log_density())
    lowered = []
    monkeypatch.setattr(programs.Program, "lower", lambda *program, **named: lowered.append(program))
    np.testing.assert_array_equal(drawn(gad.gad_mala(), log_density()), first)
    assert not lowered
    monkeypatch.undo()
    np.testing.assert_array_equal(drawn(gad.gad_mala(), log_density()), first)  # as programs that nobody keeps


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("move", ["independence", "local", "sturdy"])
def test_what_was_chosen_in_another_process_is_there_before_it_is_chosen(folder, monkeypatch, move):
    """Nothing is lowered then, and nothing compiled that JAX's cache does not have, whichever the choice was."""
    monkeypatch.setattr(judge, "decide", lambda evidence: move)
    log_density = lambda x: -0.5 * jnp.sum(x**2) - jnp.sum(x**4)
    first = drawn(None, log_density)
    asked, chosen, missed = [], [], []
    ahead, choose = programs.Program.ahead, Engine.choose

    def listen(self, *arguments, **named):
        asked.append((self.function.__name__, arguments[0][0].name if self.function is loop._advance.function else ""))
        return ahead(self, *arguments, **named)

    monkeypatch.setattr(programs.Program, "ahead", listen)
    monkeypatch.setattr(Engine, "choose", lambda self, *told: chosen.append(list(asked)) or choose(self, *told))
    monkeypatch.setattr(programs.Program, "lower", lambda *program, **named: missed.append(program))
    note = lambda event, **more: missed.append(event) if "cache_misses" in event else None
    jax.monitoring.register_event_listener(note)
    try:
        np.testing.assert_array_equal(drawn(None, log_density), first)
    finally:
        jax.monitoring.unregister_event_listener(note)
    drawing = {"independence": "local-global", "local": "split-hmc", "sturdy": "nuts"}[move]
    assert ("_advance", drawing) in chosen[0]
    assert not missed


LOADED = """
import sys, jax.numpy as jnp, gadabout as gad
gad.keep_programs(sys.argv[1])
settings = {"num_warmup": 40, "num_draws": 5, "progress": False}
tree = gad.sample(lambda x: -0.5 * jnp.sum(x**2), jnp.zeros(2), sampler=gad.am(), **settings)
print(*tree["posterior"]["x"].values.ravel())
assert not {"scipy.linalg", "scipy.special"} & set(sys.modules), "they take as long to import as a run takes"
import scipy.linalg.cython_lapack
assert scipy.linalg.cython_lapack.__pyx_capi__ and scipy.linalg.cholesky([[4.0]]) == 2.0
"""


def test_a_process_that_lowers_nothing_finds_lapack(tmp_path):
    """A program with a Cholesky factorisation that is loaded ends the process else. SciPy is there, as ever, later."""
    ran = [
        subprocess.run([sys.executable, "-c", LOADED, tmp_path], env=os.environ, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [process.returncode for process in ran] == [0, 0], ran[1].stderr
    assert ran[0].stdout == ran[1].stdout


def test_a_program_that_cannot_be_loaded_is_compiled_anew(folder):
    log_density = lambda x: -jnp.sum(x**2)
    first, torn = drawn(gad.gad_mala(), log_density), []
    for path in folder.iterdir():
        if len(found := kept.recall(path.name)) == 4:  # a program, and the forms of what it takes and gives
            torn.append(kept.remember(path.name, (b"torn", *found[1:])))
    assert torn
    np.testing.assert_array_equal(drawn(gad.gad_mala(), log_density), first)


def test_a_program_that_could_not_be_begun_with_is_compiled_anew(folder, monkeypatch):
    log_density = lambda x: -jnp.sum(x**2)
    first, asked = drawn(gad.gad_mala(), log_density), []

    def failed(name):
        asked.append(name)
        future = Future()
        future.set_exception(OSError("no such file"))
        return future

    monkeypatch.setattr(early, "begun", failed)
    np.testing.assert_array_equal(drawn(gad.gad_mala(), log_density), first)
    assert asked


def test_what_is_kept_here_is_not_written_by_jax_too(folder, monkeypatch):
    shortest = jax.config.jax_persistent_cache_min_compile_time_secs
    cache = kept.Path(jax.config.jax_compilation_cache_dir)
    written = lambda: [path.name for path in cache.iterdir() if kept.edition() in path.name]
    drawn(gad.gad_mala(), lambda x: -0.5 * jnp.sum(x**2) - 0.7 * jnp.sum(x**4))
    assert not written()
    assert jax.config.jax_persistent_cache_min_compile_time_secs == shortest
    monkeypatch.setattr(kept, "_unwritten_by_jax", nullcontext)
    drawn(gad.gad_mala(), lambda x: -0.5 * jnp.sum(x**2) - 0.8 * jnp.sum(x**4))
    assert written()


def test_what_jax_had_in_its_own_cache_is_not_written_again(folder, monkeypatch):
    """XLA has lost a part of such a program: whoever loads it would be told that there is no such function."""
    monkeypatch.setattr(kept, "_unwritten_by_jax", nullcontext)  # as where programs were not kept
    log_density = lambda x: -0.5 * jnp.sum(x**2) - jnp.sum(x**6)
    first = drawn(gad.gad_mala(), log_density)
    programs_kept = lambda: [path for path in folder.iterdir() if path.stat().st_size > 5_000]
    assert programs_kept()
    for path in folder.iterdir():
        path.unlink()
    for _ in range(2):
        np.testing.assert_array_equal(drawn(gad.gad_mala(), log_density), first)
    assert not programs_kept()


def test_another_log_density_has_its_own_programs(folder):
    wide, narrow = (drawn(gad.rwm(), lambda x, s=scale: -0.5 * jnp.sum((x / s) ** 2)) for scale in (1.0, 0.1))
    assert narrow.std() < 0.5 * wide.std()


def name(made=None, sampler=None, positions=None):
    """The name of the program that starts a run."""
    made, sampler = made or model(), sampler or gad.gad_mala()
    warm = loop.Warm(
        jax.random.split(jax.random.key(0), 2), jnp.uint32(0), jnp.zeros((2, 3)) if positions is None else positions
    )
    return name_of((loop.start.function,), (sampler, made.target, warm, True))


def test_what_is_made_again_has_the_same_name(folder):
    assert name() == name() is not None


@pytest.mark.parametrize(
    "other",
    [
        lambda: name(model(scale=2.0)),
        lambda: name(Model(lambda x, data: -0.5 * jnp.sum((x / data) ** 2), jnp.zeros(3), data=jnp.ones(()))),
        lambda: name(Model(lambda x: -0.5 * jnp.sum(x["x"] ** 2), {"x": jnp.zeros(3)})),
        lambda: name(sampler=gad.gad_mala(variant="exact")),
        lambda: name(sampler=gad.gad_rwm()),
        lambda: name(positions=jnp.zeros((2, 3), jnp.float32)),
        lambda: name(positions=jnp.zeros((4, 3))),
    ],
)
def test_what_is_otherwise_has_another_name(folder, other):
    assert other() not in (name(), None)


def test_every_number_that_a_log_density_closes_over_counts(folder):
    """Of a large constant too, of which a text may well leave out the middle."""
    rows = np.random.default_rng(0).normal(size=(20_000, 3))
    other = rows.copy()
    other[10_000, 1] += 1e-9
    names = [name(Model(lambda x, rows=rows: -jnp.sum((rows - x) ** 2), jnp.zeros(3))) for rows in (rows, other, rows)]
    assert names[0] == names[2] not in (names[1], None)


def test_a_log_density_is_told_by_its_derivatives_too(folder):
    """One value, two gradients: the second is a planted bug of a user's own rule."""

    def with_gradient(factor):
        @jax.custom_jvp
        def square(x):
            return -0.5 * jnp.sum(x**2)

        square.defjvp(lambda primals, tangents: (square(*primals), -factor * primals[0] @ tangents[0]))
        return Model(square, jnp.zeros(3))

    assert len({name(with_gradient(factor)) for factor in (1.0, 2.0)} - {None}) == 2


@jax.custom_vjp
def _halving(x):
    """A log density whose gradient is found by a loop that JAX cannot run backwards."""
    return -0.5 * jnp.sum(x**2)


_halving.defvjp(
    lambda x: (_halving(x), x),
    lambda x, seed: (-seed * jax.lax.while_loop(lambda y: jnp.sum(y) > 10, lambda y: y / 2, x),),
)


@jax.custom_vjp
def _called(x):
    """A log density whose gradient has no derivative at all."""
    return -0.5 * jnp.sum(x**2)


_called.defvjp(lambda x: (_called(x), x), lambda x, seed: (_underived(-seed * x),))
_underived = jax.custom_jvp(lambda y: y)


@_underived.defjvp
def _(primals, tangents):
    raise TypeError("there is no derivative of it")


@pytest.mark.parametrize("log_density", [_halving, _called])
def test_a_log_density_has_a_name_if_its_gradient_has_no_derivative(folder, log_density):
    assert name(Model(log_density, jnp.zeros(3))) is not None


def test_options_of_jax_and_the_source_are_a_part_of_names(folder, monkeypatch):
    before = name()
    with jax.default_matmul_precision("float32"):
        assert name() not in (before, None)
    assert name() == before
    monkeypatch.setattr(kept, "_fixed", lambda: ("another source",))
    assert name() not in (before, None)


def test_what_a_function_of_the_package_closes_over_is_a_part_of_names(folder):
    def told(inner):
        function = lambda: inner
        function.__module__ = "gadabout.somewhere"
        return name_of((function,), ())

    assert told(1.0) == told(1.0) not in (told(2.0), None)
    assert told(lambda: 0) is None


def test_what_cannot_be_told_has_no_name(folder):
    assert name(sampler=eqx.tree_at(lambda s: s.make_kernel, gad.rwm(), lambda n, learned: None)) is None
    host = lambda x: jax.pure_callback(
        lambda x: np.sum(x), jax.ShapeDtypeStruct((), x.dtype), x, vmap_method="sequential"
    )
    assert name(Model(host, jnp.zeros(3))) is None
    assert name(positions=jax.device_put(jnp.zeros((2, 3)), jax.devices()[1])) is None


def test_what_has_no_name_runs_as_ever(folder):
    own = eqx.tree_at(lambda s: s.make_kernel, gad.rwm(), lambda n, learned: gad.rwm().make_kernel(n, learned))
    log_density = lambda x: -0.5 * jnp.sum(x**2)
    with_it = drawn(own, log_density)
    np.testing.assert_array_equal(with_it, drawn(gad.rwm(), log_density))


def test_what_cannot_be_read_or_written_is_made_anew(folder, monkeypatch):
    made = []
    make = lambda: made.append(1) or len(made)
    assert [recalled(("kind",), (), make), recalled(("kind",), (), make)] == [1, 1]
    (file,) = folder.iterdir()
    file.write_bytes(b"torn")
    assert [recalled(("kind",), (), make), recalled(("kind",), (), make)] == [2, 2]
    file.unlink()
    monkeypatch.setattr(kept, "whole_file", lambda path: (_ for _ in ()).throw(OSError("no space left")))
    assert recalled(("kind",), (), make) == 3
    assert not list(folder.iterdir())


def test_the_folder_does_not_grow_beyond_its_room(folder, monkeypatch):
    monkeypatch.setattr(kept, "MOST_BYTES", 2_500)
    noise = np.random.default_rng(0)
    for each in "abcd":
        kept.remember(each, noise.bytes(1_000))
    assert {path.name for path in folder.iterdir()} == {"c", "d"}


def test_programs_are_kept_where_jax_keeps_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_folder", None)
    assert gad.keep_programs() == kept.Path(jax.config.jax_compilation_cache_dir)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert early.user_folder() == tmp_path / "gadabout" / "programs"
    assert kept.keeps()
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        assert not kept.keeps()
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
