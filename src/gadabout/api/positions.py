"""Positions as users hold them, any pytree of arrays, and as the samplers do, flat vectors."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, PyTree


class Layout(eqx.Module):
    """Names, shapes and types of a position's leaves, in the order in which they lie in the flat vector."""

    names: tuple[str, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dtypes: tuple[np.dtype, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

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
            part = flat[..., split : split + size].reshape(*flat.shape[:-1], *shape)
            parts[name] = part if np.issubdtype(dtype, np.floating) else part.astype(dtype)
            split += size
        return parts

    def unravel(self, x: Float[Array, " n"]) -> PyTree:
        """The position that a flat vector stands for."""
        return jax.tree.unflatten(self.structure, list(self.split(x).values()))

    def ravel(self, position: PyTree) -> Float[Array, " n"]:
        """The flat vector of a position."""
        return jnp.concatenate([jnp.ravel(jnp.asarray(leaf, dtype=float)) for leaf in jax.tree.leaves(position)])


class Flat(eqx.Module):
    """The user's log density as a function of a flat position."""

    logdensity: Callable[..., Any]
    layout: Layout

    def __call__(self, x, *data):
        return self.logdensity(self.layout.unravel(x), *data)


def layout(position: PyTree, takes_discrete: bool) -> Layout:
    """The layout of one position, given by its arrays or their shapes.

    Raises TypeError for a leaf that is not made of numbers the sampler can move, ValueError if there is nothing in it.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(position)
    names = tuple(_name(path) for path, _ in leaves)
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if not (jnp.issubdtype(leaf.dtype, jnp.floating) or (takes_discrete and leaf.dtype.kind in "biu")):
            raise TypeError(
                f"init: {name!r} has the type {leaf.dtype}, but this sampler moves real numbers; pass floating-point "
                f"numbers, such as jnp.asarray({name}, float)"
            )
    dtypes = tuple(np.dtype(leaf.dtype) for _, leaf in leaves)
    found = Layout(names, tuple(leaf.shape for _, leaf in leaves), dtypes, structure)
    if found.dim == 0:
        raise ValueError(f"init holds no numbers, got {position!r}; pass a position with at least one coordinate")
    return found


def _name(path) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path) or "x"


def proposer(
    init: Any, logdensity: Callable, data: tuple, num_chains: int, takes_discrete: bool
) -> tuple[Layout, Partial, int]:
    """Layout of a position, a function (key, chain) of flat starting positions, and how often it is worth asking."""
    if callable(init):
        found = layout(jax.eval_shape(init, jax.random.key(0)), takes_discrete)
        return found, Partial(_drawn, Draw(init, found)), 100
    init = jax.tree.map(_as_array, init)
    if _one_per_chain(init, logdensity, data, num_chains):
        found = layout(jax.tree.map(lambda leaf: leaf[0], init), takes_discrete)
        return found, Partial(_given, jax.vmap(found.ravel)(init)), 1
    found = layout(init, takes_discrete)
    return found, Partial(_around, found.ravel(init), jnp.asarray(found.is_real)), 100


class Draw(eqx.Module):
    """The user's function of a key, held as a static field so that the same function compiles nothing anew."""

    init: Callable = eqx.field(static=True)
    layout: Layout


def _drawn(draw: Draw, key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return draw.layout.ravel(draw.init(key))


def _given(positions: Float[Array, "chains n"], key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return positions[chain]


def _around(centre: Array, is_real: Array, key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return centre + is_real * jax.random.normal(key, centre.shape, centre.dtype)


def _as_array(leaf: Any) -> Array:
    try:
        return jnp.asarray(leaf)
    except TypeError as error:
        raise TypeError(
            f"init must be a pytree of arrays, or a function of a key, got a leaf of type {type(leaf).__name__}"
        ) from error


def _one_per_chain(init: PyTree, logdensity: Callable, data: tuple, num_chains: int) -> bool:
    """Whether `init` holds one position per chain along a leading axis, rather than one position.

    The density decides which of the two it can read. Where it can read both, a bare array of two or more axes is one
    position per chain, and everything else is one position.
    """
    leaves = jax.tree.leaves(init)
    if not leaves or not all(leaf.ndim and leaf.shape[0] == num_chains for leaf in leaves):
        return False
    if isinstance(init, jax.Array) and init.ndim > 1:
        return _readable(logdensity, jax.tree.map(lambda leaf: leaf[0], init), data)
    return not _readable(logdensity, init, data)


def _readable(logdensity: Callable, position: PyTree, data: tuple) -> bool:
    try:
        return jnp.shape(eqx.filter_eval_shape(_evaluate, logdensity, position, data)) == ()
    except Exception:  # whatever the user's function raises: it cannot read this position
        return False


@eqx.filter_jit
def _evaluate(logdensity, position, data):
    return logdensity(position, *data)
