"""Where a run's records are kept."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from gadabout.driver.checkpoint import Checkpoint


class AbstractSink(ABC):
    """Keeps records chunk by chunk, in groups by the names of the ArviZ schema, and checkpoints if it is durable."""

    durable = False
    """whether a checkpoint is wanted after every piece of work"""

    @abstractmethod
    def append(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Adds draws to a group: arrays of shape (draws, num_chains, ...), which are the sink's own from then on."""

    @abstractmethod
    def read(self, group: str) -> dict[str, np.ndarray]:
        """What a group holds so far, with the shape (num_chains, draws, ...); empty if nothing."""

    def commit(self, checkpoint: Checkpoint) -> None:  # noqa: B027
        """Keeps a checkpoint; all records that were made before it are appended by then."""


class MemorySink(AbstractSink):
    """Keeps everything in memory, which grows with every chunk."""

    def __init__(self):
        self.chunks: dict[str, dict[str, list[np.ndarray]]] = {}

    def append(self, group, rows):
        for name, values in rows.items():
            self.chunks.setdefault(group, {}).setdefault(name, []).append(values)

    def read(self, group):
        kept = self.chunks.get(group, {})
        for parts in kept.values():
            if len(parts) > 1:
                parts[:] = [np.concatenate(parts)]
        return {name: np.moveaxis(parts[0], 0, 1) for name, parts in kept.items()}


def check_memory(each: int, count: int, what: str, remedy: str = "use fewer, or a diagonal factor") -> None:
    """Raises MemoryError where `count` things of `each` bytes need more memory than the machine has."""
    needed, there = each * count, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise MemoryError(
            f"{what} need {needed / 2**30:,.1f} GiB of memory, this machine has {there / 2**30:.1f}: {remedy}"
        )
