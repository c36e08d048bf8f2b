"""Options shared by several commands, and their checks: whole numbers, and files that a command writes.

A file that cannot be written is refused before the run. A written file is complete, or does not exist.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.checks import check_whole
from gadabout.cli.errors import CliError
from gadabout.files import STANDARD_OUTPUT, check_replaceable, write_json

PLOT_SUFFIXES = (".png", ".pdf", ".svg")


def whole(option: str, least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """The parser of an option that takes a whole number in a range; it raises CliError for anything else."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise CliError(f"{option} must be a whole number, got {text!r}") from None
        bound = f"of at least {least}" if value < least else f"of at most {most}"
        try:
            return check_whole(option, value, least, most, wanted=bound)
        except ValueError as error:
            raise CliError(str(error)) from error

    return parse


def number(option: str, least: int, help_text: str, most: int = 2**31 - 1, default: str | bool = True) -> Any:
    """An option that takes a whole number; `default` is the default that --help shows."""
    return typer.Option(option, parser=whole(option, least, most), metavar="N", help=help_text, show_default=default)


Store = Annotated[Path, typer.Argument(metavar="PATH", help="The store of the run, run.zarr.")]
Out = Annotated[Path | None, typer.Option(metavar="PATH", help="Store draws as they come, in run.zarr; see `resume`.")]
Plot = Annotated[Path | None, typer.Option(metavar="PATH", help="Save a figure: .png, .pdf or .svg.")]
SummaryFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Save the figures of the summary as JSON.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Save the figures as JSON.")]
AllFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Save all figures as JSON.")]
RowsFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Keep each run's figures, a line of JSON each, and go on from it."),
]
"""For commands that measure for hours."""
DataHome = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of data files.")]
DataHomeOrCache = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of data files.", show_default="$GADABOUT_DATA, else the user's cache"),
]
ShowProgress = Annotated[bool, typer.Option(help="Show progress on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Seed = Annotated[int, number("--seed", 0, "Seed.", 2**32 - 1)]
Repeats = Annotated[int, number("--repeats", 1, "Repeats, interleaved.")]
Seeds = Annotated[str, typer.Option(metavar="K|A,B,…", help="How many seeds from 0 on, or which.")]


def seeds_of(text: str) -> list[int]:
    """Seeds from a text: whole numbers with commas between them, or the number of seeds from 0 on."""
    if "," in text:
        return [whole("--seeds", 0, 2**32 - 1)(each) for each in text.strip(",").split(",")]
    return list(range(whole("--seeds", 1)(text)))


def check_file(option: str, path: Path) -> None:
    """Raises CliError if a file cannot be written at `path`; an existing file may be replaced."""
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


def check_json(path: Path | None) -> None:
    """`check_file` for the option --json if it is given; the name `-` is standard output."""
    if path is not None and str(path) != STANDARD_OUTPUT:
        check_file("--json", path)


def check_rows(path: Path | None) -> None:
    """`check_file` for the option --json if it is given, for commands that continue from the file."""
    if path is not None:
        check_file("--json", path)


def check_destinations(out: Path | None, plot: Path | None, json_file: Path | None) -> None:
    """Raises CliError if an output file of a run cannot be written, or two of them are the same."""
    if out is not None:
        _check_store(out)
    if plot is not None:
        _check_plot(plot)
    check_json(json_file)
    given = [path.resolve() for path in (out, plot, json_file) if path is not None]
    if len(set(given)) < len(given):
        raise CliError("--out, --plot and --json must name different files")


def _check_plot(path: Path) -> None:
    """`check_file`; also raises CliError if the suffix is no figure format or matplotlib is not installed."""
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise CliError(f"--plot: {str(path)!r} must end in one of {', '.join(PLOT_SUFFIXES)}")
    check_file("--plot", path)
    if find_spec("matplotlib") is None:
        raise CliError('--plot needs matplotlib, which is not installed: pip install "gadabout[cli]"')


def _check_store(path: Path) -> None:
    """Raises CliError if `gadabout.sample` could not save its result at `path`."""
    from gadabout.store.runs import check_destination

    try:
        check_destination(path)
    except (ValueError, OSError) as error:
        raise CliError(f"--{error}") from error
    check_file("--out", path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError of the block, which writes a file at `path`, into CliError."""
    try:
        yield
    except OSError as error:
        raise CliError(f"could not write {str(path)!r}: {error}; free some space or choose another place") from error


def save_json(path: Path | None, document: Any) -> None:
    """Writes figures as JSON to `path` if it is given; to standard output for the name `-`."""
    if path is not None:
        with writing(path):
            write_json(path, document)
