"""Programs are compiled once, in other threads, while Python goes on hearing signals."""

import signal
import threading
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gadabout as gad
from gadabout.driver import kept, loop, programs
from gadabout.driver.programs import Program, blank, form_of, program, ready
from gadabout.schedule import judge
from gadabout.target import Target


def slow_to_compile(shift):
    """A function that no other test compiles, so that no cache holds it."""

    def function(x):
        for i in range(150):
            x = jnp.sin(x @ x.T + i + shift) / (1 + jnp.cumsum(x, axis=0) ** 2)
        return x

    return program(function)


def test_what_was_compiled_ahead_is_not_compiled_again():
    traced = []

    @program
    def double(x):
        traced.append(x)
        return 2 * x

    compiled = []
    listen = lambda event, seconds, **more: compiled.append(event) if "backend_compile" in event else None
    ready([double.ahead(jnp.ones(3)), double.ahead(jnp.ones(4))])
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        assert double(jnp.ones(3)).shape == (3,)
        assert len(traced) == 2
        assert not compiled
        double(jnp.ones(5)).block_until_ready()
        assert compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_what_was_asked_ahead_twice_is_traced_once():
    function = lambda x: 3 * x
    tripled = program(function)
    assert tripled.ahead(jnp.ones(3)) is tripled.ahead(jnp.zeros(3))
    assert tripled.ahead(jnp.ones(3)) is not tripled.ahead(jnp.ones(4))
    assert tripled.ahead(jnp.ones(3)) is not Program(function).ahead(jnp.ones(3))


def test_a_blank_has_the_form_of_what_will_come():
    """Weak types too: `jnp.asarray(0)` has one, and a program for the one would not serve the other."""
    come = lambda: (
        jnp.ones((2, 3)),
        jnp.stack([jnp.asarray(1)]),
        jnp.asarray(2),
        jax.random.split(jax.random.key(3), 2),
    )
    specs = jax.eval_shape(come)
    assert form_of(jax.tree.map(blank, specs)) == form_of(jax.jit(come)())
    assert form_of(jax.tree.map(blank, jax.jit(come)())) == form_of(jax.tree.map(blank, jax.tree.map(blank, specs)))


@pytest.mark.parametrize("device", [None, "cpu", "second"])
def test_an_array_of_numpys_has_the_form_of_one_that_is_put_nowhere(device):
    """Whichever JAX's default is, and where it is asked in something that is traced for the first time."""
    forms = []
    with jax.default_device(jax.devices()[1] if device == "second" else device):
        kept._home.cache_clear()
        jax.jit(lambda x: forms.append(form_of(np.zeros(3))) or x).lower(1.0)
        assert forms == [form_of(jnp.zeros(3))]
    assert (form_of(jnp.zeros(3)) == forms[0]) == (device != "second")


def test_the_first_programs_of_a_run_are_foreseen(monkeypatch):
    """None is lowered twice: what is compiled for blanks is what the run calls, in another thread."""
    lowered, lower = [], Program.lower

    def listen(self, *arguments):
        lowered.append(self.function.__name__)
        return lower(self, *arguments)

    programs.forget()  # what other tests had compiled
    monkeypatch.setattr(Program, "lower", listen)
    density = lambda x: -0.5 * jnp.sum(x**2)
    plan = gad.default(move="split-hmc")
    gad.sample(density, jnp.zeros(3), sampler=plan, num_warmup=60, num_draws=200, progress=False)
    assert sorted(lowered) == ["_advance", "_advance", "_search", "land", "seen_by", "send_out", "start"]


@pytest.mark.parametrize(
    ("move", "traced"), [("independence", ["local-global"]), ("local", ["local-global", "split-hmc"])]
)
def test_nothing_is_compiled_but_what_is_chosen(monkeypatch, move, traced):
    """What is likely to be chosen is traced beforehand, once, and left where something else is."""
    drawing, compiled, lower, compile_one = {}, [], Program.lower, programs._compile

    def listen(self, *arguments):
        lowered = lower(self, *arguments)
        if self.function.__name__ == "_advance" and not arguments[0][2]:
            drawing[id(lowered)] = arguments[0][0].name
        return lowered

    programs.forget()
    monkeypatch.setattr(Program, "lower", listen)
    monkeypatch.setattr(programs, "_compile", lambda *one: compiled.append(one[0]) or compile_one(*one))
    monkeypatch.setattr(judge, "decide", lambda evidence: move)
    density = lambda x: -0.5 * jnp.sum(x**2)
    tree = gad.sample(density, jnp.zeros(3), num_warmup=60, num_draws=200, progress=False)
    assert sorted(drawing.values()) == traced
    assert [drawing[id(one)] for one in compiled if id(one) in drawing] == [traced[-1]]
    assert tree.attrs["sampler"] == "default"


