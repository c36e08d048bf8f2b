"""A sink that writes draws to a Zarr store, chunk by chunk, and checkpoints beside them."""

import errno
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import filelock
import numpy as np

from gadabout.driver import AbstractSink, Checkpoint, Progress
from gadabout.files import write_text
from gadabout.store.arrays import HIDDEN, Arrays, opened
from gadabout.store.checkpoints import Checkpoints, read_arrays, write_arrays
from gadabout.store.manifest import Manifest, StoreError

if TYPE_CHECKING:
    import xarray as xr

START, LOCK, STATUS = "start.npz", "lock", "status.json"
START_BYTES = 4_096
"""most bytes of names and headers in the file of starts"""
PENDING_BYTES = 64 * 2**20
"""most bytes of records that wait in memory for the next checkpoint"""
SHARE_OF_TIME = 0.1
"""approximate upper limit of the share of a run's time for checkpoints and the records written with them"""


class ZarrSink(AbstractSink):
    """Stores draws in a Zarr store (see `Arrays`) and checkpoints in a folder of it; one run writes at a time.

    A store that is not empty continues from its last checkpoint (`last`); what was written after it is dropped.

    Args:
        path: path of the store, which must exist (`create`).
        dims, coords: those of the variables, as `sample` takes them.

    Raises:
        StoreError: if another run is writing to it, or draws are missing or damaged.
        CheckpointError: if there are checkpoints and none is valid.
    """

    durable = True

    def __init__(self, path: Path, dims: Mapping[str, Sequence[str]], coords: Mapping[str, Any]):
        self.path, self.hidden = path, path / HIDDEN
        self.checkpoints = Checkpoints(self.hidden)
        self._lock = filelock.FileLock(self.hidden / LOCK)
        try:
            self._lock.acquire(timeout=1)
        except filelock.Timeout as error:
            raise StoreError(f"{str(path)!r} is being written by another run; wait for it, or stop it") from error
        try:
            self.last, rows, arrays = self.checkpoints.last() or (None, {}, [])
            self.arrays = Arrays(path, dims, coords, rows, arrays)
        except BaseException:
            self.close()
            raise
        self._iterations = 0 if self.last is None else self.last.account.iterations
        self.failed = False
        """whether writing failed"""
        self.tell: Callable[[str], object] = lambda text: None
        """called with messages that may interest users"""
        self._pending: dict[str, list[dict[str, np.ndarray]]] = {}
        self._waiting = 0
        self._progress: Progress | None = None
        self._spent, self._committed = 0.0, time.perf_counter()

    @staticmethod
    def create(path: Path) -> Path:
        """Makes an empty store; returns its folder for everything that is not draws. Raises OSError."""
        Arrays.create(path)
        return path / HIDDEN

    @property
    def empty(self) -> bool:
        """Whether no draw was written, and no checkpoint after an iteration."""
        return not self.arrays.rows and not self._iterations

    def started(self, positions, log_densities, gradients):
        found = {"positions": positions, "log_densities": log_densities}
        write_arrays(self.hidden / START, found if gradients is None else found | {"gradients": gradients})

    def reserve(self, disk, memory):
        free = shutil.disk_usage(self.path).free
        said = f"the draws need about {in_bytes(disk)} of disk, of which {in_bytes(free)} are free"
        if disk > free:
            raise OSError(errno.ENOSPC, f"{said}: use thinning, fewer draws or chains, or record=[...] to keep less")
        self.tell(f"{said}, and the run {in_bytes(memory + PENDING_BYTES)} of memory")

    def saw(self, progress: Progress) -> None:
        """Notes the progress of the run, for readers of the store."""
        self._progress = progress

    def append(self, group, rows):
        self._pending.setdefault(group, []).append(dict(rows))
        self._waiting += sum(values.nbytes for values in rows.values())
        if self._waiting > PENDING_BYTES:
            self.flush()

    def read(self, group, spacing=1):
        self.flush()
        return self.arrays.read(group, spacing)

    def due(self):
        return time.perf_counter() - self._committed >= self._spent / SHARE_OF_TIME

    def commit(self, checkpoint):
        began = time.perf_counter()
        self.flush()
        self.checkpoints.save(checkpoint, self.arrays.rows, self.arrays.kept)
        self._iterations = checkpoint.account.iterations
        self.arrays.publish()
        self._note_progress()
        self._committed = time.perf_counter()
        self._spent = self._committed - began

    def flush(self) -> None:
        """Writes the records that wait in memory; raises OSError, after which a run must continue from a checkpoint."""
        waiting, self._pending, self._waiting = self._pending, {}, 0
        try:
            for group, rows in waiting.items():
                for merged in _merged(rows):
                    self.arrays.write(group, merged)
            self.arrays.check()
        except OSError:
            self.failed = True
            raise

    def tree(self) -> "xr.DataTree":
        """The stored groups, for readers; if writing failed, as they were last published."""
        if not self.failed:
            with suppress(OSError):
                self.flush()
                self.arrays.publish()
        return opened(self.path)

    def finish(self, tree: "xr.DataTree", groups: Sequence[str], attributes: Mapping[str, Any]) -> None:
        """Adds groups of `tree` and the attributes of a result to the store, beside its draws; raises OSError."""
        for group in groups:
            if group in tree.children:
                self.arrays.add(group, tree.children[group])
        self.arrays.attributes = dict(attributes)
        self.arrays.publish()
        self._note_progress()

    def _note_progress(self) -> None:
        if self._progress is not None:
            write_text(self.hidden / STATUS, json.dumps(asdict(self._progress) | {"pid": os.getpid()}))

    def remove(self) -> None:
        """Removes the store."""
        shutil.rmtree(self.path)

    def close(self) -> None:
        """Releases the lock, so that another run can write."""
        self._lock.release()


