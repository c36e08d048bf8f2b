"""Saving a result: its destination, checked before the run, and the zarr store that appears there whole."""

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gadabout.files import whole_folder

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


def save(tree: "xr.DataTree", path: Path) -> None:
    """Writes the tree as a zarr store, whole or not at all.

    Where that fails the draws are not lost with it: the failure joins the tree's own warnings.
    """
    try:
        with whole_folder(path) as partial, warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata", category=UserWarning)
            tree.to_zarr(partial)
    except Exception as error:
        tree.attrs["warnings"] = [*tree.attrs["warnings"], f"the result could not be saved at {str(path)!r}: {error}"]
