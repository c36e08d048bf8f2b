"""The compiled programs of a run: the start, chunks that advance all chains, the ends of windows, the handover."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt

from gadabout.adaptations import PerChain, Pool
from gadabout.adaptations.pool import ALONE
from gadabout.driver import devices
from gadabout.driver.devices import CHAINS
from gadabout.programs import Program, program, shapes_of
from gadabout.sampler import Sampler, State
from gadabout.schedule import Handover
from gadabout.target import Target

POSITION = "position"
BUFFER_BYTES = 16 * 2**20
QUICK_BYTES, QUICK_LENGTH = 4 * 2**20, 64
"""`QUICK_BYTES`: size beyond which clearing a chunk's buffer is slow. `QUICK_LENGTH`: most draws that justify it."""
LONGEST_BUFFER = 1_024


class Run(eqx.Module):
    """The whole state of a stage that runs one sampler: one pytree of arrays.

    `pools` holds the sampler's states stacked over pools of chains that share θ: one pool if adaptation is pooled, one
    for each chain if it is per chain. Noise of chain c at iteration t comes from fold_in(fold_in(stream, c), t), with t
    counted from the run's first iteration: it depends on neither chunk length, nor interruption, nor stage.
    """

    pools: State
    chain_keys: Key[Array, "pools chains"]
    t: UInt[Array, ""]


class Tally(eqx.Module):
    """Sums over the iterations of a chunk, thinned ones included; shape (pools, chains)."""

    acceptance: Array
    gradient_evaluations: Int[Array, "pools chains"]
    finite: Bool[Array, "pools chains"]
    """whether the position at the chunk's end is finite"""


@program(brief=True)
def start(sampler: Sampler, target: Target, warm: Handover, pooled: bool) -> Run:
    """A run of a sampler from the positions, and with the knowledge, that the previous stage hands over."""
    by_pool = lambda leaf: leaf[None] if pooled else leaf[:, None]
    state = eqx.filter_vmap(lambda x: sampler.init(target, x, warm.learned))(by_pool(warm.positions))
    return Run(jax.tree.map(_strong, state), by_pool(warm.chain_keys.reshape(-1)), warm.t)


def _strong(leaf: Any) -> Any:
    """An array with the strong type that updates give it, even if it was made from a Python number.

    So one program serves a run's first chunk and all others.
    """
    return jax.lax.convert_element_type(leaf, leaf.dtype) if getattr(leaf, "weak_type", False) else leaf


@program(brief=True)
def positions(pools: State) -> Float[Array, "chains n"]:
    """The positions of the chains of all pools."""
    x = jax.vmap(lambda pool: pool.position)(pools)
    return x.reshape(-1, x.shape[-1])


@program(donates=True)
def end_window(sampler: Sampler, run: Run, ending: PyTree) -> Run:
    """The run after windows of the adaptation end, in every pool."""
    end = lambda pool: sampler.end_window(pool, ending)
    return Run(_each_pool(end, ALONE, run.pools), run.chain_keys, run.t)


@program
def settle(sampler: Sampler, run: Run) -> Run:
    """The run with the kernels that make the draws."""
    return Run(eqx.filter_vmap(sampler.settle)(run.pools), run.chain_keys, run.t)


@program(brief=True)
def verdict(sampler: Sampler, run: Run) -> dict[str, Array]:
    """Diagnostics of each pool's adaptation at the end of warm-up."""
    return eqx.filter_vmap(lambda pool: sampler.adaptation.verdict(pool.memory, pool.kernel))(run.pools)


def _keys(run: Run, t: Array) -> Key[Array, "pools chains"]:
    return jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, t)))(run.chain_keys)


@eqx.filter_jit
def iteration(sampler: Sampler, target: Target, run: Run, adapt: bool, pool: Pool) -> tuple[Run, dict[str, Array]]:
    """One iteration of every chain, and its record, positions included, each of shape (pools, chains, ...)."""
    within, between = _levels(run, pool)
    step = lambda key, state: sampler.step(key, state, target, adapt, within)
    keys = _keys(run, run.t)
    if pool.block is None:
        pools, record = _each_pool(step, between, keys, run.pools)
    else:  # a batched pool is rounded alike by programs that end windows and by those that, over devices, do not
        pools, record = between.each(step, keys, run.pools)
    record[POSITION] = jax.vmap(lambda pool: pool.position)(pools)
    return Run(pools, run.chain_keys, run.t + 1), record


def _levels(run: Run, pool: Pool) -> tuple[Pool, Pool]:
    """The `Pool` for the chains within a pool and the one for pools; blocks divide those of which there are several.

    Chains that learn alone in blocks are staged: some programs fuse an update of θ with its evidence, others do not.
    """
    return (pool, ALONE) if run.chain_keys.shape[0] == 1 else (Pool(staged=pool.block is not None), pool)


def _each_pool(function: Callable[..., PyTree], between: Pool, *trees: PyTree) -> PyTree:
    """The values of a function for every pool. One pool is not batched: only one branch of a condition is computed.

    Loops that run until a condition holds then need not restore the values of finished pools either.
    """
    if len(jax.tree.leaves(trees)[0]) > 1:
        return between.each(function, *trees)
    return jax.tree.map(lambda leaf: leaf[None], function(*jax.tree.map(lambda leaf: leaf[0], trees)))


def shapes(sampler: Sampler, target: Target, run: Run, adapt: bool) -> dict[str, jax.ShapeDtypeStruct]:
    """Shape and type of all that one iteration can record. Traces what `advance` traces anyway, so it costs nothing."""
    return shapes_of(iteration, sampler, target, run, adapt, Pool())[1]


