"""An adaptation of one part of a composed kernel."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from gadabout.adaptations.base import AbstractAdaptation
from gadabout.adaptations.pool import PerChain
from gadabout.kernels import CompositeInfo


class OfPart(AbstractAdaptation):
    """Any adaptation, applied to one part of a `Cycle` in fixed order or to the kernel of a `Block`.

    The adaptation receives the part's own kernel, states and transitions, so its lens is the same as without the
    composite. Names in its trace end in the part's number. A chain that it moves (see `Reprojection`) returns to its
    start in all coordinates. Parts chosen at random leave no transitions of their own, so they cannot be learned inside
    the composite.

    Args:
        index: the part, counted from 0.
        adaptation: the adaptation of this part.
    """

    index: int = eqx.field(static=True)
    adaptation: AbstractAdaptation

    @property
    def diminishing(self):
        return self.adaptation.diminishing

    @property
    def continues(self):
        return self.adaptation.continues

    @property
    def finishes(self):
        return self.adaptation.finishes

    @property
    def moves_chains(self):
        return self.adaptation.moves_chains

    def init(self, kernel: Any, states):
        memory = self.adaptation.init(kernel.kernels[self.index], self._own(kernel, states))
        return memory, PerChain(states if self.moves_chains else ())

    def observe(self, memory, kernel: Any, transition):
        if not isinstance(transition.info, CompositeInfo) or not transition.info.parts:
            raise TypeError(
                "OfPart needs the transitions of each part, which a Cycle in fixed order and a Block leave; got "
                f"{type(kernel).__name__}, whose parts are chosen at random: learn them before they are mixed"
            )
        part, own = kernel.kernels[self.index], transition.info.parts[self.index]
        evidence, trace = self.adaptation.observe(memory[0], part, own)
        return evidence, {f"{name}_{self.index}": value for name, value in trace.items()}

    def pool(self, memory, kernel: Any, evidence, chains):
        return self.adaptation.pool(memory[0], kernel.kernels[self.index], evidence, chains)

    def update(self, memory, kernel: Any, states, pooled):
        return self._on_part(self.adaptation.update, memory, kernel, states, pooled)

    def window_ends(self, length):
        return self.adaptation.window_ends(length)

    def ending(self, done, length):
        return self.adaptation.ending(done, length)

    def end(self, memory, kernel: Any, states, ending):
        return self._on_part(self.adaptation.end, memory, kernel, states, ending)

    def verdict(self, memory, kernel: Any):
        found = self.adaptation.verdict(memory[0], kernel.kernels[self.index])
        return {f"{name}_{self.index}": value for name, value in found.items()}

    def while_drawing(self):
        return OfPart(self.index, self.adaptation.while_drawing())

    def _own(self, kernel: Any, states):
        return jax.vmap(lambda state: kernel.enter(self.index, state))(states)

    def _on_part(self, method: Callable, memory, kernel: Any, states, argument):
        own, (wrapped, home) = self._own(kernel, states), memory
        part, wrapped, moved = method(wrapped, kernel.kernels[self.index], own, argument)
        if self.moves_chains:
            went = jnp.any(moved.x != own.x, -1)
            back = lambda here, start: jnp.where(went.reshape(-1, *[1] * (here.ndim - 1)), start, here)
            states = jax.tree.map(back, states, home.tree)
        return eqx.tree_at(lambda k: k.kernels[self.index], kernel, part), (wrapped, home), states
