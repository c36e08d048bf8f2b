"""Files that appear whole or not at all, and JSON that any program can read.

What is written stands under a temporary name in the same folder, is brought to the disk, and only then takes its own
name. Nothing is left behind where that fails.
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
"""the name by which JSON goes to standard output"""

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_replaceable(path: Path) -> None:
    """Raises FileExistsError where something other than a regular file is at `path`: nothing else is ever replaced."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")
        raise FileExistsError(f"{str(path)!r} is {kind}, which is not replaced; choose the name of a file")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary name in the same folder, which becomes `path` once the block ends without an error.

    The block writes a file of that name; it has the suffix of `path`. A regular file at `path` is
    replaced.

    Raises:
        FileExistsError: before and after the block, where something else is at `path` (see `check_replaceable`).
        OSError: where the block made no file, or it cannot be brought to the disk.
    """
    check_replaceable(path)
    partial = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")  # which nothing has
    try:
        yield partial
        _to_disk(partial)
        check_replaceable(path)
        os.replace(partial, path)
        _names_to_disk(path.parent)
    finally:
        with suppress(OSError):  # what prevents that must not hide the error that led here
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a text file in UTF-8, whole or not at all; raises as `whole_file` does."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_json(path: Path, document: Any) -> None:
    """Writes `json_value(document)`, whole or not at all; for the name `-` to standard output.

    Raises:
        TypeError: for what JSON has no word for, such as a set or a function, before anything is written.
        OSError: as `whole_file` does.
    """
    text = json.dumps(json_value(document), indent=2, allow_nan=False) + "\n"
    if str(path) == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(path, text)


def json_value(value: Any) -> Any:
    """A tree of dictionaries, lists, numbers and words as JSON wants it.

    Numbers of NumPy become Python's, tuples and arrays become lists, and what is not a finite number becomes None.
    """
    import jax  # takes a while: files are written without it

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
    """Returns once the contents of a file are on the disk; raises OSError where there is no file or no room."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _names_to_disk(folder: Path) -> None:
    """The same of the names in a folder, where the system can do that."""
    with suppress(OSError):
        _to_disk(folder)