def start_of(path: Path, manifest: Manifest) -> dict[str, np.ndarray] | None:
    """The starts of a stored run's chains (see `AbstractSink.started`); None if the run did not get so far.

    Raises CheckpointError for a damaged file, or one that is too large for the run.
    """
    file, n = path / HIDDEN / START, sum(math.prod(shape) for shape in manifest.layout["shapes"])
    numbers = manifest.num_chains * (2 * n + 1)
    return read_arrays(file, numbers * np.dtype(np.float64).itemsize + START_BYTES) if file.exists() else None


class FollowedSink(AbstractSink):
    """A store that another process of the same run writes; continues from the same checkpoint (`last`)."""

    durable = True

    def __init__(self, path: Path):
        self.path, self.hidden = path, path / HIDDEN

    @property
    def last(self) -> Checkpoint | None:
        """The store's last checkpoint; to be read before the run continues."""
        found = Checkpoints(self.hidden).last()
        return None if found is None else found.checkpoint

    def append(self, group, rows):
        pass

    def read(self, group, spacing=1):
        raise AssertionError("only the process that writes a store reads its draws during a run")

    def close(self) -> None:
        """Does nothing: this sink holds no lock."""


def in_use(path: Path) -> bool:
    """Whether a run is writing to a store now; False if this cannot be determined, as without write permission."""
    try:
        with filelock.FileLock(path / HIDDEN / LOCK).acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:
        return False


def _merged(waiting: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Rows merged where consecutive ones have the same names."""
    runs: list[list[dict[str, np.ndarray]]] = []
    for rows in waiting:
        if runs and runs[-1][0].keys() == rows.keys():
            runs[-1].append(rows)
        else:
            runs.append([rows])
    return [{name: np.concatenate([rows[name] for rows in run]) for name in run[0]} for run in runs]


def in_bytes(count: float) -> str:
    """A number of bytes as text in kB, MB, GB or TB."""
    for unit in ("kB", "MB", "GB"):
        count /= 1_000
        if count < 1_000:
            return f"{count:.3g} {unit}"
    return f"{count / 1_000:.3g} TB"
