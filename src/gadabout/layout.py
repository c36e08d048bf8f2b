"""Names, shapes and types of a position's leaves: the map between a flat vector and the user's position."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.transforms import flat_shape

UNCONSTRAINED = "_unconstrained"
"""suffix of the name of a variable that has fewer free coordinates than entries, such as a simplex"""
BY_NAME = jax.tree.structure({})
"""the structure of a dict by name; not None, which JAX cannot compare with other structures"""


class Layout(eqx.Module):
    """The leaves of a position, in their order in the flat vector.

    `shapes` are the shapes of the flat vector's parts; a transform may give the variable another shape. `structure` is
    the tree of the leaves; BY_NAME stands for a dict in the order of the names. `transforms` are those of the
    constrained leaves, by name.
    """

    names: tuple[str, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dtypes: tuple[np.dtype, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True, default=BY_NAME)
    transforms: dict[str, Any] = eqx.field(default_factory=dict)
    reshaped: tuple[str, ...] = eqx.field(static=True, default=())
    """leaves whose variables have other shapes, by transforms that only the model has"""

    @property
    def by_name(self) -> bool:
        """Whether positions are dicts by name."""
        return self.structure == BY_NAME

    @property
    def sizes(self) -> list[int]:
        """Number of coordinates of each leaf."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def dim(self) -> int:
        """Number of coordinates of the flat vector."""
        return sum(self.sizes)

    @property
    def is_real(self) -> np.ndarray:
        """Whether each coordinate is a real number, shape (n,)."""
        real = [np.issubdtype(dtype, np.floating) for dtype in self.dtypes]
        return np.repeat(np.array(real, bool), self.sizes)

    @property
    def free_names(self) -> tuple[str, ...]:
        """The names of the flat vector's parts: of the leaves, with a suffix where the variable has another shape."""
        pairs = zip(self.names, self.shapes, strict=True)
        changed = lambda name, shape: name in self.transforms and self.transforms[name].forward_shape(shape) != shape
        marked = lambda name, shape: name in self.reshaped or changed(name, shape)
        return tuple(name + UNCONSTRAINED if marked(name, shape) else name for name, shape in pairs)

    @property
    def labels(self) -> list[str]:
        """The name of each coordinate of the flat vector: `mu`, `theta[3]`, `log tau` of a positive tau."""
        labels = []
        for name, shape in zip(self.names, self.shapes, strict=True):
            transform = type(self.transforms[name]).__name__ if name in self.transforms else ""
            kind = {"": "", "IdentityTransform": "", "ExpTransform": "log "}.get(transform, "unconstrained ")
            indices = [f"[{','.join(map(str, index))}]" if index else "" for index in np.ndindex(*shape)]
            labels += [f"{kind}{name}{index}" for index in indices]
        return labels

    def split(self, flat: Any) -> dict[str, Any]:
        """An array (..., n), of JAX or NumPy, as one array (..., *shape) for each leaf; integer leaves become integers.

        Constrained leaves keep their values in the flat vector (see `variables`).
        """
        split, parts = 0, {}
        for name, shape, dtype, size in zip(self.names, self.shapes, self.dtypes, self.sizes, strict=True):
            part = flat[..., split : split + size].reshape((*flat.shape[:-1], *shape))
            parts[name] = part if np.issubdtype(dtype, np.floating) else part.astype(dtype)
            split += size
        return parts

    def variables(self, flat: Any) -> dict[str, Any]:
        """The leaves of `split`, with the user's values of constrained leaves: arrays (..., *shape)."""
        parts = self.split(flat)
        return parts | {name: transform(parts[name]) for name, transform in self.transforms.items()}

    def position(self, parts: Mapping[str, Any]) -> PyTree:
        """The tree of these leaves, which are given by name."""
        leaves = [parts[name] for name in self.names]
        if self.by_name:
            return dict(zip(self.names, leaves, strict=True))
        return jax.tree.unflatten(self.structure, leaves)

    def leaves(self, position: PyTree) -> list[Any]:
        """The leaves of a position, in the order of their names."""
        return [position[name] for name in self.names] if self.by_name else jax.tree.leaves(position)

    def unravel(self, x: Float[Array, " n"]) -> PyTree:
        """The position of a flat vector."""
        return self.position(self.variables(x))

    def ravel(self, position: PyTree) -> Float[Array, " n"]:
        """The flat vector of a position; not finite where the position violates a constraint."""
        leaves = [jnp.asarray(leaf, dtype=float) for leaf in self.leaves(position)]
        free = [
            self.transforms[name].inv(leaf) if name in self.transforms else leaf
            for name, leaf in zip(self.names, leaves, strict=True)
        ]
        return jnp.concatenate([jnp.ravel(leaf) for leaf in free])

    def log_jacobian(self, x: Float[Array, " n"]) -> Any:
        """log |det ∂ position / ∂ x|, the term that the log density of x has in addition to that of the position."""
        parts = self.split(x)
        terms = [
            jnp.sum(transform.log_abs_det_jacobian(parts[name], transform(parts[name])))
            for name, transform in self.transforms.items()
        ]
        return sum(terms, start=0.0)

    def part(self, indices: Sequence[int]) -> "Layout | None":
        """The layout of some coordinates: a dict of the leaves they belong to, or None if the position is one array.

        A leaf that is taken completely and in order keeps its shape; of any other the chosen numbers form a vector.

        Raises ValueError if the coordinates of a leaf do not stand together, or if a constrained leaf is cut.
        """
        if not self.by_name and jax.tree_util.treedef_is_leaf(self.structure):
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
            if not whole and self.names[leaf] in self.transforms:
                raise ValueError(f"indices must take all coordinates of {self.names[leaf]!r}, which is constrained")
            shapes.append(self.shapes[leaf] if whole else (len(chosen),))
        names, dtypes = tuple(self.names[leaf] for leaf in order), tuple(self.dtypes[leaf] for leaf in order)
        transforms = {name: transform for name, transform in self.transforms.items() if name in names}
        return Layout(names, tuple(shapes), dtypes, transforms=transforms)


