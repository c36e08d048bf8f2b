"""Draws to a Zarr store, chunk by chunk, with checkpoints beside them."""

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
"""of names and headers in the file of starts, at most"""
PENDING_BYTES = 64 * 2**20
"""records that wait in memory for the next checkpoint, at most"""
SHARE_OF_TIME = 0.1
"""of a run's time that goes into checkpoints and what is written with them, at most, about"""


class ZarrSink(AbstractSink):
    """Keeps draws in a store (see `Arrays`) and checkpoints in a folder of it; one run writes at a time.

    A store in which there is something goes on from its last checkpoint (`last`); what was written after it is dropped.

    Args:
        path: of the store, which must exist (`create`).
        dims, coords: of the variables, as `sample` takes them.

    Raises:
        StoreError: where another run writes in it, or draws are missing or damaged.
        CheckpointError: where no checkpoint can be believed.
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
        """whether something could not be written"""
        self.tell: Callable[[str], object] = lambda text: None
        """is told what users may want to know"""
        self._pending: dict[str, list[dict[str, np.ndarray]]] = {}
        self._waiting = 0
        self._progress: Progress | None = None
        self._spent, self._committed = 0.0, time.perf_counter()

    @staticmethod
    def create(path: Path) -> Path:
        """An empty store; returns the folder for what is no draw. Raises OSError."""
        Arrays.create(path)
        return path / HIDDEN

    @property
    def empty(self) -> bool:
        """Whether no draw was written, and no checkpoint of an iteration."""
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
        """Notes how far the run is, for those who look at the store."""
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
        """Writes the records that wait in memory; raises OSError, after which a run must go on from a checkpoint."""
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
        """What is stored, for readers: where writing failed, what they have seen before."""
        if not self.failed:
            with suppress(OSError):
                self.flush()
                self.arrays.publish()
        return opened(self.path)

    def finish(self, tree: "xr.DataTree", groups: Sequence[str], attributes: Mapping[str, Any]) -> None:
        """Puts what belongs to a result beside its draws: groups of the tree, and attributes; raises OSError."""
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
        """Lets another run write."""
        self._lock.release()


def start_of(path: Path, manifest: Manifest) -> dict[str, np.ndarray] | None:
    """Where the chains of a stored run have started (see `AbstractSink.started`); None where it did not get so far.

    Raises CheckpointError for a damaged file, or one that is too large for the run.
    """
    file, n = path / HIDDEN / START, sum(math.prod(shape) for shape in manifest.layout["shapes"])
    numbers = manifest.num_chains * (2 * n + 1)
    return read_arrays(file, numbers * np.dtype(np.float64).itemsize + START_BYTES) if file.exists() else None


class FollowedSink(AbstractSink):
    """A store that another process of the same run writes; goes on from the same checkpoint (`last`)."""

    durable = True

    def __init__(self, path: Path):
        self.path, self.hidden = path, path / HIDDEN

    @property
    def last(self) -> Checkpoint | None:
        """The store's last checkpoint; asked before the run goes on."""
        found = Checkpoints(self.hidden).last()
        return None if found is None else found.checkpoint

    def append(self, group, rows):
        pass

    def read(self, group, spacing=1):
        raise AssertionError("only the process that writes a store reads its draws during a run")

    def close(self) -> None:
        """There is nothing to let go."""


def in_use(path: Path) -> bool:
    """Whether a run writes in a store now; False where that cannot be told, of a store that is not ours to write."""
    try:
        with filelock.FileLock(path / HIDDEN / LOCK).acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:
        return False


def _merged(waiting: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Rows of the same names put together."""
    runs: list[list[dict[str, np.ndarray]]] = []
    for rows in waiting:
        if runs and runs[-1][0].keys() == rows.keys():
            runs[-1].append(rows)
        else:
            runs.append([rows])
    return [{name: np.concatenate([rows[name] for rows in run]) for name in run[0]} for run in runs]


def in_bytes(count: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("kB", "MB", "GB"):
        count /= 1_000
        if count < 1_000:
            return f"{count:.3g} {unit}"
    return f"{count / 1_000:.3g} TB"
