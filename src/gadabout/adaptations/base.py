"""What an adaptation is: it moves θ from what the kernel just saw."""

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
    """A number as an array leaf, so that another value compiles nothing anew."""
    return jnp.asarray(value, dtype=float)


class AbstractAdaptation(eqx.Module):
    """A rule that learns a kernel's θ, in three parts: what one chain saw, its sum over chains, what is made of it.

    Its array leaves are settings (rates, targets); what changes during the run lives in its memory, of which all that
    belongs to single chains is marked `PerChain`.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__  # no program is given its methods, which equinox makes into pytrees

    @property
    def diminishing(self) -> bool:
        """Whether its steps vanish as the run goes on, so that it may adapt while draws are kept (see `ForEver`)."""
        return False

    @property
    def continues(self) -> bool:
        """Whether any part of it goes on while draws are kept."""
        return False

    @property
    def finishes(self) -> bool:
        """Whether anything happens where its windows end."""
        return type(self).finish is not AbstractAdaptation.finish

    @property
    def moves_chains(self) -> bool:
        """Whether `update` may put chains back to where they began."""
        return False

    @abstractmethod
    def init(self, kernel: AbstractKernel, states: PyTree) -> PyTree:
        """The memory before the first iteration; `states` are stacked over chains."""

    @abstractmethod
    def observe(
        self, memory: PyTree, kernel: AbstractKernel, transition: Transition
    ) -> tuple[PyTree, dict[str, Array]]:
        """One chain's evidence from one transition, and what of it is worth a trace."""

    def pool(self, memory: PyTree, kernel: AbstractKernel, evidence: PyTree, chains: Pool) -> PyTree:
        """What the evidence of all chains comes to, from that of those at hand, stacked: their mean by default."""
        return chains.mean(evidence)

    @abstractmethod
    def update(
        self, memory: PyTree, kernel: AbstractKernel, states: PyTree, pooled: PyTree
    ) -> tuple[AbstractKernel, PyTree, PyTree]:
        """New kernel, memory and states from the pooled evidence; `states` are those of the chains at hand."""

    def window_ends(self, length: int) -> tuple[int, ...]:
        """After which of a stage's `length` iterations `finish` is called: after the last, by default."""
        return (length,)

    def finish(self, memory: PyTree, kernel: AbstractKernel, states: PyTree) -> tuple[AbstractKernel, PyTree, PyTree]:
        """New kernel, memory and states at the end of a window; unchanged by default."""
        return kernel, memory, states

    def ending(self, done: int, length: int) -> PyTree:
        """Which of its parts end a window after `done` of a stage's `length` iterations, for `end`."""
        return np.asarray(done in self.window_ends(length))

    def end(
        self, memory: PyTree, kernel: AbstractKernel, states: PyTree, ending: PyTree
    ) -> tuple[AbstractKernel, PyTree, PyTree]:
        """`finish` of the parts that `ending` says, and of no other."""
        finished = self.finish(memory, kernel, states)
        choose = lambda new, old: jnp.where(ending, new, old) if eqx.is_array(old) else old
        return jax.tree.map(choose, finished, (kernel, memory, states))

    def verdict(self, memory: PyTree, kernel: AbstractKernel) -> dict[str, Array]:
        """What the end of a warm-up should be judged by: bounds that were met, and its `target_acceptance`."""
        return {}

    def while_drawing(self) -> "AbstractAdaptation":
        """What of it goes on while draws are kept, with a memory of the same form."""
        from gadabout.adaptations.together import Still  # the one thing that this file asks of those built on it

        return self if self.continues else Still(self)
