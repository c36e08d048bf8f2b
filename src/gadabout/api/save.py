"""Saving: nothing under the final name until it is complete."""

import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Writes the tree as a zarr store beside `path`, then moves it there.

    Where that fails the draws are not lost with it: the failure joins the tree's own warnings.
    """
    partial = None
    try:
        partial = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Consolidated metadata", category=UserWarning)
            tree.to_zarr(partial / "store")
        os.rename(partial / "store", path)
    except Exception as error:
        tree.attrs["warnings"] = [*tree.attrs["warnings"], f"the result could not be saved at {str(path)!r}: {error}"]
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a temporary name in the same folder, which becomes `path` once the block ends without an error."""
    partial = path.with_name(f".{uuid.uuid4().hex}{path.suffix}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
