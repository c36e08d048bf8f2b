"""Files that are written completely or not at all, and JSON that any program can read.

A file is written under a temporary name in the same folder, flushed to disk, and only then renamed. If that fails,
nothing is left behind.
"""

import json
import math
import os
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = Path(__file__).parent
"""the folder of this package"""
STANDARD_OUTPUT = "-"
"""the path that stands for standard output"""

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_replaceable(path: Path) -> None:
    """Raises FileExistsError if `path` exists and is not a regular file: nothing else is ever replaced."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")
        raise FileExistsError(f"{str(path)!r} is {kind}, which is not replaced; choose the name of a file")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path in the same folder, which is renamed to `path` when the block ends without an error.

    The block writes a file at the temporary path, which has the suffix of `path`. A regular file at `path` is replaced.

    Raises:
        FileExistsError: before and after the block, if something else is at `path` (see `check_replaceable`).
        OSError: if the block made no file, or the file cannot be flushed to disk.
    """
    check_replaceable(path)
    partial = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")  # a name that no file has
    try:
        yield partial
        _to_disk(partial)
        check_replaceable(path)
        os.replace(partial, path)
        _names_to_disk(path.parent)
    finally:
        with suppress(OSError):  # a failure here must not hide the error of the block
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8, completely or not at all; raises the errors of `whole_file`."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, document: Any) -> None:
    """Writes `json_value(document)`, completely or not at all; the path `-` means standard output.

    Raises:
        TypeError: for a value that JSON cannot represent, such as a set or a function, before anything is written.
        OSError: as `whole_file` does.
    """
    text = json.dumps(json_value(document), indent=2, allow_nan=False) + "\n"
    if str(path) == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(path, text)


def json_value(value: Any) -> Any:
    """A tree of dictionaries, lists, numbers and strings in the types of JSON.

    NumPy's numbers become Python's, tuples and arrays become lists, and numbers that are not finite become None.
    """
    import jax  # a slow import, which writing a text file does not need

    if isinstance(value, dict):
        return {key.item() if isinstance(key, np.generic) else key: json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(part) for part in value]
    if isinstance(value, np.floating):
        value = float(value)
    elif isinstance(value, np.generic | np.ndarray | jax.Array):
        plain = np.asarray(value).tolist()
        return json_value(plain) if isinstance(plain, list | float) else plain
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _to_disk(path: Path) -> None:
    """Flushes a file to disk; raises OSError if there is no file or no space."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _names_to_disk(folder: Path) -> None:
    """Flushes the names in a folder to disk, if the system supports that."""
    with suppress(OSError):
        _to_disk(folder)
