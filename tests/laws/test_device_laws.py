"""Chains laid over four (host) devices: the same chains, and no talk between the devices but in `Pool`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from gadabout.adaptations import (
    DualAveraging,
    ForEver,
    NoAdaptation,
    OfPart,
    Reprojection,
    Together,
    WindowedFactor,
)
from gadabout.driver import loop
from gadabout.driver.loop import CHAINS
from gadabout.sampler import theta_by_name
from tests.conftest import by_name
from tests.laws import law_target, test_driver_laws
from tests.laws.registry import ADAPTATIONS, ON_HOST, SAMPLERS, UNADJUSTED, entry, every
from tests.laws.test_driver_laws import FIELDS, begin, curved

TO_ROUNDING = {"float64": {"rtol": 1e-10, "atol": 1e-10}, "float32": {"rtol": 1e-3, "atol": 1e-4}}
ITERATIONS, NUM_CHAINS = 50, 8
SINGLE = 30
"""iterations in float32, where rounding grows to the size of the law after some 40"""
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast")


@pytest.fixture(scope="module")
def mesh():
    if len(jax.devices()) < 4:
        pytest.skip("needs four devices: tests/conftest.py asks for them before JAX starts")
    return Mesh(np.array(jax.devices()[:4]), (CHAINS,))


def is_unstable(name):
    """Whether rounding grows at first: dual averaging begins at ten times its step size, where leapfrogs blow up."""
    return any(isinstance(node, DualAveraging) for node in jax.tree.leaves(
        entry(name).adaptation, is_leaf=lambda node: isinstance(node, DualAveraging)))  # fmt: skip


def advanced(name, mesh, adapt, pooled=True, iterations=ITERATIONS):
    target, run = begin(entry(name), NUM_CHAINS, pooled)
    run = loop.lay(run, mesh)
    run, buffer, _ = loop.advance(entry(name), target, run, iterations, 1, adapt, FIELDS, mesh=mesh)
    return run, {field: np.asarray(rows)[:iterations] for field, rows in buffer.items()}


def lowered(name, mesh, adapt):
    """A chunk of eight chains over the mesh, before it is compiled."""
    target, run = begin(entry(name), NUM_CHAINS)
    fixed = (entry(name), target, adapt, FIELDS, None, None, mesh)
    return loop._advance.lower(fixed, loop.lay(run, mesh), jnp.asarray([1, 1, 0]))


def collectives(text):
    """The collective operations that stand in a program, StableHLO's or XLA's; each in the body of its one loop."""
    marks = [f"{mark}{op}{end}" for op in COLLECTIVES for mark, end in ((" ", "("), (" ", "-start("))]
    marks += [f"stablehlo.{op.replace('-', '_')}" for op in COLLECTIVES]
    return sum(any(mark in line for mark in marks) for line in text.splitlines())


def calls(adaptation):
    """How often an adaptation asks its pool in one iteration."""
    if isinstance(adaptation, NoAdaptation):
        return 0
    if isinstance(adaptation, Together):
        return sum(map(calls, adaptation.parts))
    if isinstance(adaptation, OfPart | ForEver):
        return calls(adaptation.adaptation)
    if isinstance(adaptation, Reprojection):
        return 1 + calls(adaptation.wrapped)
    return 1 + calls(adaptation.rule) if isinstance(adaptation, WindowedFactor) else 1


@every(SAMPLERS, UNADJUSTED, only=ADAPTATIONS)
def test_four_devices_make_the_chains_of_one(name, precision, mesh):
    """Over the first 50 iterations, learning, to 1e-10, and 30 in float32, to 1e-3: later a decision may flip.

    Dual averaging begins at ten times its step size, where rounding grows a hundredfold an iteration. There each of the
    50 iterations begins where one device has got to.
    """

    def close(one, four):
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(four), strict=True):
            np.testing.assert_allclose(np.asarray(b), np.asarray(a), **TO_ROUNDING[precision])

    if not is_unstable(name):
        iterations = ITERATIONS if precision == "float64" else SINGLE
        (one, alone), (four, shared) = (advanced(name, over, True, iterations=iterations) for over in (None, mesh))
        close((alone, theta_by_name(one.pools.kernel)), (shared, theta_by_name(four.pools.kernel)))
        return
    sampler, (target, run) = entry(name), begin(entry(name), NUM_CHAINS)
    for _ in range(ITERATIONS):
        copied = jax.tree.map(lambda leaf: jnp.copy(leaf) if isinstance(leaf, jax.Array) else leaf, run)
        four, shared, _ = loop.advance(sampler, target, loop.lay(copied, mesh), 1, 1, True, FIELDS, mesh=mesh)
        run, alone, _ = loop.advance(sampler, target, run, 1, 1, True, FIELDS)
        first = lambda buffer: {field: rows[0] for field, rows in buffer.items()}
        close((first(alone), theta_by_name(run.pools.kernel)), (first(shared), theta_by_name(four.pools.kernel)))


@pytest.mark.parametrize("name", SAMPLERS | UNADJUSTED)
def test_devices_talk_while_pooling_and_at_no_other_time(name, mesh):
    """In the program as it is written, which is laid out by hand: the compiler has nothing to add."""
    adapting = collectives(lowered(name, mesh, adapt=True).as_text())
    asked = calls(entry(name).adaptation)
    assert adapting <= asked, "what an adaptation gathers and does not use is dropped; nothing is added"
    assert (adapting > 0) == (asked > 0)
    assert collectives(lowered(name, mesh, adapt=False).as_text()) == 0


@pytest.mark.parametrize("name", ["gad-mala", "nuts", "haario", "reprojected-gad-mala"])
def test_the_compiled_program_talks_no_more_than_it_says(name, mesh):
    compiled = lambda adapt: lowered(name, mesh, adapt).compile().as_text()
    assert 0 < collectives(compiled(True)) <= calls(entry(name).adaptation)
    assert collectives(compiled(False)) == 0


@pytest.mark.parametrize("name", ["gad-mala", "fisher-mala", "haario"])
def test_chains_that_learn_alone_never_talk(name, mesh):
    """Adaptation per chain: the same bits as on one device, chain by chain, to rounding."""
    (_, alone), (_, shared) = advanced(name, None, True, pooled=False), advanced(name, mesh, True, pooled=False)
    np.testing.assert_allclose(shared[loop.POSITION], alone[loop.POSITION], rtol=1e-10, atol=1e-10)


def test_a_forgotten_sum_over_devices_is_found(mesh, monkeypatch):
    """The planted bug: sums over the chains at hand, not over all of them."""
    another = lambda x, data: curved(x, data)  # whose programs nobody else runs
    monkeypatch.setattr(test_driver_laws, "curved", another)
    monkeypatch.setattr(jax.lax, "psum", lambda tree, axis: tree)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_four_devices_make_the_chains_of_one("gad-mala", "float64", mesh)


IN_CHECKS = ("gad-mala", "haario-for-ever", "nuts")
"""samplers whose law over devices is tested in the checks; the others' under the marker"""


