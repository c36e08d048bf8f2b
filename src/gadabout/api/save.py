"""Saving a result: its destination, checked before the run, and the zarr store that appears there whole."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gadabout.files import whole_folder
from gadabout.findings import Finding, note

if TYPE_CHECKING:
    import xarray as xr


def check_destination(out: str | os.PathLike) -> Path:
    """The destination of a result, checked before the run: it must not exist, and its folder must.

    Raises:
        FileExistsError, FileNotFoundError: with the remedy.
        ValueError: if the name says another format than zarr.
    """
    path = Path(out)
    if path.suffix != ".zarr":
        raise ValueError(f"out must name a zarr store, such as run.zarr, got {str(out)!r}")
    if os.path.lexists(path):
        raise FileExistsError(f"out: {str(out)!r} exists already; remove it or choose another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"out: the folder {str(path.parent)!r} does not exist; create it first")
    return path


def save(tree: "xr.DataTree", path: Path) -> bool:
    """Writes the tree as a zarr store, whole or not at all; returns whether it could.

    Where it could not the draws are not lost with it: the failure joins the tree's own findings and warnings.
    """
    try:
        with whole_folder(path) as partial, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata", category=UserWarning)
            tree.to_zarr(partial)
    except Exception as error:
        problem = f"the result could not be saved at {str(path)!r}: {one_line(error)}"
        note(tree, [Finding("not-saved", problem, "the draws are in what `sample` returns; save them elsewhere")])
        return False
    return True


def one_line(error: Exception) -> str:
    """What an error says, or its name, in one line."""
    return " ".join(str(error).split()) or type(error).__name__