def layout_of(position: PyTree, argument: str = "init", transforms: Mapping[str, Any] | None = None) -> Layout:
    """The layout of one position, given by its arrays or their shapes, with the transforms of constrained leaves.

    The variables of a dict keep the order in which they were written.

    Raises TypeError for a leaf that does not consist of numbers, ValueError for no coordinates; both name `argument`.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(position)
    named = {_name(path): leaf for path, leaf in leaves}
    pairs = [(_name(path), leaf) for path, leaf in leaves]
    if type(position) is dict and set(named) == set(position):  # a dict of arrays by name
        pairs, structure = [(name, named[name]) for name in position], BY_NAME
    for name, leaf in pairs:
        if not (jnp.issubdtype(leaf.dtype, jnp.floating) or np.dtype(leaf.dtype).kind in "biu"):
            raise TypeError(f"{argument}: {name!r} has the type {leaf.dtype}; pass real numbers")
    transforms = dict(transforms or {})
    if missing := [name for name in transforms if name not in named]:
        raise ValueError(f"transforms: there is no variable {missing[0]!r}; there are {', '.join(map(repr, named))}")
    shapes = tuple(flat_shape(name, transforms.get(name), leaf.shape) for name, leaf in pairs)
    dtypes = tuple(np.dtype(leaf.dtype) for _, leaf in pairs)
    layout = Layout(tuple(name for name, _ in pairs), shapes, dtypes, structure, transforms)
    if layout.dim == 0:
        raise ValueError(f"{argument} holds no numbers, got {position!r}; pass a position with at least one coordinate")
    return layout


def in_order(like: PyTree, tree: PyTree) -> PyTree:
    """A tree that JAX has processed, with the entries of a dict in the order of `like` again."""
    return {name: tree[name] for name in like} if type(like) is dict else tree


def shapes_of(function: Callable[..., PyTree], *arguments: Any) -> PyTree:
    """Shapes and types of a function's value, as from `jax.eval_shape`; a dict keeps the order it was written in."""
    written: list[PyTree] = []

    def seen(*arguments):
        written.append(function(*arguments))
        return written[-1]

    shapes = jax.eval_shape(seen, *arguments)
    return in_order(written[-1], shapes)


def _name(path) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path) or "x"
