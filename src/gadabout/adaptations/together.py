"""Composed adaptations: several, none, one that never stops, one that stands still."""

from typing import Any, Self

from gadabout.adaptations.base import AbstractAdaptation


class AbstractStandstill(AbstractAdaptation):
    """An adaptation that observes nothing and changes nothing."""

    def observe(self, memory, kernel, transition):
        return (), {}

    def pool(self, memory, kernel, evidence, chains):
        return ()

    def update(self, memory, kernel, states, pooled):
        return kernel, memory, states


class Still(AbstractStandstill):
    """Another adaptation, stopped: its memory is kept unchanged."""

    adaptation: AbstractAdaptation

    def init(self, kernel, states):
        return self.adaptation.init(kernel, states)


class NoAdaptation(AbstractStandstill):
    """No adaptation: θ keeps its initial value."""

    def init(self, kernel, states):
        return ()


class ForEver(AbstractAdaptation):
    """An adaptation that continues while draws are kept, which is valid only for diminishing steps.

    Raises ValueError if the steps of the adaptation do not diminish.
    """

    adaptation: AbstractAdaptation

    def __check_init__(self):
        if not self.adaptation.diminishing:
            raise ValueError(
                f"adapt_for_ever: the steps of {type(self.adaptation).__name__} do not diminish with these settings, "
                "and its draws would follow another law; let it stop after warm-up"
            )

    @property
    def diminishing(self):
        return True

    @property
    def continues(self):
        return True

    @property
    def finishes(self):
        return self.adaptation.finishes

    @property
    def moves_chains(self):
        return self.adaptation.moves_chains

    def init(self, kernel, states):
        return self.adaptation.init(kernel, states)

    def observe(self, memory, kernel, transition):
        return self.adaptation.observe(memory, kernel, transition)

    def pool(self, memory, kernel, evidence, chains):
        return self.adaptation.pool(memory, kernel, evidence, chains)

    def update(self, memory, kernel, states, pooled):
        return self.adaptation.update(memory, kernel, states, pooled)

    def window_ends(self, length):
        return self.adaptation.window_ends(length)

    def ending(self, done, length):
        return self.adaptation.ending(done, length)

    def end(self, memory, kernel, states, ending):
        return self.adaptation.end(memory, kernel, states, ending)

    def verdict(self, memory, kernel):
        return self.adaptation.verdict(memory, kernel)


class Together(AbstractAdaptation):
    """Several adaptations of one kernel, applied one after another, each to its own part of θ."""

    parts: tuple[AbstractAdaptation, ...]

    @property
    def diminishing(self):
        return all(part.diminishing for part in self.parts)

    @property
    def continues(self):
        return any(part.continues for part in self.parts)

    @property
    def finishes(self):
        return any(part.finishes for part in self.parts)

    @property
    def moves_chains(self):
        return any(part.moves_chains for part in self.parts)

    def init(self, kernel, states):
        return tuple(part.init(kernel, states) for part in self.parts)

    def observe(self, memory, kernel, transition):
        observed = [part.observe(m, kernel, transition) for part, m in zip(self.parts, memory, strict=True)]
        trace: dict[str, Any] = {}
        for _, record in observed:
            trace.update(record)
        return tuple(evidence for evidence, _ in observed), trace

    def pool(self, memory, kernel, evidence, chains):
        each = zip(self.parts, memory, evidence, strict=True)
        return tuple(part.pool(m, kernel, e, chains) for part, m, e in each)

    def update(self, memory, kernel, states, pooled):
        return self._fold("update", memory, kernel, states, pooled)

    def window_ends(self, length):
        return tuple(sorted({end for part in self.parts for end in part.window_ends(length)}))

    def ending(self, done, length):
        return tuple(part.ending(done, length) for part in self.parts)

    def end(self, memory, kernel, states, ending):
        return self._fold("end", memory, kernel, states, ending)

    def verdict(self, memory, kernel):
        each = (part.verdict(m, kernel) for part, m in zip(self.parts, memory, strict=True))
        return {name: value for found in each for name, value in found.items()}

    def while_drawing(self) -> Self:
        return Together(tuple(part.while_drawing() for part in self.parts))  # pyright: ignore[reportReturnType]

    def _fold(self, method: str, memory, kernel, states, arguments):
        renewed = []
        for part, m, argument in zip(self.parts, memory, arguments, strict=True):
            kernel, m, states = getattr(part, method)(m, kernel, states, argument)
            renewed.append(m)
        return kernel, tuple(renewed), states
