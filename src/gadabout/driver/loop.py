"""The chunk: one compiled program that advances all chains by a number of iterations given at run time."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, UInt

from gadabout.driver.sampler import Sampler, State
from gadabout.target import Target

POSITION = "position"
BUFFER_BYTES = 16 * 2**20
LONGEST_BUFFER = 8_192


class Run(eqx.Module):
    """The whole state of a run: one pytree of arrays.

    `pools` holds the samplers' states stacked over pools of chains that share θ: one pool if adaptation is pooled, as
    many as chains if it is per chain. Noise of chain c at iteration t comes from fold_in(fold_in(stream, c), t), t
    counting from the first warm-up iteration: it depends on neither chunk length nor interruption.
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


@eqx.filter_jit
def start(
    sampler: Sampler, target: Target, positions: Array, stream: Key[Array, ""], shared: Key[Array, ""], pooled: bool
) -> Run:
    """A run at iteration 0 from positions (num_chains, n); `stream` feeds the transitions, `shared` what θ shares."""
    pools = positions[None] if pooled else positions[:, None]
    chains = jnp.arange(positions.shape[0]).reshape(pools.shape[:2])
    chain_keys = jax.vmap(jax.vmap(lambda c: jax.random.fold_in(stream, c)))(chains)
    state = eqx.filter_vmap(lambda x: sampler.init(shared, target, x))(pools)
    return Run(state, chain_keys, jnp.zeros((), jnp.uint32))


@eqx.filter_jit
def _iteration(sampler: Sampler, target: Target, run: Run, adapt: bool) -> tuple[Run, dict[str, Array]]:
    """One iteration of every chain, and its record with the positions in it, each of shape (pools, chains, ...)."""
    keys = jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, run.t)))(run.chain_keys)
    step = eqx.filter_vmap(lambda key, state: sampler.step(key, state, target, adapt))
    pools, record = step(keys, run.pools)
    record[POSITION] = jax.vmap(lambda pool: pool.position)(pools)
    return Run(pools, run.chain_keys, run.t + 1), record


@eqx.filter_jit(donate="all-except-first")
def finish(sampler: Sampler, run: Run, act: Array) -> Run:
    """A run at the end of a warm-up stage, in every pool; where `act` is False it only compiles. `run` is donated."""
    finished = eqx.filter_vmap(sampler.finish)(run.pools)
    choose = lambda new, old: jnp.where(act, new, old) if eqx.is_array(old) else old
    return Run(jax.tree.map(choose, finished, run.pools), run.chain_keys, run.t)


def shapes(sampler: Sampler, target: Target, run: Run, adapt: bool) -> dict[str, jax.ShapeDtypeStruct]:
    """Shape and type of all that one iteration can record. Traces what `advance` will trace, so it costs nothing."""
    return eqx.filter_eval_shape(partial(_iteration, adapt=adapt), sampler, target, run)[1]


def buffer_length(recorded: dict[str, Any]) -> int:
    """Draws that a chunk's buffer holds: a power of two that depends on the size of a draw, not on the run's length."""
    draw_bytes = sum(spec.size * spec.dtype.itemsize for spec in recorded.values())
    return max(1, min(LONGEST_BUFFER, 2 ** ((BUFFER_BYTES // max(draw_bytes, 1)).bit_length() - 1)))


@eqx.filter_jit(donate="all-except-first")
def _advance(fixed: tuple, run: Run, length: Array, thinning: Array) -> tuple[Run, dict[str, Array], Tally]:
    sampler, target, adapt, fields = fixed
    recorded = shapes(sampler, target.during(0), run, adapt)
    capacity = buffer_length({name: recorded[name] for name in fields})
    buffer = {name: jnp.zeros((capacity, *recorded[name].shape), recorded[name].dtype) for name in fields}
    shape = run.chain_keys.shape
    tally = Tally(jnp.zeros(shape), jnp.zeros(shape, int), jnp.ones(shape, bool))

    def body(i, carry):
        run, buffer, tally = carry
        run, record = _iteration(sampler, target.during(i), run, adapt)
        slot = i // thinning  # the last of `thinning` iterations is what stays in the slot
        buffer = {name: buffer[name].at[slot].set(record[name]) for name in fields}
        tally = Tally(
            tally.acceptance + record["acceptance_rate"],
            tally.gradient_evaluations + record["gradient_evaluations"],
            tally.finite,
        )
        return run, buffer, tally

    run, buffer, tally = jax.lax.fori_loop(0, length, body, (run, buffer, tally))
    positions = jax.vmap(lambda pool: pool.position)(run.pools)
    return run, buffer, Tally(tally.acceptance, tally.gradient_evaluations, jnp.isfinite(positions).all(-1))


def advance(
    sampler: Sampler, target: Target, run: Run, length: int, thinning: int, adapt: bool, fields: tuple[str, ...]
) -> tuple[Run, dict[str, Array], Tally]:
    """Advances a run by `length` iterations, with every `thinning`-th recorded; `run` is donated.

    Returns the run, the buffers of shape (capacity, pools, chains, ...) of which the first ceil(length / thinning)
    rows are filled, and the tally. Neither length nor thinning compiles anything anew, and a length of 0 compiles
    without moving a chain. Where the target's data are `Batches`, iteration i of the chunk sees the i-th.
    """
    return _advance((sampler, target, adapt, fields), run, jnp.asarray(length), jnp.asarray(thinning))
