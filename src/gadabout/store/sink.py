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

from gadabout.driver import AbstractSink, Progress
from gadabout.files import write_text
from gadabout.store.checkpoints import Checkpoints, read_arrays, write_arrays
from gadabout.store.manifest import StoreError

if TYPE_CHECKING:
    import xarray as xr

HIDDEN = ".gadabout"
"""the folder in a store that holds what is no draw"""
MANIFEST, START, LOCK, STATUS = "run.json", "start.npz", "lock", "status.json"
CHUNK_BYTES, LONGEST_CHUNK = 4 * 2**20, 16_384
PENDING_BYTES = 64 * 2**20
"""records that wait in memory for the next checkpoint, at most"""
LOADED_BYTES = 256 * 2**20
"""size up to which the groups of a store are read into memory when it is opened"""
SHARE_OF_TIME = 0.1
"""of a run's time that goes into checkpoints, about; draws are written beside the computation"""
ROOT = "zarr.json"


class ZarrSink(AbstractSink):
    """One Zarr store of format 3, opened as it is by `xarray.open_datatree` and ArviZ at any moment of the run.

    Readers go by the root's consolidated metadata, which are replaced at once after each checkpoint: they see the draws
    that were stored by then and nothing of those that are being written. What one stage records and another does not
    is NaN in the rows of the other, 0 or False where it is no float.

    Args:
        path: of the store, which must exist (`create`).
        dims, coords: of the variables, as `sample` takes them.

    A store in which there is something goes on from its last checkpoint (`last`); what was written after it is dropped.

    Raises StoreError where another run writes in it, CheckpointError where no checkpoint can be believed.
    """

    durable = True

    def __init__(
        self,
        path: Path,
        dims: Mapping[str, Sequence[str]],
        coords: Mapping[str, Any],
    ):
        self.path, self.hidden = path, path / HIDDEN
        self.dims, self.coords = dims, coords
        self.checkpoints = Checkpoints(self.hidden)
        self._lock = filelock.FileLock(self.hidden / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise StoreError(f"{str(path)!r} is being written by another run; wait for it, or stop it") from error
        self._pending: dict[str, list[dict[str, np.ndarray]]] = {}
        self._waiting = 0
        self.failed = False
        """whether something could not be written"""
        self.rows: dict[str, int] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        """what the store's nodes say of themselves, by their paths"""
        self.attributes: dict[str, Any] = {}
        self._arrays: dict[str, Any] = {}
        self._progress: Progress | None = None
        self.tell: Callable[[str], object] = lambda text: None
        """is told what users may want to know"""
        self._spent, self._committed = 0.0, time.perf_counter()
        try:
            self.last, rows = self.checkpoints.last() or (None, {})
            self._restore(rows)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def create(path: Path) -> Path:
        """An empty store; returns the folder for what is no draw. Raises OSError."""
        (path / HIDDEN).mkdir(parents=True)
        write_text(path / ROOT, json.dumps(_group({}, {})))
        return path / HIDDEN

    def started(self, positions, log_densities):
        write_arrays(self.hidden / START, {"positions": positions, "log_densities": log_densities})

    def start(self) -> dict[str, np.ndarray] | None:
        """What `started` was told; None where the run did not get so far. Raises CheckpointError for a damaged file."""
        return read_arrays(self.hidden / START) if (self.hidden / START).exists() else None

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
        names = [path for path in self._arrays if path.startswith(f"{group}/") and self._is_record(path)]
        return {path.partition("/")[2]: self._arrays[path][:, ::spacing] for path in names}

    def due(self):
        return time.perf_counter() - self._committed >= self._spent / SHARE_OF_TIME

    def commit(self, checkpoint):
        began = time.perf_counter()
        self.flush()
        self.checkpoints.save(checkpoint, self.rows)
        self.publish()
        if self._progress is not None:
            write_text(self.hidden / STATUS, json.dumps(asdict(self._progress) | {"pid": os.getpid()}))
        self._committed = time.perf_counter()
        self._spent = self._committed - began

    def flush(self) -> None:
        """Writes the records that wait in memory; raises OSError, after which a run must go on from a checkpoint."""
        waiting, self._pending, self._waiting = self._pending, {}, 0
        try:
            for group, rows in waiting.items():
                for merged in _merged(rows):
                    self._write(group, merged)
        except OSError:
            self.failed = True
            raise

    def tree(self) -> "xr.DataTree":
        """What is stored, for readers: where writing failed, what they have seen before."""
        if not self.failed:
            with suppress(OSError):
                self.flush()
                self.publish()
        return opened(self.path)

    def remove(self) -> None:
        """Removes the store, where there is nothing in it yet."""
        if not self.rows:
            shutil.rmtree(self.path)

    def publish(self) -> None:
        """Shows readers what is stored, all at once."""
        for path, node in self.metadata.items():
            group = path.partition("/")[0]
            if group in self.rows and node["node_type"] == "array" and "draw" in node["dimension_names"]:
                node["shape"][node["dimension_names"].index("draw")] = self.rows[group]
        write_text(self.path / ROOT, json.dumps(_group(self.attributes, self.metadata)))

    def add(self, group: str, tree: "xr.DataTree") -> None:
        """Puts a group of finished figures into the store, in place of one of that name; readers see it later."""
        shutil.rmtree(self.path / group, ignore_errors=True)
        self.metadata = {path: node for path, node in self.metadata.items() if path.split("/")[0] != group}
        for path, node in tree.subtree_with_keys:
            place = group if path == "." else f"{group}/{path}"
            node.to_dataset(inherit=False).to_zarr(self.path, group=place, mode="a", consolidated=False, zarr_format=3)
        self._look(group)

    def close(self) -> None:
        """Lets another run write."""
        self._lock.release()

    def _write(self, group: str, rows: dict[str, np.ndarray]) -> None:
        count, begin = len(next(iter(rows.values()))), self.rows.get(group, 0)
        self._make(group, rows)
        for path in self._arrays:
            if path.startswith(f"{group}/"):
                array, values = self._arrays[path], rows.get(path.partition("/")[2])
                axis = array.metadata.dimension_names.index("draw")
                shape = list(array.shape)
                shape[axis] = begin + count
                array.resize(tuple(shape))
                if path == f"{group}/draw":
                    array[begin : begin + count] = np.arange(begin, begin + count)
                elif values is not None and count:
                    array[:, begin : begin + count] = np.moveaxis(values, 0, 1)
        self.rows[group] = begin + count

    def _make(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Makes the arrays of records that come for the first time."""
        new = {name: values for name, values in rows.items() if f"{group}/{name}" not in self._arrays}
        if not new:
            return
        import arviz_base
        import zarr

        empty = {name: np.moveaxis(values[:0], 0, 1) for name, values in new.items()}
        tree = arviz_base.from_dict(
            {group: empty},
            save_warmup=True,
            check_conventions=False,
            dims={name: list(names) for name, names in self.dims.items() if name in new} or None,
            coords=dict(self.coords) or None,
        )
        dataset = tree[group].to_dataset()
        dataset = dataset.drop_vars([name for name in dataset.coords if f"{group}/{name}" in self.metadata])
        encoding = {str(name): _encoding(values) for name, values in dataset.data_vars.items()}
        if "draw" in dataset.coords:
            encoding["draw"] = {"chunks": (LONGEST_CHUNK,)}
        dataset.to_zarr(self.path, group=group, mode="a", encoding=encoding, consolidated=False, zarr_format=3)
        self._look(group)
        for name in (*new, *(["draw"] if "draw" in dataset.coords else [])):
            self._arrays[f"{group}/{name}"] = zarr.open_array(self.path / group / str(name), mode="r+")

    def _look(self, group: str) -> None:
        """Takes note of what the nodes of a group say of themselves."""
        for file in sorted((self.path / group).rglob(ROOT)):
            self.metadata[file.parent.relative_to(self.path).as_posix()] = json.loads(file.read_text(encoding="utf-8"))

    def _restore(self, rows: Mapping[str, int]) -> None:
        """Takes up a store that has so many draws, and drops what was written after them."""
        import zarr

        for partial in [*self.path.rglob("*.partial"), *self.hidden.glob(".*")]:
            partial.unlink(missing_ok=True)  # of a process that was killed while it wrote
        for group in rows:
            self._look(group)
        self.rows = dict(rows)
        self.publish()
        for folder in [child for child in self.path.iterdir() if child.is_dir() and child.name != HIDDEN]:
            if folder.name not in rows:
                shutil.rmtree(folder)
        for folder in [child for group in rows for child in (self.path / group).iterdir() if child.is_dir()]:
            if not (folder / ROOT).exists():
                shutil.rmtree(folder)  # of an array that was being made
        for path, node in self.metadata.items():
            if path.partition("/")[0] in rows and "draw" in node.get("dimension_names", ()):
                write_text(self.path / path / ROOT, json.dumps(node))
                self._arrays[path] = zarr.open_array(self.path / path, mode="r+")

    def _is_record(self, path: str) -> bool:
        return not path.endswith("/draw")


def _merged(waiting: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Rows of the same names put together."""
    runs: list[list[dict[str, np.ndarray]]] = []
    for rows in waiting:
        if runs and runs[-1][0].keys() == rows.keys():
            runs[-1].append(rows)
        else:
            runs.append([rows])
    return [{name: np.concatenate([rows[name] for rows in run]) for name in run[0]} for run in runs]


def _encoding(values: Any) -> dict[str, Any]:
    """How a variable of dimensions (chain, draw, ...) lies in the store: all chains of some draws in one file."""
    shape = values.shape
    each = math.prod((shape[0], *shape[2:])) * values.dtype.itemsize
    draws = max(1, min(LONGEST_CHUNK, 2 ** ((CHUNK_BYTES // max(each, 1)).bit_length() - 1)))
    fill = np.nan if np.issubdtype(values.dtype, np.floating) else np.zeros((), values.dtype).item()
    return {"chunks": (shape[0], draws, *shape[2:]), "fill_value": fill, "compressors": None}


def _group(attributes: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """A root group of Zarr's format 3 with what its members say of themselves in it."""
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": dict(attributes),
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": dict(members)},
    }


def opened(path: Path) -> "xr.DataTree":
    """A store as a tree whose draws stay on the disk, but for small ones, which are read."""
    import xarray as xr

    tree = xr.open_datatree(path, engine="zarr", cache=False)
    return tree.load() if tree.nbytes <= LOADED_BYTES else tree


def in_use(path: Path) -> bool:
    """Whether a run writes in a store now."""
    lock = filelock.FileLock(path / HIDDEN / LOCK)
    try:
        with lock.acquire(timeout=0):
            return False
    except filelock.Timeout:
        return True


def in_bytes(count: float) -> str:
    """A number of bytes as people say it."""
    for unit in ("kB", "MB", "GB"):
        count /= 1_000
        if count < 1_000:
            return f"{count:.3g} {unit}"
    return f"{count / 1_000:.3g} TB"
