"""Files that a command writes: refused before the run where they cannot be written, complete or not there at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.errors import CliError
from gadabout.files import STANDARD_OUTPUT, check_replaceable, write_json

PLOT_SUFFIXES = (".png", ".pdf", ".svg")
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Save the figures as JSON.")]
"""the option of commands that measure or report"""
RowsFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Keep each run's figures, a line of JSON each, and go on from it."),
]
"""the option of commands that measure for hours"""


def check_file(option: str, path: Path) -> None:
    """Raises CliError where a file cannot be written at `path`; a file that is there already is replaced."""
    if path.is_dir() and not path.is_symlink():
        raise CliError(f"{option}: {str(path)!r} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise CliError(f"{option}: the folder {str(path.parent)!r} of {path.name!r} does not exist; create it first")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CliError(f"{option}: the folder {str(path.parent)!r} is not writable; choose another one")
    try:
        check_replaceable(path)
    except OSError as error:
        raise CliError(f"{option}: {error}") from error


def check_json(path: Path) -> None:
    """`check_file` of the option --json, whose name `-` is standard output."""
    if str(path) != STANDARD_OUTPUT:
        check_file("--json", path)


def check_plot(path: Path) -> None:
    """`check_file`, and that the suffix is a format of figures and matplotlib is there to draw one."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise CliError(f"--plot: {str(path)!r} must end in one of {', '.join(PLOT_SUFFIXES)}")
    check_file("--plot", path)
    if find_spec("matplotlib") is None:
        raise CliError('--plot needs matplotlib, which is not installed: pip install "gadabout[cli]"')


def check_store(path: Path) -> None:
    """Raises CliError where `gadabout.sample` could not save its result at `path`."""
    from gadabout.api.stored import check_destination

    try:
        check_destination(path)
    except (ValueError, OSError) as error:
        raise CliError(f"--{error}") from error
    check_file("--out", path)


def check_destinations(out: Path | None, plot: Path | None, json_file: Path | None) -> None:
    """Raises CliError where one of the files that a run leaves cannot be written, or two are the same."""
    if out is not None:
        check_store(out)
    if plot is not None:
        check_plot(plot)
    if json_file is not None:
        check_json(json_file)
    given = [path.resolve() for path in (out, plot, json_file) if path is not None]
    if len(set(given)) < len(given):
        raise CliError("--out, --plot and --json must name different files")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError of the block, which writes a file at `path`, into an error of one line."""
    try:
        yield
    except OSError as error:
        raise CliError(f"could not write {str(path)!r}: {error}; free some space or choose another place") from error


def save_json(path: Path, document: Any) -> None:
    """Writes figures as JSON, to standard output for the name `-`."""
    with writing(path):
        write_json(path, document)