def buffer_length(recorded: dict[str, Any]) -> int:
    """Draws that a chunk's buffer holds: a power of two that depends on the size of a draw, not on the run's length."""
    draw_bytes = sum(spec.size * spec.dtype.itemsize for spec in recorded.values())
    quick, most = (bytes // max(draw_bytes, 1) for bytes in (QUICK_BYTES, BUFFER_BYTES))
    length = min(LONGEST_BUFFER, max(quick, min(QUICK_LENGTH, most)))
    return 2 ** (length.bit_length() - 1)


def advance(
    sampler: Sampler,
    target: Target,
    run: Run,
    length: int,
    thinning: int,
    adapt: bool,
    fields: tuple[str, ...],
    *,
    offset: int = 0,
    batches: Any = None,
    mesh: Mesh | None = None,
    block: int | None = None,
    optimised: bool = False,
) -> tuple[Run, dict[str, Array], Tally]:
    """Advances a run by `length` iterations and records every `thinning`-th; `run` is donated.

    Returns the run, the buffers of shape (capacity, pools, chains, ...) and the tally. For the first draw in the
    buffers, `offset` iterations were made before; a draw is complete after `thinning` iterations. New values of these
    three numbers need no new compilation. Iteration i of the chunk uses the i-th of `batches`, if there are any.
    `optimised` turns on all optimisations of the compiler. With a mesh the chains are distributed over its devices,
    which communicate in `Pool` alone; `block` of them are computed at a time.
    """
    counts = np.asarray([length, thinning, offset])
    known = sampler, target, adapt, fields, batches, block, mesh
    return _program(run, optimised)(known, run, counts)


@program(donates=True)
def _advance(fixed: tuple, run: Run, counts: Array) -> tuple[Run, dict[str, Array], Tally]:
    *known, block, mesh = fixed
    if mesh is None:
        return _chunk(tuple(known), run, counts, Pool(block=block))
    pooled = run.chain_keys.shape[0] == 1
    arrays, rest = eqx.partition((tuple(known), run), eqx.is_array)
    still = jax.tree.map(lambda leaf: P(), arrays[0])

    def local(arrays, counts):
        known, run = eqx.combine(arrays, rest)
        run, buffer, tally = _chunk(known, run, counts, Pool(CHAINS if pooled else None, block))
        return eqx.filter(run, eqx.is_array), buffer, tally

    laid = specs(arrays[1])
    over = P(None, CHAINS) if pooled else P(CHAINS)
    sharded = jax.shard_map(
        local, mesh=mesh, in_specs=((still, laid), P()), out_specs=(laid, P(None, *over), over), check_vma=False
    )
    moved, buffer, tally = sharded(arrays, counts)
    return eqx.combine(moved, rest[1]), buffer, tally


def _program(run: Run, optimised: bool) -> Program:
    """`_advance` as it suits a run: trajectories of uneven length are nested loops."""
    suited = _advance.in_graphs if run.pools.kernel.uneven else _advance
    return suited.optimised if optimised else suited


def _chunk(known: tuple, run: Run, counts: Array, pool: Pool) -> tuple[Run, dict[str, Array], Tally]:
    """`_advance` for the chains on this device."""
    sampler, target, adapt, fields, batches = known
    length, thinning, offset = counts
    seen = lambda i: target if batches is None else target.with_data(batches.during(i))
    recorded = shapes(sampler, seen(0), run, adapt)
    capacity = buffer_length({name: recorded[name] for name in fields})
    buffer = {name: jnp.zeros((capacity, *recorded[name].shape), recorded[name].dtype) for name in fields}
    shape = run.chain_keys.shape
    tally = Tally(jnp.zeros(shape), jnp.zeros(shape, int), jnp.ones(shape, bool))

    def keep(i, record, buffer, tally):
        slot = (offset + i) // thinning  # the last of `thinning` iterations remains in the slot
        put = jax.lax.dynamic_update_index_in_dim
        buffer = {name: put(buffer[name], record[name], slot, 0) for name in fields}
        acceptance = tally.acceptance + record["acceptance_rate"]
        return buffer, Tally(acceptance, tally.gradient_evaluations + record["gradient_evaluations"], tally.finite)

    def one(i, carry):
        run, buffer, tally = carry
        run, record = iteration(sampler, seen(i), run, adapt, pool)
        return run, *keep(i, record, buffer, tally)

    run, buffer, tally = jax.lax.fori_loop(0, length, one, (run, buffer, tally))
    positions = jax.vmap(lambda pool: pool.position)(run.pools)
    finite = jnp.isfinite(positions).all(-1)
    return run, buffer, Tally(tally.acceptance, tally.gradient_evaluations, finite)


def specs(run: Run) -> Run:
    """The distribution of a run's arrays over a mesh: chains and their arrays are divided, θ is on every device."""
    run = eqx.filter(run, eqx.is_array)
    if run.chain_keys.shape[0] != 1:
        laid = jax.tree.map(lambda leaf: P(CHAINS), run)
        return eqx.tree_at(lambda run: run.t, laid, P())
    own = lambda tree: jax.tree.map(lambda leaf: P(None, CHAINS), tree)
    everywhere = lambda tree: jax.tree.map(
        lambda node: own(node) if isinstance(node, PerChain) else P(),
        tree,
        is_leaf=lambda node: isinstance(node, PerChain),
    )
    pools = State(everywhere(run.pools.kernel), everywhere(run.pools.memory), own(run.pools.chains))
    return Run(pools, own(run.chain_keys), P())  # pyright: ignore[reportArgumentType]


def lay(run: Run, mesh: Mesh | None) -> Run:
    """The run with its arrays on the devices of the mesh."""
    return run if mesh is None else devices.lay(run, specs(run), mesh)
