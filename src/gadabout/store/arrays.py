"""Draws in a Zarr store of format 3: arrays that grow, and metadata by which readers see whole draws only."""

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.files import write_text

if TYPE_CHECKING:
    import xarray as xr

HIDDEN = ".gadabout"
"""the folder in a store that holds what is no draw"""
ROOT = "zarr.json"
CHUNK_BYTES, LONGEST_CHUNK = 4 * 2**20, 16_384
LOADED_BYTES = 256 * 2**20
"""size up to which the groups of a store are read into memory when it is opened"""


class Arrays:
    """The groups of a store, opened as they are by `xarray.open_datatree` and ArviZ at any moment.

    Readers go by the root's consolidated metadata, which `publish` replaces at once: they see the draws that were
    written by then and nothing of those that are being written. What one stage records and another does not is NaN in
    the rows of the other, 0 or False where it is no float.

    Args:
        path: of the store, which must exist (`create`).
        dims, coords: of the variables, as `sample` takes them.
        rows: draws of each group that are kept; what was written after them is dropped.
    """

    def __init__(
        self, path: Path, dims: Mapping[str, Sequence[str]], coords: Mapping[str, Any], rows: Mapping[str, int]
    ):
        self.path, self.dims, self.coords, self.rows = path, dims, coords, dict(rows)
        self.attributes: dict[str, Any] = {}
        """of the root"""
        self.metadata: dict[str, dict[str, Any]] = {}
        """what the store's nodes say of themselves, by their paths"""
        self._arrays: dict[str, Any] = {}
        self._restore()

    @staticmethod
    def create(path: Path) -> None:
        """Makes an empty store; raises OSError."""
        (path / HIDDEN).mkdir(parents=True)
        write_text(path / ROOT, json.dumps(_group({}, {})))

    def write(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Adds draws, arrays of shape (draws, num_chains, ...), to a group; raises OSError."""
        count, begin = len(next(iter(rows.values()))), self.rows.get(group, 0)
        self._make(group, rows)
        for name, array in self._of(group).items():
            shape = list(array.shape)
            shape[array.metadata.dimension_names.index("draw")] = begin + count
            array.resize(tuple(shape))
            if name == "draw":
                array[begin:] = np.arange(begin, begin + count)
            elif name in rows and count:
                array[:, begin:] = np.moveaxis(rows[name], 0, 1)
        self.rows[group] = begin + count

    def read(self, group: str, spacing: int = 1) -> dict[str, np.ndarray]:
        """Every `spacing`-th draw of a group, with the shape (num_chains, draws, ...)."""
        return {name: array[:, ::spacing] for name, array in self._of(group).items() if name != "draw"}

    def publish(self) -> None:
        """Shows readers what is written, all at once; raises OSError."""
        for path, node in self.metadata.items():
            group = path.partition("/")[0]
            if group in self.rows and "draw" in node.get("dimension_names", ()):
                node["shape"][node["dimension_names"].index("draw")] = self.rows[group]
        write_text(self.path / ROOT, json.dumps(_group(self.attributes, self.metadata)))

    def add(self, group: str, tree: "xr.DataTree") -> None:
        """Puts a group of finished figures into the store, in place of one of that name; readers see it later."""
        shutil.rmtree(self.path / group, ignore_errors=True)
        self.metadata = {path: node for path, node in self.metadata.items() if path.split("/")[0] != group}
        for path, node in tree.subtree_with_keys:
            place = group if path == "." else f"{group}/{path}"
            dataset = node.to_dataset(inherit=False)
            dataset.to_zarr(self.path, group=place, mode="a", consolidated=False, zarr_format=3)
            self._look(place, [*dataset.variables])

    def _of(self, group: str) -> dict[str, Any]:
        """The arrays of a group that grow, by name; `draw` is one of them."""
        found = (path.split("/") for path in self._arrays)
        return {name: self._arrays[f"{group}/{name}"] for own, name in found if own == group}

    def _make(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Makes the arrays of records that come for the first time."""
        new = {name: values for name, values in rows.items() if f"{group}/{name}" not in self._arrays}
        if not new:
            return
        import arviz_base
        import zarr

        empty = {name: np.moveaxis(values[:0], 0, 1) for name, values in new.items()}
        tree = arviz_base.from_dict(
            {group: empty},
            save_warmup=True,
            check_conventions=False,
            dims={name: list(names) for name, names in self.dims.items() if name in new} or None,
            coords=dict(self.coords) or None,
        )
        dataset = tree[group].to_dataset()
        dataset = dataset.drop_vars([name for name in dataset.coords if f"{group}/{name}" in self.metadata])
        encoding = {str(name): _encoding(values) for name, values in dataset.data_vars.items()}
        if "draw" in dataset.coords:
            encoding["draw"] = {"chunks": (LONGEST_CHUNK,)}
        dataset.to_zarr(self.path, group=group, mode="a", encoding=encoding, consolidated=False, zarr_format=3)
        self._look(group, [*dataset.data_vars])
        for name in (*new, *(["draw"] if "draw" in dataset.coords else [])):
            self._arrays[f"{group}/{name}"] = zarr.open_array(self.path / group / str(name), mode="r+")

    def _look(self, group: str, names: Sequence[Any]) -> None:
        """Takes note of what the nodes of a group say of themselves, arrays in the order of `names`, if they are there.

        Readers see them in the order in which they are noted.
        """
        order = [f"{group}/{name}" for name in names]
        files = {
            file.parent.relative_to(self.path).as_posix(): file for file in sorted((self.path / group).rglob(ROOT))
        }
        for path in sorted(files, key=lambda path: order.index(path) if path in order else -1):
            self.metadata[path] = json.loads(files[path].read_text(encoding="utf-8"))

    def _restore(self) -> None:
        """Takes up what is there, and drops what was written after the rows that are kept, or was being made."""
        import zarr

        for unfinished in [*self.path.rglob("*.partial"), *self.path.rglob(".*")]:
            if unfinished.is_file():
                unfinished.unlink()  # of a process that was killed while it wrote
        known = [*json.loads((self.path / ROOT).read_text(encoding="utf-8"))["consolidated_metadata"]["metadata"]]
        for group in self.rows:
            self._look(group, [path.removeprefix(f"{group}/") for path in known if path.startswith(f"{group}/")])
        self.publish()
        for folder in [child for child in self.path.iterdir() if child.is_dir() and child.name != HIDDEN]:
            if folder.name not in self.rows:
                shutil.rmtree(folder)
        for folder in [child for group in self.rows for child in (self.path / group).iterdir() if child.is_dir()]:
            if not (folder / ROOT).exists():
                shutil.rmtree(folder)
        for path, node in self.metadata.items():
            if "draw" in node.get("dimension_names", ()):
                write_text(self.path / path / ROOT, json.dumps(node))
                self._arrays[path] = zarr.open_array(self.path / path, mode="r+")


def opened(path: Path) -> "xr.DataTree":
    """A store as a tree whose draws stay on the disk, but for small ones, which are read."""
    import xarray as xr

    tree = xr.open_datatree(path, engine="zarr", cache=False)
    return tree.load() if tree.nbytes <= LOADED_BYTES else tree


def _encoding(values: Any) -> dict[str, Any]:
    """How a variable of dimensions (chain, draw, ...) lies in the store: all chains of some draws in one file.

    Draws are mostly noise: to compress them takes a third of the time of writing, and saves a sixth of the room.
    """
    shape = values.shape
    each = math.prod((shape[0], *shape[2:])) * values.dtype.itemsize
    draws = max(1, min(LONGEST_CHUNK, 2 ** ((CHUNK_BYTES // max(each, 1)).bit_length() - 1)))
    fill = np.nan if np.issubdtype(values.dtype, np.floating) else np.zeros((), values.dtype).item()
    return {"chunks": (shape[0], draws, *shape[2:]), "fill_value": fill, "compressors": None}


def _group(attributes: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """A root group of Zarr's format 3 with what its members say of themselves in it."""
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": dict(attributes),
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": dict(members)},
    }
