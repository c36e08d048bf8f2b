"""Saving a result: nothing under the final name until it is complete."""

import os
import shutil
import tempfile
from pathlib import Path

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
    if path.exists():
        raise FileExistsError(f"out: {str(out)!r} exists already; remove it or choose another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"out: the folder {str(path.parent)!r} does not exist; create it first")
    return path


def save(tree: xr.DataTree, path: Path) -> None:
    """Writes the tree as a zarr store beside `path`, then moves it there."""
    partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        tree.to_zarr(partial / "store", consolidated=False)
        os.rename(partial / "store", path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
