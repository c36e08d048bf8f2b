"""How the programs of compiled stages are compiled and called."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import gadabout as gad
from gadabout import programs
from gadabout.driver import loop
from gadabout.programs import program, shapes_of
from gadabout.schedule import Handover
from gadabout.target import Target


def test_a_program_is_compiled_once_for_shapes_and_what_is_no_array(compilations):
    scaled = program(lambda x, kind: (x * (2 if kind == "double" else 3), kind))
    x, other = jnp.ones(3), jnp.zeros(3)
    counts = []
    for arguments in ((x, "double"), (other, "double"), (x, "triple"), (jnp.ones(4), "triple")):
        scaled(*arguments)
        counts.append(len(compilations))
    assert counts[0] == counts[1] < counts[2] < counts[3]
    assert scaled(x, "double")[0].tolist() == [2.0] * 3
    assert scaled(x, "triple")[1] == "triple"


def test_a_program_is_compiled_anew_for_another_edition(monkeypatch):
    traced = []
    value = program(lambda target, x: (traced.append(target.edition), target.log_density(x))[1])
    function = lambda x: -0.5 * x @ x
    for edition in (11, 12, 11):
        value(Target(function, edition=edition), jnp.ones(2))
    assert traced == [11, 12]


def test_shapes_are_found_without_compiling(compilations):
    found = shapes_of(program(lambda x, name: {name: x @ x}), jax.ShapeDtypeStruct((3,), jnp.float64), "square")
    assert found == {"square": jax.ShapeDtypeStruct((), jnp.float64)}
    assert not compilations


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
    begun = Handover(jax.random.split(jax.random.key(0), 2), jnp.uint32(0), jnp.zeros((2, 3)))
    run = loop.start(gad.gad(gad.proposals.Langevin(factor)), Target(lambda x: -0.5 * jnp.sum(x**2)), begun, True)
    assert not any(getattr(leaf, "weak_type", False) for leaf in jax.tree.leaves(run))


def test_programs_of_trajectories_of_uneven_length_have_loops_in_graphs_on_a_gpu(monkeypatch):
    started = lambda sampler: loop.Run(sampler.init(Target(lambda x: -0.5 * x @ x), jnp.zeros((2, 3))), None, None)
    chosen = {"jax_disable_most_optimizations": False}  # tests leave them away
    monkeypatch.setattr(jax.config, "read", lambda name, read=jax.config.read: chosen.get(name, read(name)))
    for backend, uneven, even in (("gpu", programs.IN_GRAPHS, {}), ("cpu", programs.QUICK, programs.QUICK)):
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        assert dict(loop._program(started(gad.nuts()), False)._options) == uneven
        assert dict(loop._program(started(gad.gad_mala()), False)._options) == even
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert dict(loop._program(started(gad.nuts()), True)._options) == programs.IN_GRAPHS


def test_the_compiler_knows_the_options_of_a_gpu():
    """They are read wherever it runs; one that it does not know is an error."""
    jax.jit(jnp.sin).lower(1.0).compile(compiler_options=programs.IN_GRAPHS)
    with pytest.raises(jax.errors.JaxRuntimeError, match="not a valid enum value"):
        jax.jit(jnp.sin).lower(1.0).compile(compiler_options=dict.fromkeys(programs.IN_GRAPHS, "LOOPS"))
