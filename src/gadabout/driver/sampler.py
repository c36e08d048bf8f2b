"""A recipe's result: which kernel, which adaptation. The one place where the two meet."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from gadabout.adaptations import AbstractAdaptation
from gadabout.driver.schedule import STOP_AFTER_WARMUP, Stage
from gadabout.kernels import AbstractKernel, Transition
from gadabout.target import Target


class State(eqx.Module):
    """The whole state of a pool of chains that share θ: the kernel with its θ, the adaptation's memory, the chains.

    The chains' states are stacked along a leading axis.
    """

    kernel: AbstractKernel
    memory: PyTree
    chains: PyTree

    @property
    def position(self) -> Float[Array, "chains n"]:
        """Where the chains stand."""
        return jax.vmap(self.kernel.position)(self.chains)


class Sampler(eqx.Module):
    """A recipe's settings, and two pure functions that jit, vmap and scan for those who own their loop.

    `make_kernel(n)` builds the kernel for positions of n coordinates. Settings that are numbers are array leaves, so
    that another value compiles nothing anew.
    """

    name: str = eqx.field(static=True)
    make_kernel: Callable[[int], AbstractKernel]
    adaptation: AbstractAdaptation
    num_warmup: int = eqx.field(static=True, default=1_000)
    takes_discrete: bool = eqx.field(static=True, default=False)
    """whether positions may hold whole numbers; they travel as floats in the flat vector and come back as such"""
    schedule: tuple[Stage, ...] = eqx.field(static=True, default=STOP_AFTER_WARMUP)
    bias: str = eqx.field(static=True, default="")
    """why its draws do not follow the target exactly, in words for the result; empty if they do"""

    def __check_init__(self):
        if self.schedule[-1].adapt and not self.adaptation.diminishing:
            raise ValueError(
                f"schedule: {self.name} cannot adapt for ever, because the gains of its adaptation do not diminish and "
                "its draws would follow another law; let it stop after warm-up"
            )

    @property
    def adaptation_ends(self) -> str:
        """How adaptation ends, in words for the result."""
        return "continues for ever, with diminishing gains" if self.schedule[-1].adapt else "stops after warm-up"

    def init(self, key: Key[Array, ""], target: Target, positions: Float[Array, "chains n"]) -> State:
        """The state of chains that start at `positions` and share θ; `key` is for recipes whose θ starts at random.

        Raises ValueError if `positions` does not have the shape (num_chains, n).
        """
        if jnp.ndim(positions) != 2:
            raise ValueError(
                f"positions must have the shape (num_chains, n), got {jnp.shape(positions)}; "
                "for one chain pass x[None, :]"
            )
        positions = jnp.asarray(positions, dtype=float)
        kernel = self.make_kernel(positions.shape[1])
        chains = jax.vmap(lambda x: kernel.init(x, target))(positions)
        return State(kernel, self.adaptation.init(kernel, chains), chains)

    def step(
        self, key: Key[Array, "..."], state: State, target: Target, adapt: bool = True
    ) -> tuple[State, dict[str, Array]]:
        """One iteration of every chain: transition, and with `adapt` (static) one update of θ shared by all.

        `key` is one key, or one for each chain. Returns the new state and the statistics of the iteration, each of
        shape (num_chains,), by their ArviZ names; with `adapt` those of the adaptation are among them.
        """
        kernel, memory = state.kernel, state.memory
        num_chains = jax.tree.leaves(state.chains)[0].shape[0]
        keys = key if key.ndim else jax.random.split(key, num_chains)

        def transition(key, before):
            after, info = kernel.step(key, before, target)
            if not adapt:
                return after, None, info.record
            evidence, trace = self.adaptation.observe(memory, kernel, Transition(before, after, info))
            return after, evidence, info.record | trace

        chains, evidence, record = jax.vmap(transition)(keys, state.chains)
        record.setdefault("gradient_evaluations", jnp.full(num_chains, kernel.gradient_evaluations(adapt)))
        if adapt:
            kernel, memory, chains = self.adaptation.update(memory, kernel, chains, evidence)
            chains = jax.vmap(kernel.rebase)(chains)
        return State(kernel, memory, chains), record

    def finish(self, state: State) -> State:
        """The state at the end of a warm-up stage: what the adaptation settles on, such as an averaged step size."""
        kernel, memory, chains = self.adaptation.finish(state.memory, state.kernel, state.chains)
        return State(kernel, memory, jax.vmap(kernel.rebase)(chains))
