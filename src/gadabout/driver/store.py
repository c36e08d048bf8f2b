"""Where a stage's draws are kept on the host."""

from collections.abc import Mapping
from typing import Any

import numpy as np


class Store:
    """Records of one stage, allocated once for all its draws, so that too long a run fails before it starts."""

    def __init__(self, specs: Mapping[str, Any], draws: int):
        """Room for `draws` records of each shape (pools, chains, ...) and type.

        Raises MemoryError where that is more than the machine has.
        """
        self.filled = 0
        try:
            self.rows = {name: np.empty((draws, *spec.shape), spec.dtype) for name, spec in specs.items()}
        except MemoryError as error:
            size = draws * sum(spec.size * spec.dtype.itemsize for spec in specs.values()) / 2**30
            raise MemoryError(
                f"{draws} draws need {size:.1f} GiB: use thinning, fewer draws, or record=[...] to keep less"
            ) from error

    def append(self, buffer: Mapping[str, Any], count: int) -> None:
        """Copies the first `count` rows of a chunk's buffers."""
        for name, rows in self.rows.items():
            rows[self.filled : self.filled + count] = np.asarray(buffer[name])[:count]
        self.filled += count

    def drop_nonfinite(self, name: str, last: int) -> None:
        """Forgets, among the `last` rows, those from the first on that is not finite in `name`; all if it is unkept."""
        rows = self.rows[name][self.filled - last : self.filled] if name in self.rows else np.full((last, 1), np.nan)
        finite = np.isfinite(rows.reshape(last, -1)).all(1)
        self.filled -= last - int(np.argmin(finite) if not finite.all() else last)

    def by_chain(self) -> dict[str, np.ndarray]:
        """What was stored, with the shape (num_chains, draws, ...)."""
        return {name: _by_chain(rows[: self.filled]) for name, rows in self.rows.items()}


def _by_chain(rows: np.ndarray) -> np.ndarray:
    draws, pools, chains, *shape = rows.shape
    return np.moveaxis(rows.reshape(draws, pools * chains, *shape), 0, 1)
