"""Checkpoints as files: arrays and JSON under a checksum, whole or not at all, and the one before kept."""

import hashlib
import io
import json
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gadabout.driver import Checkpoint, CheckpointError
from gadabout.files import whole_file

META = "meta"
KEPT = 2
"""checkpoints that are kept: the last, and one to fall back on"""


class Checkpoints:
    """The checkpoints of a run in one folder, numbered as they come.

    A file begins with the SHA-256 of what follows, an archive of arrays (`numpy.savez`, without pickles) of which one
    is JSON. What was damaged, cut short or written by another version is not believed.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def save(self, checkpoint: Checkpoint, rows: Mapping[str, int]) -> None:
        """Keeps a checkpoint and the number of draws of each group that are stored with it; raises OSError."""
        plain = {"checkpoint": checkpoint.to_json(), "rows": dict(rows)}
        there = self._files()
        path = self.folder / f"checkpoint-{(_number(there[-1]) if there else 0) + 1:09d}.npz"
        write_arrays(path, {META: np.frombuffer(json.dumps(plain).encode(), np.uint8), **checkpoint.arrays})
        for old in there[: 1 - KEPT]:
            old.unlink(missing_ok=True)

    def last(self) -> tuple[Checkpoint, dict[str, int]] | None:
        """The newest checkpoint that can be believed, with its numbers of draws; None where there never was one.

        Warns where a newer one is damaged; raises CheckpointError where all of them are.
        """
        refused = []
        for path in reversed(self._files()):
            try:
                found = self._read(path)
            except CheckpointError as error:
                refused.append(str(error))
                continue
            if refused:
                warnings.warn(f"{'; '.join(refused)}; the run goes on from the one before, {path.name}", stacklevel=2)
            return found
        if refused:
            raise CheckpointError(f"{'; '.join(refused)}: the run cannot go on; its draws can still be read")
        return None

    def _read(self, path: Path) -> tuple[Checkpoint, dict[str, int]]:
        arrays = read_arrays(path)
        try:
            plain = json.loads(bytes(arrays.pop(META)).decode())
            return Checkpoint.from_json(plain["checkpoint"], arrays), plain["rows"]
        except CheckpointError as error:
            raise CheckpointError(f"{path.name}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path.name} is no checkpoint of this version: {error!r}") from error

    def _files(self) -> list[Path]:
        """The files in the order in which they were written."""
        return sorted(self.folder.glob("checkpoint-*.npz"))


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name under a checksum, whole or not at all; raises OSError."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{_key(name): values for name, values in arrays.items()})  # pyright: ignore
    content = buffer.getbuffer()
    with whole_file(path) as partial, partial.open("wb") as file:
        file.write(hashlib.sha256(content).hexdigest().encode() + b"\n")
        file.write(content)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote; raises CheckpointError where it is not what was written."""
    try:
        written, _, content = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from error
    if hashlib.sha256(content).hexdigest().encode() != written:
        raise CheckpointError(f"{path.name} is damaged or cut short: its checksum is another")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {bytes.fromhex(key).decode(): archive[key] for key in archive.files}


def _key(name: str) -> str:
    """A name that an archive takes, whatever is in it."""
    return name.encode().hex()
