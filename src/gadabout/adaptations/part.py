"""An adaptation of one part of a composed kernel."""

from typing import Any

import equinox as eqx
import jax

from gadabout.adaptations.base import AbstractAdaptation


class OfPart(AbstractAdaptation):
    """Any adaptation, applied to one part of a `Cycle` in fixed order or to the kernel of a `Block`.

    It sees the part's own kernel, states and transitions, so its lens is the one it has without the composite. Its
    trace has the part's number after the name. Parts that are chosen at random leave no transitions of their own, and
    cannot be learned inside the composite.

    Args:
        index: the part, counted from 0.
        adaptation: what learns it.
    """

    index: int = eqx.field(static=True)
    adaptation: AbstractAdaptation

    @property
    def diminishing(self):
        return self.adaptation.diminishing

    def init(self, kernel: Any, states):
        return self.adaptation.init(kernel.kernels[self.index], self._own(kernel, states))

    def observe(self, memory, kernel: Any, transition):
        if not transition.info.parts:
            raise TypeError(
                "OfPart needs the transitions of each part, which a Cycle in fixed order and a Block leave; got "
                f"{type(kernel).__name__}, whose parts are chosen at random: learn them before they are mixed"
            )
        part, own = kernel.kernels[self.index], transition.info.parts[self.index]
        evidence, trace = self.adaptation.observe(memory, part, own)
        return evidence, {f"{name}_{self.index}": value for name, value in trace.items()}

    def update(self, memory, kernel: Any, states, evidence):
        own = self._own(kernel, states)
        part, memory, moved = self.adaptation.update(memory, kernel.kernels[self.index], own, evidence)
        return self._replaced(kernel, part, own, moved), memory, states

    def finish(self, memory, kernel: Any, states):
        own = self._own(kernel, states)
        part, memory, moved = self.adaptation.finish(memory, kernel.kernels[self.index], own)
        return self._replaced(kernel, part, own, moved), memory, states

    def _own(self, kernel: Any, states):
        return jax.vmap(lambda state: kernel.enter(self.index, state))(states)

    def _replaced(self, kernel: Any, part, own, moved):
        if moved is not own:
            raise TypeError(f"OfPart cannot carry back the states that {type(self.adaptation).__name__} moves")
        return eqx.tree_at(lambda k: k.kernels[self.index], kernel, part)
