"""Base class of adaptations, which update θ from the latest transitions of the kernel."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.adaptations.pool import Pool
from gadabout.kernels import AbstractKernel, Transition


def setting(value: Any) -> Float[Array, ""]:
    """Converts a number to an array leaf, so that another value needs no new compilation."""
    return jnp.asarray(value, dtype=float)


class AbstractAdaptation(eqx.Module):
    """A rule that learns a kernel's θ in three steps: `observe` one chain, `pool` all chains, `update` θ.

    Its array leaves are settings (rates, targets). Everything that changes during the run is in its memory, where parts
    that belong to single chains are marked `PerChain`.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__  # equinox makes methods pytrees; no program takes them

    @property
    def diminishing(self) -> bool:
        """Whether its steps vanish in the long run, so that it may adapt while draws are kept (see `ForEver`)."""
        return False

    @property
    def continues(self) -> bool:
        """Whether any part of it continues to adapt while draws are kept."""
        return False

    @property
    def finishes(self) -> bool:
        """Whether the end of a window changes anything."""
        return type(self).finish is not AbstractAdaptation.finish

    @property
    def moves_chains(self) -> bool:
        """Whether `update` may put chains back to an earlier state."""
        return False

    @abstractmethod
    def init(self, kernel: AbstractKernel, states: PyTree) -> PyTree:
        """The memory before the first iteration; `states` are stacked over chains."""

    @abstractmethod
    def observe(
        self, memory: PyTree, kernel: AbstractKernel, transition: Transition
    ) -> tuple[PyTree, dict[str, Array]]:
        """One chain's evidence from one transition, and the values to trace, by name."""

    def pool(self, memory: PyTree, kernel: AbstractKernel, evidence: PyTree, chains: Pool) -> PyTree:
        """Pools evidence over all chains, by default as their mean; `evidence` is stacked over this device's chains."""
        return chains.mean(evidence)

    @abstractmethod
    def update(
        self, memory: PyTree, kernel: AbstractKernel, states: PyTree, pooled: PyTree
    ) -> tuple[AbstractKernel, PyTree, PyTree]:
        """New kernel, memory and states from the pooled evidence; `states` are those of this device's chains."""

    def window_ends(self, length: int) -> tuple[int, ...]:
        """Numbers of iterations, in a stage of `length`, after which `finish` is called; by default only the last."""
        return (length,)

    def finish(self, memory: PyTree, kernel: AbstractKernel, states: PyTree) -> tuple[AbstractKernel, PyTree, PyTree]:
        """New kernel, memory and states at the end of a window; unchanged by default."""
        return kernel, memory, states

    def ending(self, done: int, length: int) -> PyTree:
        """Flags, for `end`, of the parts whose window ends after `done` of a stage's `length` iterations."""
        return np.asarray(done in self.window_ends(length))

    def end(
        self, memory: PyTree, kernel: AbstractKernel, states: PyTree, ending: PyTree
    ) -> tuple[AbstractKernel, PyTree, PyTree]:
        """Applies `finish` to the parts that `ending` flags, and to no other."""
        finished = self.finish(memory, kernel, states)
        choose = lambda new, old: jnp.where(ending, new, old) if eqx.is_array(old) else old
        return jax.tree.map(choose, finished, (kernel, memory, states))

    def verdict(self, memory: PyTree, kernel: AbstractKernel) -> dict[str, Array]:
        """Diagnostics for the end of a warm-up: whether bounds were reached, and the `target_acceptance`."""
        return {}

    def while_drawing(self) -> "AbstractAdaptation":
        """The adaptation that runs while draws are kept, with a memory of the same form."""
        from gadabout.adaptations.together import Still  # a late import: `together` is built on this module

        return self if self.continues else Still(self)
