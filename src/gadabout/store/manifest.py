"""The manifest of a stored run, in JSON: seed, settings, sampler, layout, and checksums of data that are not stored."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from gadabout.files import write_text
from gadabout.layout import BY_NAME, Layout

FORMAT = 2
MANIFEST = "run.json"
SEAL = "sha256"


class StoreError(ValueError):
    """The store is invalid, or does not fit the arguments; the message gives the remedy."""


@dataclass(frozen=True)
class Manifest:
    """The arguments of a run.

    Args:
        versions: versions of gadabout, JAX and NumPy.
        float_type: the type of positions, "float32" or "float64".
        seed: the seed as passed to `sample`.
        settings: the arguments of `sample` that are numbers and strings.
        layout: layout of a position (`layout_to_json`).
        model: its name, how the command line found it, dims, coords, and the number of tries for a start.
        data: `digest` of the data.
        sampler: the call that makes it (`call_of`); None if the call has no JSON form.
        plan: the plan's name, settings and `digest`.
        prng: JAX's settings that determine the numbers of its keys, by name.
        checkpoint_bytes: the most bytes of a checkpoint; the manifest is written anew before the first larger one.
    """

    versions: dict[str, str]
    float_type: str
    seed: int
    settings: dict[str, Any]
    layout: dict[str, Any]
    model: dict[str, Any]
    data: str
    sampler: Any
    plan: dict[str, Any]
    prng: dict[str, Any]
    checkpoint_bytes: int = 2**20
    format: int = field(default=FORMAT)

    def write(self, path: Path) -> None:
        """Writes the manifest under a checksum, completely or not at all."""
        plain = asdict(self)
        write_text(path, json.dumps(plain | {SEAL: _checksum(plain)}, indent=1))

    @property
    def num_chains(self) -> int:
        """Number of chains of the run."""
        return self.settings["num_chains"]

    def rows(self, group: str) -> int:
        """The most draws of each chain that a group holds."""
        warmup = -(-self.settings["num_warmup"] // self.settings["thinning"])
        return warmup if group.startswith("warmup_") else self.settings["num_draws"]

    @staticmethod
    def read(path: Path) -> "Manifest":
        """The manifest that `write` wrote; raises StoreError if it is damaged or of another version."""
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            message = (
                f"{str(path.parent.parent)!r} is no stored run of gadabout: it has no {path.parent.name}/{path.name}"
            )
            raise StoreError(message) from error
        except (OSError, ValueError) as error:
            raise StoreError(f"{str(path)!r} is damaged: {error}") from error
        found = plain.get("format") if isinstance(plain, dict) else None
        if found != FORMAT:
            raise StoreError(
                f"{str(path)!r} has the format {found!r}, this version of gadabout reads {FORMAT}: use the "
                "version that made the run; its draws can be read by xarray.open_datatree"
            )
        if plain.pop(SEAL, None) != _checksum(plain):
            raise StoreError(f"{str(path)!r} is damaged, its checksum is another: put a copy of it in its place")
        try:
            return Manifest(**plain)
        except TypeError as error:
            raise StoreError(f"{str(path)!r} is damaged: {error}") from error


def layout_to_json(layout: Layout) -> dict[str, Any]:
    """Names, shapes, types and `tree`: None for a dict by name, `UNKNOWN` if it has no JSON form (see `_tagged`)."""
    numbers = None
    if not layout.by_name:
        numbers = jax.tree.unflatten(layout.structure, range(len(layout.names)))
    return {
        "names": list(layout.names),
        "shapes": [list(shape) for shape in layout.shapes],
        "dtypes": [str(dtype) for dtype in layout.dtypes],
        "tree": _tagged(numbers),
    }


def layout_from_json(plain: dict[str, Any]) -> Layout | None:
    """The layout of `layout_to_json`; None if its tree has no JSON form."""
    if plain["tree"] == UNKNOWN:
        return None
    structure = BY_NAME if plain["tree"] is None else jax.tree.structure(_untagged(plain["tree"]))
    shapes = tuple(tuple(shape) for shape in plain["shapes"])
    return Layout(tuple(plain["names"]), shapes, tuple(np.dtype(name) for name in plain["dtypes"]), structure)


UNKNOWN = "unknown"


def _tagged(tree: Any) -> Any:
    """A tree of numbers in a JSON form that distinguishes tuples from lists; `UNKNOWN` if there is none."""
    if tree is None or type(tree) is int:
        return tree
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        parts = {key: _tagged(part) for key, part in tree.items()}
    elif type(tree) in (list, tuple):
        parts = [_tagged(part) for part in tree]
    else:
        return UNKNOWN
    inside = list(parts.values()) if isinstance(parts, dict) else parts
    return UNKNOWN if UNKNOWN in inside else {type(tree).__name__: parts}


def _untagged(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, parts),) = tree.items()
    if kind == "dict":
        return {key: _untagged(part) for key, part in parts.items()}
    return {"list": list, "tuple": tuple}[kind](_untagged(part) for part in parts)


def _checksum(plain: dict[str, Any]) -> str:
    """SHA-256 of a document in JSON."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def digest(tree: PyTree) -> str:
    """SHA-256 of the arrays and numbers of a tree, with their paths, types and shapes."""
    found = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if isinstance(leaf, jax.Array | np.ndarray | np.generic | int | float | bool):
            values = np.asarray(leaf)
            found.update(f"{jax.tree_util.keystr(path)} {values.dtype} {values.shape} ".encode())
            found.update(np.ascontiguousarray(values).tobytes())
    return found.hexdigest()


def differing(stored: dict[str, Any], given: dict[str, Any]) -> Sequence[str]:
    """The differences between two sets of settings, in words."""
    names = sorted(name for name in stored.keys() | given.keys() if stored.get(name) != given.get(name))
    return [f"{name} was {stored.get(name)!r}, is {given.get(name)!r}" for name in names]
