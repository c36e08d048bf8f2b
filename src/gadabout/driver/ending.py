"""How a run ends."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Completed:
    """All draws were made."""


@dataclass(frozen=True)
class Interrupted:
    """Somebody wanted it to end; it can go on from its checkpoint."""


@dataclass(frozen=True)
class Satisfied:
    """The rule that was given by `until` is met."""

    reason: str


@dataclass(frozen=True)
class Failed:
    """It could not go on: a position that is not finite, no more batches."""

    reason: str


Ending = Completed | Interrupted | Satisfied | Failed
