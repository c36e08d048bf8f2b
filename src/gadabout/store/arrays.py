"""Draws in a Zarr store of format 3: arrays that grow, and metadata that show readers complete draws only."""

import errno
import json
import math
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.files import write_text
from gadabout.store.integrity import (
    DRAW,
    OWN,
    ROOT,
    SEAL,
    check_arrays,
    draw_axis,
    group_of,
    is_array,
    missing_chunks,
    read_root,
    seal,
)

if TYPE_CHECKING:
    import xarray as xr

HIDDEN = ".gadabout"
"""the folder in a store for everything that is not draws"""
UNFINISHED = re.compile(r".+\.partial|\.[0-9a-f]{32}(\.json|\.npz)?")
"""names of files of processes that were killed while writing: those of Zarr, and of `whole_file`"""
CHUNKS = "c"
"""the folder of an array's chunks, or the chunk itself of an array without dimensions"""
CHUNK_BYTES, LONGEST_CHUNK = 4 * 2**20, 16_384
LOADED_BYTES = 256 * 2**20
"""largest store, in bytes, that is read into memory when it is opened"""


class Arrays:
    """The groups of a store, which `xarray.open_datatree` and ArviZ can open at any moment.

    Readers use the root's consolidated metadata, which `publish` replaces in one step: they get the draws that were
    written by then and none that are being written. A variable that a stage does not record is NaN in its rows, or 0 or
    False if it is not a float. Every chunk is a file that ends with its CRC-32C.

    Args:
        path: path of the store, which must exist (`create`).
        dims, coords: those of the variables, as `sample` takes them.
        rows: draws of each group to keep; what was written after them is dropped, and nothing else.
        arrays: the paths of the arrays that hold these draws and their coordinates (`kept`).

    Raises StoreError if some of these draws are missing or damaged.
    """

    def __init__(
        self,
        path: Path,
        dims: Mapping[str, Sequence[str]],
        coords: Mapping[str, Any],
        rows: Mapping[str, int],
        arrays: Iterable[str] = (),
    ):
        self.path, self.dims, self.coords, self.rows = path, dims, coords, dict(rows)
        self.attributes: dict[str, Any] = {}
        """attributes of the root"""
        self.metadata: dict[str, dict[str, Any]] = {}
        """metadata of the store's nodes, by path"""
        self._arrays: dict[str, Any] = {}
        self._restore(set(arrays))

    @staticmethod
    def create(path: Path) -> None:
        """Makes an empty store; raises OSError."""
        (path / HIDDEN).mkdir(parents=True)
        write_text(path / ROOT, json.dumps(_group({}, {})))

    @property
    def kept(self) -> list[str]:
        """The paths of the arrays that hold draws and their coordinates."""
        return [path for path, node in self.metadata.items() if group_of(path) in self.rows and is_array(node)]

    def write(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Adds draws, arrays of shape (draws, num_chains, ...), to a group; raises OSError."""
        self.check(group)
        count, begin = len(next(iter(rows.values()))), self.rows.get(group, 0)
        self._make(group, rows)
        for name, array in self._of(group).items():
            shape, axis = list(array.shape), array.metadata.dimension_names.index(DRAW)
            there, shape[axis] = shape[axis], begin + count
            array.resize(tuple(shape))
            if name == DRAW:
                array[there:] = np.arange(there, begin + count)
                continue
            recorded = begin if name in rows else begin + count
            if there < recorded:
                array[:, there:recorded] = array.fill_value
            if recorded < begin + count:
                array[:, begin:] = np.moveaxis(rows[name], 0, 1)
        self.rows[group] = begin + count

    def check(self, group: str | None = None) -> None:
        """Raises OSError if a file with draws, of one group or of any, is missing: Zarr would read NaN."""
        for path, array in self._arrays.items():
            if group in (None, group_of(path)) and (gone := next(missing_chunks(self.path, path, array), None)):
                raise FileNotFoundError(
                    errno.ENOENT,
                    "draws are gone that the run has written, by another program",
                    str(self.path / path / gone),
                )

    def read(self, group: str, spacing: int = 1) -> dict[str, np.ndarray]:
        """Every `spacing`-th draw of a group, with the shape (num_chains, draws, ...)."""
        return {name: array[:, ::spacing] for name, array in self._of(group).items() if name != DRAW}

    def publish(self) -> None:
        """Shows readers all that is written, in one step; raises OSError."""
        for path, node in self.metadata.items():
            if group_of(path) in self.rows and (axis := draw_axis(node)) is not None:
                node["shape"][axis] = self.rows[group_of(path)]
        write_text(self.path / ROOT, json.dumps(_group(self.attributes, self.metadata)))

    def add(self, group: str, tree: "xr.DataTree") -> None:
        """Adds a group of finished figures to the store, replacing one of that name; readers see it after `publish`."""
        _clear(self.path / group)
        self.metadata = {path: node for path, node in self.metadata.items() if group_of(path) != group}
        for path, node in tree.subtree_with_keys:
            place = group if path == "." else f"{group}/{path}"
            dataset = node.to_dataset(inherit=False)
            _to_zarr(dataset, self.path, place, {})
            self._look(place, [*dataset.variables])

    def _of(self, group: str) -> dict[str, Any]:
        """The arrays of a group that grow, by name, including `draw`."""
        found = (path.split("/") for path in self._arrays)
        return {name: self._arrays[f"{group}/{name}"] for own, name in found if own == group}

    def _make(self, group: str, rows: Mapping[str, np.ndarray]) -> None:
        """Makes the arrays of records that appear for the first time."""
        new = {name: values for name, values in rows.items() if f"{group}/{name}" not in self._arrays}
        if not new:
            return
        import arviz_base

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
        if DRAW in dataset.coords:
            encoding[DRAW] = {"chunks": (LONGEST_CHUNK,)}
        _to_zarr(dataset, self.path, group, encoding)
        self._look(group, [*dataset.data_vars])
        for name in (*new, *([DRAW] if DRAW in dataset.coords else [])):
            self._open(f"{group}/{name}")

    def _open(self, path: str) -> None:
        """Opens an array that grows; chunks of its fill value alone are files too, so that a lost file is noticed."""
        import zarr

        self._arrays[path] = zarr.open_array(self.path / path, mode="r+", config={"write_empty_chunks": True})

    def _look(self, group: str, names: Sequence[Any]) -> None:
        """Notes the metadata of those nodes of a group that exist, arrays in the order of `names`.

        Readers get them in the order in which they are noted.
        """
        order = [f"{group}/{name}" for name in names]
        files = {
            file.parent.relative_to(self.path).as_posix(): file for file in sorted((self.path / group).rglob(ROOT))
        }
        for path in sorted(files, key=lambda path: order.index(path) if path in order else -1):
            with suppress(ValueError):  # a damaged file is skipped: the root's metadata are used instead
                self.metadata[path] = json.loads(files[path].read_text(encoding="utf-8"))

    def _restore(self, arrays: Collection[str]) -> None:
        """Reads what is there, and drops what was written after the rows to keep, or was not finished.

        The root's metadata, which are under a checksum, take precedence over those of a node.
        """
        check_arrays(self.path, self.rows, arrays)
        known = read_root(self.path)["consolidated_metadata"]["metadata"]
        for group in self.rows:
            self._look(group, [path.removeprefix(f"{group}/") for path in known if group_of(path) == group])
        self.metadata |= {path: node for path, node in known.items() if group_of(path) in self.rows}
        late = [path for path, node in self.metadata.items() if is_array(node) and path not in arrays]
        self.metadata = {path: node for path, node in self.metadata.items() if path not in late}
        self.metadata |= {path: node for path, node in known.items() if group_of(path) not in OWN}
        self.publish()
        for place in (*late, *(group for group in OWN if group not in self.rows)):
            _clear(self.path / place)
        self._drop_unfinished()
        for path, node in self.metadata.items():
            if group_of(path) in self.rows:
                write_text(self.path / path / ROOT, json.dumps(node))
                if is_array(node) and (axis := draw_axis(node)) is not None:
                    self._drop_chunks(path, node, axis)
                    self._open(path)

    def _drop_unfinished(self) -> None:
        """Removes unfinished files of writers that were killed."""
        folders = [self.path, self.path / HIDDEN]
        files = [*(file for folder in folders for file in folder.iterdir())]
        files += [file for group in self.rows for file in (self.path / group).rglob("*")]
        for file in files:
            if UNFINISHED.fullmatch(file.name) and file.is_file():
                file.unlink()

    def _drop_chunks(self, path: str, node: Mapping[str, Any], axis: int) -> None:
        """Removes the chunks of an array that lie beyond its last row."""
        length, folder = node["chunk_grid"]["configuration"]["chunk_shape"][axis], self.path / path
        for file in (folder / CHUNKS).rglob("*"):
            place = file.relative_to(folder / CHUNKS).parts
            is_chunk = len(place) == len(node["shape"]) and place[axis].isdecimal() and file.is_file()
            if is_chunk and int(place[axis]) * length >= node["shape"][axis]:
                file.unlink()


def opened(path: Path) -> "xr.DataTree":
    """A store as a tree; its draws stay on disk, unless the store is small: then they are read."""
    import xarray as xr

    tree = xr.open_datatree(path, engine="zarr", cache=False)
    return tree.load() if tree.nbytes <= LOADED_BYTES else tree


def _to_zarr(dataset: "xr.Dataset", path: Path, group: str, encoding: Mapping[str, dict[str, Any]]) -> None:
    """Writes a dataset as a group whose chunks all end with a checksum; `encoding` adds to that of some variables."""
    from zarr.codecs import Crc32cCodec
    from zarr.errors import ZarrUserWarning

    plain = dataset.drop_encoding()
    each = {str(name): {"compressors": [Crc32cCodec()], **encoding.get(str(name), {})} for name in dataset.variables}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZarrUserWarning)  # about files of other programs
        plain.to_zarr(
            path, group=group, mode="a", encoding=each, consolidated=False, zarr_format=3, write_empty_chunks=True
        )


def _clear(folder: Path) -> None:
    """Removes Zarr's files from a folder, and folders that are then empty; any other file is left alone."""
    for file in sorted(folder.rglob("*"), reverse=True):  # the contents of a folder come before the folder
        if file.is_dir() and not file.is_symlink():
            with suppress(OSError):
                file.rmdir()
        elif file.name == ROOT or UNFINISHED.fullmatch(file.name) or _is_chunk(file.relative_to(folder).parts):
            file.unlink()
    with suppress(OSError):
        folder.rmdir()


def _is_chunk(parts: Sequence[str]) -> bool:
    """Whether the path of a file within a group is that of a chunk, such as x/c/0/1."""
    names = list(parts)
    while names and names[-1].isdecimal():
        names.pop()
    return names[-1:] == [CHUNKS]


def _encoding(values: Any) -> dict[str, Any]:
    """Chunks and fill value of a variable (chain, draw, ...): a file holds all chains of some draws.

    Draws are mostly noise: their compression takes a third of the time of writing, and saves a sixth of the space.
    """
    shape = values.shape
    each = math.prod((shape[0], *shape[2:])) * values.dtype.itemsize
    draws = max(1, min(LONGEST_CHUNK, 2 ** ((CHUNK_BYTES // max(each, 1)).bit_length() - 1)))
    fill = np.nan if np.issubdtype(values.dtype, np.floating) else np.zeros((), values.dtype).item()
    return {"chunks": (shape[0], draws, *shape[2:]), "fill_value": fill}


def _group(attributes: Mapping[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """A root group of Zarr's format 3 with the metadata of its members, under a checksum."""
    return {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": dict(attributes),
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": dict(members)},
        SEAL: {"must_understand": False, "sha256": seal(members)},
    }
