"""Files that a command writes: refused before the run where they cannot be written, complete or not there at all."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gadabout.cli.errors import CliError

PLOT_SUFFIXES = (".png", ".pdf", ".svg")


def check_file(option: str, path: Path) -> None:
    """Raises CliError where a file cannot be written at `path`; a file that is there already is replaced."""
    if path.is_dir():
        raise CliError(f"{option}: {str(path)!r} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise CliError(f"{option}: the folder {str(path.parent)!r} of {path.name!r} does not exist; create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CliError(f"{option}: the folder {str(path.parent)!r} is not writable; choose another one")


def check_plot(path: Path) -> None:
    """`check_file`, and that the suffix is a format of figures and matplotlib is there to draw one."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise CliError(f"--plot: {str(path)!r} must end in one of {', '.join(PLOT_SUFFIXES)}")
    check_file("--plot", path)
    if find_spec("matplotlib") is None:
        raise CliError('--plot needs matplotlib, which is not installed: pip install "gadabout[cli]"')


def check_store(path: Path) -> None:
    """Raises CliError where `gadabout.sample` could not save its result at `path`."""
    from gadabout.api.save import check_destination

    try:
        check_destination(path)
    except (ValueError, OSError) as error:
        raise CliError(f"--{error}") from error
    check_file("--out", path)


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """`whole_file`, with an error of one line where the file cannot be written."""
    from gadabout.api.save import whole_file

    try:
        with whole_file(path) as partial:
            yield partial
    except OSError as error:
        raise CliError(f"could not write {str(path)!r}: {error}; free some space or choose another place") from error


def save_json(path: Path, document: Any) -> None:
    """Writes a tree of dictionaries, lists, numbers and words, with null for what is no number, as JSON wants it."""
    with complete_file(path) as partial:
        partial.write_text(json.dumps(_finite(document), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
