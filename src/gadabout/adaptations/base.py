"""What an adaptation is: it moves θ from what the kernel just saw."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gadabout.kernels import AbstractKernel, Transition


def setting(value: Any) -> Float[Array, ""]:
    """A number as an array leaf, so that another value compiles nothing anew."""
    return jnp.asarray(value, dtype=float)


class AbstractAdaptation(eqx.Module):
    """A rule that learns a kernel's θ, in two halves: what one chain saw, and what all chains make of it.

    Its array leaves are settings (rates, targets); what changes during the run lives in its memory.
    """

    @property
    def diminishing(self) -> bool:
        """Whether its steps vanish as the run goes on, so that it may adapt while draws are kept."""
        return False

    @abstractmethod
    def init(self, kernel: AbstractKernel, states: PyTree) -> PyTree:
        """The memory before the first iteration; `states` are stacked over chains."""

    @abstractmethod
    def observe(
        self, memory: PyTree, kernel: AbstractKernel, transition: Transition
    ) -> tuple[PyTree, dict[str, Array]]:
        """One chain's evidence from one transition, and what of it is worth a trace."""

    @abstractmethod
    def update(
        self, memory: PyTree, kernel: AbstractKernel, states: PyTree, evidence: PyTree
    ) -> tuple[AbstractKernel, PyTree, PyTree]:
        """New kernel, memory and states from the evidence of all chains, stacked along a leading axis."""

    def finish(self, memory: PyTree, kernel: AbstractKernel, states: PyTree) -> tuple[AbstractKernel, PyTree, PyTree]:
        """New kernel, memory and states at the end of a warm-up stage, outside the loop; unchanged by default."""
        return kernel, memory, states


class Together(AbstractAdaptation):
    """Several adaptations of one kernel, each with its own part of θ, one after another; none at all freezes θ."""

    parts: tuple[AbstractAdaptation, ...] = ()

    @property
    def diminishing(self):
        return all(part.diminishing for part in self.parts)

    def init(self, kernel, states):
        return tuple(part.init(kernel, states) for part in self.parts)

    def observe(self, memory, kernel, transition):
        seen = [part.observe(m, kernel, transition) for part, m in zip(self.parts, memory, strict=True)]
        trace: dict[str, Any] = {}
        for _, record in seen:
            trace.update(record)
        return tuple(evidence for evidence, _ in seen), trace

    def update(self, memory, kernel, states, evidence):
        renewed = []
        for part, m, e in zip(self.parts, memory, evidence, strict=True):
            kernel, m, states = part.update(m, kernel, states, e)
            renewed.append(m)
        return kernel, tuple(renewed), states

    def finish(self, memory, kernel, states):
        renewed = []
        for part, m in zip(self.parts, memory, strict=True):
            kernel, m, states = part.finish(m, kernel, states)
            renewed.append(m)
        return kernel, tuple(renewed), states
