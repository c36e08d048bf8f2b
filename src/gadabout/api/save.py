"""Saving a result: its destination, checked before the run, and the zarr store that appears there whole."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gadabout.checks import shown
from gadabout.files import whole_folder
from gadabout.findings import Finding, note

if TYPE_CHECKING:
    import xarray as xr


def check_destination(out: str | os.PathLike) -> Path:
    """The destination of a result, checked before the run: it must not exist, and its folder must.

    Raises:
        TypeError: for what is no path.
        FileExistsError, FileNotFoundError: with the remedy.
        ValueError: if the name says another format than zarr.
    """
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"out must be the path of a zarr store, such as 'run.zarr', got {shown(out)}")
    path = Path(out)
    if path.suffix != ".zarr":
        raise ValueError(f"out must name a zarr store, such as run.zarr, got {str(out)!r}")
    if os.path.lexists(path):
        raise FileExistsError(f"out: {str(out)!r} exists already; remove it or choose another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"out: the folder {str(path.parent)!r} does not exist; create it first")
    return path


def write_store(tree: "xr.DataTree", path: Path) -> None:
    """Writes the tree as a zarr store, whole or not at all; raises whatever prevents it."""
    with whole_folder(path) as partial, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Consolidated metadata", category=UserWarning)
        tree.to_zarr(partial)


def save(tree: "xr.DataTree", path: Path) -> None:
    """`write_store`, but where that fails the draws are not lost with it: the failure joins the tree's own findings."""
    try:
        write_store(tree, path)
    except Exception as error:
        problem = f"the result could not be saved at {str(path)!r}: {said(error)}"
        note(tree, [Finding("not-saved", problem, "it is what `sample` returns; save it elsewhere, with its to_zarr")])


def said(error: Exception) -> str:
    """What an error says, or its name, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
