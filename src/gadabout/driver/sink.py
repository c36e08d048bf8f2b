"""Where a run's records are kept."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from gadabout.driver.checkpoint import Checkpoint


class AbstractSink(ABC):
    """Keeps records chunk by chunk, in groups by the names of the ArviZ schema, and checkpoints if it is durable."""

    durable = False
    """whether it keeps checkpoints, and records somewhere else than in memory"""

    @abstractmethod
    def append(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Adds draws to a group: arrays of shape (draws, num_chains, ...), which are the sink's own from then on."""

    @abstractmethod
    def read(self, group: str, spacing: int = 1) -> dict[str, np.ndarray]:
        """Every `spacing`-th draw that a group holds, with the shape (num_chains, draws, ...); empty if there is none.

        Draws that were read in between need not fit into memory.
        """

    def due(self) -> bool:
        """Whether a checkpoint is wanted before the next piece of work."""
        return self.durable

    def started(  # noqa: B027
        self, positions: np.ndarray, log_densities: np.ndarray, gradients: np.ndarray | None
    ) -> None:
        """Is told where chains start, shape (num_chains, n), log π there, and its gradient, if the run takes any."""

    def reserve(self, disk: int, memory: int) -> None:  # noqa: B027
        """Is told how many bytes all records take at most, and the run beside them; raises OSError for too many."""

    def commit(self, checkpoint: Checkpoint) -> None:  # noqa: B027
        """Keeps a checkpoint; all records that were made before it are appended by then."""


class MemorySink(AbstractSink):
    """Keeps everything in memory, which grows with every chunk.

    What one stage records and another does not is NaN in the rows of the other, 0 or False where it is no float.
    """

    def __init__(self):
        self.chunks: dict[str, list[dict[str, np.ndarray]]] = {}

    def append(self, group, rows):
        self.chunks.setdefault(group, []).append(dict(rows))

    def read(self, group, spacing=1):
        chunks = self.chunks.get(group, [])
        if len(chunks) > 1:
            specimens = {name: values for chunk in chunks for name, values in chunk.items()}
            lengths = [len(next(iter(chunk.values()))) for chunk in chunks]
            whole = {}
            for name, values in specimens.items():
                parts = [
                    chunk.pop(name) if name in chunk else _nothing(values, length)
                    for chunk, length in zip(chunks, lengths, strict=True)
                ]
                whole[name] = np.concatenate(parts)
            chunks[:] = [whole]
        return {name: np.moveaxis(values[::spacing], 0, 1) for chunk in chunks for name, values in chunk.items()}


def _nothing(like: np.ndarray, length: int) -> np.ndarray:
    """Rows that nobody recorded."""
    return np.full((length, *like.shape[1:]), np.nan if np.issubdtype(like.dtype, np.floating) else 0, like.dtype)