def test_what_was_told_before_is_known_until_programs_are_forgotten():
    programs.forget()
    kind = (jnp.ones(3), "pooled", 4)
    assert [programs.told_before(*kind), programs.told_before(*kind)] == [False, True]
    assert not programs.told_before(jnp.ones(4), "pooled", 4)
    assert [programs.told_before([{}], set()), programs.told_before([{}], set())] == [False, False]  # has no form
    programs.forget()
    assert not programs.told_before(*kind)


def heard(work):
    """Seconds from a signal's coming to its handler's, of a signal that comes while something is at work."""
    told = []
    before = signal.signal(signal.SIGALRM, lambda signum, frame: told.append(time.monotonic()))
    try:
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        work()
        assert time.monotonic() > begun + 0.2, "too short to tell"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return told[0] - begun - 0.05, time.monotonic() - begun


def test_python_hears_signals_while_programs_are_compiled():
    x, fresh = jnp.ones((8, 8)), time.time()
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        traced = slow_to_compile(fresh).lower(x)
        late, whole = heard(lambda: ready([programs._compilers().submit(traced.compile)]))
        assert late < whole / 2
        traced = slow_to_compile(fresh + 1).lower(x)
        late, whole = heard(traced.compile)
        assert late > whole / 2
    finally:
        jax.config.update("jax_enable_compilation_cache", True)


def test_what_the_compiler_raises_is_raised():
    def fails():
        raise ValueError("no such option")

    with pytest.raises(ValueError, match="no such option"):
        ready([programs._compilers().submit(fails)])


def test_what_is_abandoned_is_compiled_when_it_is_asked_for_again():
    """Where all threads are busy a program waits for one: it is not compiled once the process is to end."""
    go, pool = threading.Event(), programs._compilers()
    busy = [pool.submit(go.wait) for _ in range(pool._max_workers)]
    twice = programs.program(lambda x: 2 * x + 0.25)
    waiting = twice.ahead(jnp.ones(3))
    programs.abandon()
    go.set()
    assert waiting.cancelled()
    assert all(one.result() for one in busy)
    again = twice.ahead(jnp.ones(3))
    programs.ready([again])
    assert again is not waiting
    assert not again.cancelled()


def test_a_call_returns_before_its_arrays_are_computed():
    """So that draws are stored while others are made; planted: a call that waits for its arrays."""
    work = lambda x: jax.lax.fori_loop(0, 600, lambda i, y: y @ y / 300, x)  # what has few operations is not put off
    x = jnp.ones((300, 300))
    for compiled, early in ((program(work), True), (eqx.filter_jit(work), False)):
        compiled(x).block_until_ready()
        result = compiled(x)
        assert result.is_ready() is not early
        assert jnp.isfinite(result).all()


def test_a_run_from_a_factor_of_pythons_numbers_starts_with_the_types_it_goes_on_with():
    """Else the program of the first chunk would not serve the second: `jnp.full` of a number has a weak type."""
    factor = gad.factors.LowRank(jnp.full(3, 0.1), jnp.zeros((3, 2)), jnp.zeros((3, 2)))
    assert factor.scale.weak_type
    warm = loop.Warm(jax.random.split(jax.random.key(0), 2), jnp.uint32(0), jnp.zeros((2, 3)))
    run = loop.start(gad.gad(gad.proposals.Langevin(factor)), Target(lambda x: -0.5 * jnp.sum(x**2)), warm, True)
    assert not any(getattr(leaf, "weak_type", False) for leaf in jax.tree.leaves(run))


def test_programs_of_trajectories_of_uneven_length_have_loops_in_graphs_on_a_gpu(monkeypatch):
    started = lambda sampler: loop.Run(sampler.init(Target(lambda x: -0.5 * x @ x), jnp.zeros((2, 3))), None, None)
    chosen = {"jax_disable_most_optimizations": False}  # tests are told to leave them away
    monkeypatch.setattr(jax.config, "read", lambda name, read=jax.config.read: chosen.get(name, read(name)))
    for backend, uneven, even in (("gpu", programs.IN_GRAPHS, {}), ("cpu", programs.QUICK, programs.QUICK)):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        assert dict(loop._program(started(gad.nuts()), False)._options) == uneven
        assert dict(loop._program(started(gad.gad_mala()), False)._options) == even
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert dict(loop._program(started(gad.nuts()), True)._options) == programs.IN_GRAPHS


def test_the_compiler_knows_the_options_of_a_gpu():
    """They are told apart wherever it runs; one that it does not know is an error."""
    jax.jit(jnp.sin).lower(1.0).compile(compiler_options=programs.IN_GRAPHS)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not a valid enum value"):
        jax.jit(jnp.sin).lower(1.0).compile(compiler_options=dict.fromkeys(programs.IN_GRAPHS, "LOOPS"))
