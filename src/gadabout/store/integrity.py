"""Checks that a store is complete: every chunk of every array, each under its checksum."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gadabout.store.manifest import Manifest, StoreError

if TYPE_CHECKING:
    import zarr

ROOT = "zarr.json"
DRAW = "draw"
FIGURES = ("learned", "diagnostics", "observed_data", "constant_data", "posterior_predictive")
"""groups of a finished run in addition to its draws"""
DRAWS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats", "unconstrained_posterior",
         "log_likelihood")  # fmt: skip
"""groups that grow while a run draws"""
OWN = (*DRAWS, *FIGURES)
SEAL = "gadabout"
"""the key in the root's metadata of the checksum over the metadata of arrays"""
MOST_TOLD = 3
"""most damages that an error names"""
REMEDY = "put a copy of the store in its place, or remove it and start the run again"


def group_of(path: str) -> str:
    """The group of a node, directly below the root."""
    return path.partition("/")[0]


def draw_axis(node: Mapping[str, Any]) -> int | None:
    """The axis of an array along which draws are counted; None if there is none."""
    names = node.get("dimension_names") or ()
    return names.index(DRAW) if DRAW in names else None


def is_array(node: Mapping[str, Any]) -> bool:
    """Whether a node is an array, not a group."""
    return node.get("node_type") == "array"


def seal(nodes: Mapping[str, Any]) -> str:
    """SHA-256 of the metadata of the library's own arrays."""
    own = {path: node for path, node in nodes.items() if group_of(path) in OWN and is_array(node)}
    return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()


def read_root(path: Path) -> dict[str, Any]:
    """The metadata of a store's root and of all nodes below it; raises StoreError if they are damaged."""
    try:
        root = json.loads((path / ROOT).read_text(encoding="utf-8"))
        nodes = root["consolidated_metadata"]["metadata"]
        whole = SEAL not in root or root[SEAL]["sha256"] == seal(nodes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{str(path / ROOT)!r} is missing or damaged ({error!r}): {REMEDY}") from error
    if not whole:
        raise StoreError(f"{str(path / ROOT)!r} is damaged, its checksum is another: {REMEDY}")
    return root


def how_far(path: Path) -> tuple[str, int]:
    """How a stored run ended, or "running", and its number of draws of each chain; raises StoreError for damage."""
    root = read_root(path)
    nodes = root["consolidated_metadata"]["metadata"].items()
    sizes = [node["shape"][axis] for name, node in nodes
             if group_of(name) == "posterior" and (axis := draw_axis(node)) is not None]  # fmt: skip
    return root["attributes"].get("ending", "running"), max(sizes, default=0)


def check_store(path: Path, manifest: Manifest) -> None:
    """Checks a store as readers get it, whether or not a run is writing to it.

    Raises StoreError if chunks of arrays are missing or damaged, or arrays are longer than the run can make them.
    """
    while True:
        root = read_root(path)
        nodes = root["consolidated_metadata"]["metadata"]
        try:
            _check_sizes(path, nodes, manifest)
            _raise(path, _damages(path, nodes))
            return
        except StoreError:
            if read_root(path) == root:  # otherwise a run wrote in between: it replaces groups of figures
                raise


def check_arrays(path: Path, rows: Mapping[str, int], arrays: Iterable[str]) -> None:
    """Raises StoreError unless each array holds the given number of draws of its group, complete and undamaged.

    These may be more than readers can get: a run may be killed before it publishes them.
    """
    shown, kept = read_root(path)["consolidated_metadata"]["metadata"], {}
    for name in sorted(arrays):
        try:
            node = dict(shown.get(name) or json.loads((path / name / ROOT).read_text(encoding="utf-8")))
            if (axis := draw_axis(node)) is not None:
                node["shape"] = [*node["shape"][:axis], rows[group_of(name)], *node["shape"][axis + 1 :]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{str(path)!r} is damaged: {name} is missing or unreadable: {REMEDY}") from error
        kept[name] = node
    _raise(path, _damages(path, kept))


def _raise(path: Path, damages: Iterator[str]) -> None:
    found = list(islice(damages, MOST_TOLD + 1))
    if found:
        more = ["and more"] if len(found) > MOST_TOLD else []
        raise StoreError(f"{str(path)!r} is damaged: {'; '.join([*found[:MOST_TOLD], *more])}: {REMEDY}")


def _check_sizes(path: Path, nodes: Mapping[str, Any], manifest: Manifest) -> None:
    """Raises StoreError for more draws than the run makes, or another number of chains."""
    for name, node in nodes.items():
        if group_of(name) not in OWN or not is_array(node):
            continue
        sizes: dict[str, int] = dict(zip(node.get("dimension_names") or (), node["shape"], strict=False))
        draws, chains = sizes.get(DRAW, 0), sizes.get("chain", manifest.num_chains)
        if draws > manifest.rows(group_of(name)) or chains != manifest.num_chains:
            _raise(path, iter([
                f"{name} has {draws:,} draws of {chains:,} chains, the run makes at most "
                f"{manifest.rows(group_of(name)):,} of {manifest.num_chains:,}"
            ]))  # fmt: skip


def _damages(path: Path, nodes: Mapping[str, Any]) -> Iterator[str]:
    """Descriptions of what is wrong with the chunks of the library's own arrays, array by array."""
    for name, node in nodes.items():
        if group_of(name) in OWN and is_array(node):
            missing, damaged = _chunks(path, name, node)
            if missing:
                yield f"{name} lacks {len(missing)} of its chunks, such as {missing[0]}"
            if damaged:
                yield f"{name} does not match its checksum in {len(damaged)} of its chunks, such as {damaged[0]}"


def missing_chunks(path: Path, name: str, array: "zarr.Array") -> Iterator[str]:
    """The chunks of a store's array whose files are missing."""
    for place in _places(array):
        if not (path / name / (key := array.metadata.encode_chunk_key(place))).is_file():
            yield key


def _chunks(path: Path, name: str, node: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The chunks of an array that are missing, and those that cannot be decoded."""
    import zarr
    from zarr.storage import LocalStore, StorePath

    array = zarr.Array.from_dict(StorePath(LocalStore(path, read_only=True), name), dict(node))
    missing, damaged = [*missing_chunks(path, name, array)], []
    for place in _places(array):
        try:
            array[tuple(slice(i * each, (i + 1) * each) for i, each in zip(place, array.chunks, strict=True))]
        except Exception:  # an error of the first codec that fails
            damaged.append(array.metadata.encode_chunk_key(place))
    return missing, damaged


def _places(array: "zarr.Array") -> Iterator[tuple[int, ...]]:
    """The indices of an array's chunks in their grid."""
    return product(*(range(math.ceil(size / each)) for size, each in zip(array.shape, array.chunks, strict=True)))