@by_name(SAMPLERS, IN_CHECKS)
def test_four_devices_draw_from_the_same_law(name, mesh):
    """Moments of 8 chains of 4,000 draws on the laws' target, from exact draws, against 10⁶ exact ones.

    Where adaptation goes on, against those of one device: a law that is still on its way is the same on its way.

    z of nine moments from the chains' own scatter, a t with 7 degrees of freedom: beyond 9 once in 20,000 for each, a
    false alarm in 750 suites; a mean 1.3 of its chain-to-chain standard deviations off is found with 95 %.
    """

    def means(over):
        _, records = advanced(name, over, adapts, iterations=4_000)
        return law_target.moments(jnp.asarray(records[loop.POSITION][:, 0])).mean(0)

    adapts = entry(name).adaptation.continues
    chains, exact = means(mesh), law_target.moments(law_target.draws(jax.random.key(1), 1_000_000)).mean(0)
    exact = means(None).mean(0) if adapts else exact
    z = (chains.mean(0) - exact) / (chains.std(0, ddof=1) / np.sqrt(NUM_CHAINS))
    assert np.abs(z).max() < 9


def test_a_whole_run_on_four_devices(mesh):
    """From start to draws through the engine, pooled, as on one device to 1e-10 while nothing flips."""
    from tests.laws import test_run_laws as run_laws

    def run(mesh, name="hmc"):
        sink = run_laws.MemorySink()
        run_laws.engine(name, sink, mesh=mesh).drive()
        return sink.read("posterior")["x"]

    two = Mesh(mesh.devices[:2], (CHAINS,))
    np.testing.assert_allclose(run(two), run(None), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ON_HOST)
def test_the_default_on_four_devices_makes_the_draws_of_one(name, mesh):
    """To the bit in equal blocks of chains; the sampler itself is one, on the host."""
    from tests.laws import test_run_laws as run_laws

    def run(mesh):
        sink = run_laws.MemorySink()
        run_laws.engine(name, sink, chains=range(8), mesh=mesh, chain_block=2).drive()
        return sink.read("posterior")["x"]

    np.testing.assert_array_equal(run(mesh), run(None))


def test_laws_run_in_the_precision_they_say(mesh):
    for precision in (np.float64, np.float32):
        with jax.enable_x64(precision == np.float64):
            _, records = advanced("rwm", None, True, iterations=1)
        assert records[loop.POSITION].dtype == precision
