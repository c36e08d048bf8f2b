"""Checkpoints: a run as plain arrays and JSON, from which it continues to the same bits."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import keystr, tree_leaves_with_path, tree_map_with_path
from jaxtyping import PyTree

FORMAT = 2


@dataclass(frozen=True)
class Cursor:
    """A run's position: stage, iterations done in it and since the start; evidence of how draws are made, and why."""

    stage: int = 0
    done: int = 0
    t: int = 0
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Account:
    """The costs of a run so far, and the length of its next chunk."""

    seconds: dict[str, float]
    iterations: int
    gradient_evaluations: int
    chunk: int


class CheckpointError(ValueError):
    """A checkpoint that does not belong to this run; the message names the difference."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to continue: the stage's progress by path, keys as their data, cursor and account."""

    arrays: dict[str, np.ndarray]
    keys: dict[str, str]
    """the implementation of each array that is key data, by path"""
    cursor: Cursor
    account: Account
    fingerprint: str

    def to_json(self) -> str:
        """The JSON text of everything but the arrays."""
        names = ("keys", "cursor", "account", "fingerprint")
        return json.dumps({"format": FORMAT, **{name: asdict(self)[name] for name in names}})

    @staticmethod
    def from_json(text: str, arrays: dict[str, np.ndarray]) -> "Checkpoint":
        """The checkpoint from the text of `to_json` and its arrays; raises CheckpointError for another format."""
        plain = json.loads(text)
        if plain.get("format") != FORMAT:
            raise CheckpointError(f"the checkpoint has the format {plain.get('format')!r}, this version reads {FORMAT}")
        cursor, account = Cursor(**plain["cursor"]), Account(**plain["account"])
        return Checkpoint(dict(arrays), plain["keys"], cursor, account, plain["fingerprint"])

    def progress(self, skeleton: PyTree) -> PyTree:
        """The stored progress in the form of `skeleton`, whose leaves need only have shapes and types.

        Raises CheckpointError if an array is missing, or has another shape or type.
        """
        return tree_map_with_path(self._restored, skeleton)

    def nested(self) -> dict[str, Any]:
        """The stored progress of a host stage: nested dicts of NumPy arrays of any shape."""
        tree: dict[str, Any] = {}
        for name, values in self.arrays.items():
            *folders, last = name.split("/")
            inner = tree
            for folder in folders:
                inner = inner.setdefault(folder, {})
            inner[last] = np.array(values)
        return tree

    def _restored(self, path: Any, leaf: Any) -> Any:
        if not (eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct | np.ndarray)):
            return leaf
        name = keystr(path)
        if name not in self.arrays:
            raise CheckpointError(f"the checkpoint has no array {name}: it belongs to a run with other settings")
        stored = self.arrays[name]
        if isinstance(leaf, np.ndarray):
            return np.array(stored)
        value = jnp.asarray(stored)
        if name in self.keys:
            value = jax.random.wrap_key_data(value, impl=self.keys[name])
        if value.shape != leaf.shape or value.dtype != leaf.dtype:
            raise CheckpointError(
                f"{name} of the checkpoint is {value.dtype}{list(value.shape)}, this run has "
                f"{leaf.dtype}{list(leaf.shape)}: it belongs to a run with other settings"
            )
        return value


def take(progress: PyTree, cursor: Cursor, account: Account, fingerprint: str) -> Checkpoint:
    """A checkpoint of a stage's progress, in copies: a view of an array would prevent its donation."""
    arrays, keys, of_host = {}, {}, isinstance(progress, dict)
    whole = (lambda node: not isinstance(node, dict)) if of_host else None
    for path, leaf in tree_leaves_with_path(progress, is_leaf=whole):
        name = keystr(path, simple=True, separator="/") if of_host else keystr(path)
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            keys[name] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        if of_host or isinstance(leaf, jax.Array | np.ndarray):
            arrays[name] = np.array(leaf, copy=True)
    return Checkpoint(arrays, keys, cursor, account, fingerprint)
