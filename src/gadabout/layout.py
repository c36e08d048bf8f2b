"""Names, shapes and types of a position's leaves: how a flat vector stands for what the user holds."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree


class Layout(eqx.Module):
    """The leaves of a position, in the order in which they lie in the flat vector.

    `structure` is the tree that the leaves make; None stands for a dict by name.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dtypes: tuple[np.dtype, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True, default=None)

    @property
    def sizes(self) -> list[int]:
        """Coordinates of each leaf."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dim(self) -> int:
        """Coordinates of the flat vector."""
        return sum(self.sizes)

    @property
    def is_real(self) -> np.ndarray:
        """Which coordinates are real numbers, shape (n,)."""
        real = [np.issubdtype(dtype, np.floating) for dtype in self.dtypes]
        return np.repeat(np.array(real, bool), self.sizes)

    def split(self, flat: Any) -> dict[str, Any]:
        """An array (..., n), of JAX or NumPy, as one array (..., *shape) for each leaf, whole numbers as such."""
        split, parts = 0, {}
        for name, shape, dtype, size in zip(self.names, self.shapes, self.dtypes, self.sizes, strict=True):
            part = flat[..., split : split + size].reshape((*flat.shape[:-1], *shape))
            parts[name] = part if np.issubdtype(dtype, np.floating) else part.astype(dtype)
            split += size
        return parts

    def unravel(self, x: Float[Array, " n"]) -> PyTree:
        """The position that a flat vector stands for."""
        parts = self.split(x)
        return parts if self.structure is None else jax.tree.unflatten(self.structure, list(parts.values()))

    def ravel(self, position: PyTree) -> Float[Array, " n"]:
        """The flat vector of a position."""
        leaves = [position[name] for name in self.names] if self.structure is None else jax.tree.leaves(position)
        return jnp.concatenate([jnp.ravel(jnp.asarray(leaf, dtype=float)) for leaf in leaves])

    def part(self, indices: Sequence[int]) -> "Layout | None":
        """The layout of some coordinates: a dict of the leaves they touch, or None where the position is one array.

        A leaf that is taken whole and in order keeps its shape; of any other the chosen numbers make a vector.

        Raises ValueError where the coordinates of a leaf do not stand together.
        """
        if self.structure is not None and jax.tree_util.treedef_is_leaf(self.structure):
            return None
        leaf_of = np.repeat(np.arange(len(self.names)), self.sizes)[list(indices)]
        order = list(dict.fromkeys(leaf_of.tolist()))
        if np.any(np.diff([order.index(leaf) for leaf in leaf_of]) < 0):
            names = [self.names[leaf] for leaf in leaf_of]
            raise ValueError(f"indices must name the coordinates of a variable one after another, got those of {names}")
        starts = np.cumsum([0, *self.sizes])
        shapes = []
        for leaf in order:
            chosen = np.asarray(indices)[leaf_of == leaf]
            whole = np.array_equal(chosen, np.arange(int(starts[leaf]), int(starts[leaf + 1])))
            shapes.append(self.shapes[leaf] if whole else (len(chosen),))
        dtypes = tuple(self.dtypes[leaf] for leaf in order)
        return Layout(tuple(self.names[leaf] for leaf in order), tuple(shapes), dtypes)


def layout_of(position: PyTree, argument: str = "init") -> Layout:
    """The layout of one position, given by its arrays or their shapes.

    Raises TypeError for a leaf that is not made of numbers, ValueError if there is nothing in it; both name `argument`.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(position)
    names = tuple(_name(path) for path, _ in leaves)
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if not (jnp.issubdtype(leaf.dtype, jnp.floating) or np.dtype(leaf.dtype).kind in "biu"):
            raise TypeError(f"{argument}: {name!r} has the type {leaf.dtype}; pass real numbers")
    dtypes = tuple(np.dtype(leaf.dtype) for _, leaf in leaves)
    layout = Layout(names, tuple(leaf.shape for _, leaf in leaves), dtypes, structure)
    if layout.dim == 0:
        raise ValueError(f"{argument} holds no numbers, got {position!r}; pass a position with at least one coordinate")
    return layout


def _name(path) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path) or "x"
