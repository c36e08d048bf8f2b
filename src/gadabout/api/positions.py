"""Positions as users hold them, any pytree of arrays, and as the samplers do, flat vectors."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, PyTree


class Flat(eqx.Module):
    """The user's log density as a function of a flat position."""

    logdensity: Callable[..., Any]
    unravel: Callable[[Array], PyTree] = eqx.field(static=True)

    def __call__(self, x, *data):
        return self.logdensity(self.unravel(x), *data)


class Layout(eqx.Module):
    """Names and shapes of a position's leaves, in the order in which they lie in the flat vector."""

    names: tuple[str, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    unravel: Callable[[Array], PyTree] = eqx.field(static=True)

    @property
    def dim(self) -> int:
        """Coordinates of the flat vector."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def split(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays (..., n) as one array (..., *shape) for each leaf."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])[:-1]
        parts = np.split(flat, ends, axis=-1)
        return {
            name: part.reshape(*flat.shape[:-1], *shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }


def layout(position: PyTree) -> Layout:
    """The layout of one position, given by its arrays or their shapes.

    Raises TypeError for a leaf that is not made of floating-point numbers, ValueError if there is nothing in it.
    """
    leaves = jax.tree_util.tree_leaves_with_path(position)
    names = tuple(_name(path) for path, _ in leaves)
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"init: {name!r} has the type {leaf.dtype}, but these samplers move real numbers along gradients; "
                f"pass floating-point numbers, such as jnp.asarray({name}, float)"
            )
    _, unravel = ravel_pytree(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, dtype=float), position))
    found = Layout(names, tuple(leaf.shape for _, leaf in leaves), unravel)
    if found.dim == 0:
        raise ValueError(f"init holds no numbers, got {position!r}; pass a position with at least one coordinate")
    return found


def _name(path) -> str:
    return ".".join(str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path) or "x"


def proposer(init: Any, logdensity: Callable, data: tuple, num_chains: int) -> tuple[Layout, Partial, int]:
    """Layout of a position, a function (key, chain) of flat starting positions, and how often it is worth asking."""
    if callable(init):
        example = jax.eval_shape(init, jax.random.key(0))
        return layout(example), Partial(_drawn, Draw(init)), 100
    init = jax.tree.map(_as_array, init)
    if _one_per_chain(init, logdensity, data, num_chains):
        found = layout(jax.tree.map(lambda leaf: leaf[0], init))
        return found, Partial(_given, jax.vmap(lambda p: ravel_pytree(p)[0])(_as_float(init))), 1
    found = layout(init)
    return found, Partial(_around, ravel_pytree(_as_float(init))[0]), 100


class Draw(eqx.Module):
    """The user's function of a key, held as a static field so that the same function compiles nothing anew."""

    init: Callable = eqx.field(static=True)


def _drawn(draw: Draw, key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return ravel_pytree(_as_float(draw.init(key)))[0]


def _given(positions: Float[Array, "chains n"], key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return positions[chain]


def _around(centre: Float[Array, " n"], key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return centre + jax.random.normal(key, centre.shape, centre.dtype)


def _as_array(leaf: Any) -> Array:
    try:
        return jnp.asarray(leaf)
    except TypeError as error:
        raise TypeError(
            f"init must be a pytree of arrays, or a function of a key, got a leaf of type {type(leaf).__name__}"
        ) from error


def _as_float(position: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), position)


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
