"""Checkpoints as files: arrays and JSON under a checksum, written completely or not at all; the last two are kept."""

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gadabout.driver import Checkpoint, CheckpointError, check_memory
from gadabout.files import whole_file
from gadabout.store.manifest import MANIFEST, Manifest

META = "meta"
KEPT = 2
"""number of checkpoints that are kept: the last, and one to fall back on"""
ROOM = 2
"""new limit in the manifest, as a multiple of the size of the checkpoint that exceeds the old limit"""
SEAL_BYTES = 65
"""bytes in front of an archive: its SHA-256 and a line break"""
ARCHIVE_COPIES = 2
"""copies of an archive in memory while it is read"""


class Kept(NamedTuple):
    """A checkpoint, the number of draws of each group stored with it, and the paths of the arrays that hold them."""

    checkpoint: Checkpoint
    rows: dict[str, int]
    arrays: list[str]


class Checkpoints:
    """The checkpoints of a run in one folder, numbered in their order.

    A file begins with the SHA-256 of the rest: an archive of arrays (`numpy.savez`, without pickles), one of which is
    JSON. A file that is damaged, cut short or of another version is rejected. So is a file larger, or with more draws,
    than the run's manifest allows; one that is too large is not read.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def save(self, checkpoint: Checkpoint, rows: Mapping[str, int], arrays: Sequence[str]) -> None:
        """Stores a checkpoint, the number of draws of each group stored with it, and the paths of all stored arrays.

        A checkpoint above the manifest's limit increases that limit first. Raises OSError.
        """
        plain = {"checkpoint": checkpoint.to_json(), "rows": dict(rows), "arrays": list(arrays)}
        there = self._files()
        path = self.folder / f"checkpoint-{(_number(there[-1]) if there else 0) + 1:09d}.npz"
        content = packed({META: np.frombuffer(json.dumps(plain).encode(), np.uint8), **checkpoint.arrays})
        manifest = Manifest.read(self.folder / MANIFEST)
        if len(content) > manifest.checkpoint_bytes:
            replace(manifest, checkpoint_bytes=ROOM * len(content)).write(self.folder / MANIFEST)
        _write(path, content)
        for old in there[: 1 - KEPT]:
            old.unlink(missing_ok=True)

    def last(self) -> Kept | None:
        """The newest valid checkpoint; None if there never was one.

        Warns if a newer one is damaged; raises CheckpointError if all of them are.
        """
        manifest = Manifest.read(self.folder / MANIFEST)
        refused = []
        for path in reversed(self._files()):
            try:
                found = self._read(path, manifest)
            except CheckpointError as error:
                refused.append(str(error))
                continue
            if refused:
                warnings.warn(f"{'; '.join(refused)}; the run goes on from the one before, {path.name}", stacklevel=2)
            return found
        if refused:
            raise CheckpointError(f"{'; '.join(refused)}: the run cannot go on; its draws can still be read")
        return None

    def _read(self, path: Path, manifest: Manifest) -> Kept:
        arrays = read_arrays(path, manifest.checkpoint_bytes)
        try:
            plain = json.loads(bytes(arrays.pop(META)).decode())
            checkpoint = Checkpoint.from_json(plain["checkpoint"], arrays)
            kept = Kept(checkpoint, dict(plain["rows"]), list(plain["arrays"]))
            too_many = {group: rows for group, rows in kept.rows.items() if not 0 <= rows <= manifest.rows(group)}
        except CheckpointError as error:
            raise CheckpointError(f"{path.name}: {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(f"{path.name} is no checkpoint of this version: {error!r}") from error
        for group, rows in too_many.items():
            most = manifest.rows(group)
            raise CheckpointError(f"{path.name} has {rows:,} draws in {group!r}, the run makes at most {most:,}")
        return kept

    def _files(self) -> list[Path]:
        """The files in the order in which they were written."""
        return sorted(self.folder.glob("checkpoint-*.npz"))


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def packed(arrays: Mapping[str, np.ndarray]) -> memoryview:
    """Arrays by name as an archive."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{_key(name): values for name, values in arrays.items()})  # pyright: ignore
    return buffer.getbuffer()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name under a checksum, completely or not at all; raises OSError."""
    _write(path, packed(arrays))


def _write(path: Path, content: memoryview) -> None:
    with whole_file(path) as partial, partial.open("wb") as file:
        file.write(hashlib.sha256(content).hexdigest().encode() + b"\n")
        file.write(content)


def read_arrays(path: Path, most: int | None = None) -> dict[str, np.ndarray]:
    """The arrays of `write_arrays`; raises CheckpointError if the file is damaged or cannot be read.

    A file with an archive of more than `most` bytes, or (MemoryError) one larger than the memory, is not read.
    """
    try:
        size = path.stat().st_size - SEAL_BYTES
        if most is not None and size > most:
            raise CheckpointError(f"{path.name} has {size:,} bytes, those of the run at most {most:,}: it is damaged")
        check_memory(ARCHIVE_COPIES, size, f"the {size:,} bytes of {path.name}", "use a machine with more")
        written, _, content = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest().encode() != written:
        raise CheckpointError(f"{path.name} is damaged or cut short: its checksum is another")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {bytes.fromhex(key).decode(): archive[key] for key in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path.name} is no archive of arrays: {error}") from error


def _key(name: str) -> str:
    """A name in hexadecimal digits, which an archive accepts for any name."""
    return name.encode().hex()
