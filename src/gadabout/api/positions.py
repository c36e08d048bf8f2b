"""Starting positions as users give them: one position, a function of a key, or one position for each chain."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, PyTree

from gadabout.api.mistaken import refuse_list
from gadabout.calls import called, check_call
from gadabout.checks import shown
from gadabout.executables import compiled
from gadabout.layout import Layout, in_order, shapes_of
from gadabout.model import AbstractModel
from gadabout.starts import Starts

TRIES = 100
"""largest number of times that a random start is drawn until it is finite"""


def starts_of(init: Any, init_per_chain: PyTree, model: AbstractModel, num_chains: int, discrete: bool) -> Starts:
    """The starts of chains, from the two arguments of `sample`; the model's own start if neither is given.

    Raises:
        TypeError: if a leaf is not made of numbers that the sampler can move, or both arguments are given.
        ValueError: if a position is empty, or `init_per_chain` does not hold one position for each chain.
    """
    if init is not None and init_per_chain is not None:
        raise TypeError("init_per_chain: pass init, or init_per_chain with one position for each chain, not both")
    if init_per_chain is not None:
        positions = _as_arrays("init_per_chain", init_per_chain)
        for leaf in jax.tree.leaves(positions):
            if not leaf.ndim or leaf.shape[0] != num_chains:
                rows = leaf.shape[0] if leaf.ndim else 0
                remedy = f"pass num_chains={rows}, or one position as init" if rows else "pass one position as init"
                raise ValueError(
                    f"init_per_chain must have a leading axis of num_chains = {num_chains} in every leaf, got the "
                    f"shape {leaf.shape}; {remedy}"
                )
        first = jax.tree.map(lambda leaf: leaf[0], positions)
        layout = _layout(in_order(positions, first), "init_per_chain", model, discrete)
        _check_constraints(positions, "init_per_chain", layout)
        flat = _flat(model, jax.vmap(lambda position: layout.ravel(model.given(position))), positions)
        rows = np.asarray(flat, float)
        return Starts(Partial(_given, flat), 1, layout, lambda rng, chains: rows)
    if init is None and not model.starts_itself:
        init = model.position
        if init is None:
            raise TypeError(
                f"init: {model.name} has no start of its own; pass one position such as jnp.zeros(3) or a "
                "dict of arrays, or a function of a key that draws one"
            )
    if init is None:
        layout = _checked(_drawn_shapes(model.start), "init", model, discrete)
        return _drawn_starts(DrawnFrom(model.start, layout), layout)
    if _draws(init):
        init = init if jax.tree_util.all_leaves([init]) else partial(init)  # not a pytree, which may hold arrays
        check_call("init", "of a key", init, jax.random.key(0))
        layout = _layout(_drawn_shapes(init), "init", model, discrete)
        return _drawn_starts(DrawnFrom(init, layout, _giver(model)), layout)
    refuse_list("init", init)
    position = _as_arrays("init", init)
    layout = _layout(position, "init", model, discrete)
    _check_constraints(position, "init", layout)
    centre = _flat(model, lambda position: layout.ravel(model.given(position)), position)
    is_real = jnp.asarray(layout.is_real)
    own, moves = np.asarray(centre, float), np.asarray(is_real, float)
    rows = lambda rng, chains: own + moves * rng.standard_normal((chains, len(own)))
    return Starts(Partial(_around, centre, is_real), TRIES, layout, rows)


def _draws(init: Any) -> bool:
    """Whether `init` is a function of a key. A callable module, a pytree that holds arrays, is a position instead."""
    if not callable(init) or isinstance(init, Partial) or hasattr(init, "__func__"):
        return callable(init)
    return not any(isinstance(leaf, np.ndarray | jax.Array) for leaf in jax.tree.leaves(init))


def _drawn_starts(draw: "DrawnFrom", layout: Layout) -> Starts:
    """Starts drawn by a function of a key, in NumPy if the function has a method `rows`; else it is traced once."""
    drawn = jax.vmap(lambda key: _drawn(draw, key, jnp.zeros((), int)))
    program = cache(lambda chains: compiled(drawn, jax.random.split(jax.random.key(0), chains)))

    def rows(rng: np.random.Generator, chains: int) -> np.ndarray:
        by_numpy = getattr(draw.init, "rows", None)
        if by_numpy is not None:
            return by_numpy(rng, chains)
        keys = jax.random.split(jax.random.key(int(rng.integers(2**32))), chains)
        return np.asarray(program(chains)(keys), float)

    return Starts(Partial(_drawn, draw), TRIES, layout, rows)


def _drawn_shapes(draw: Callable) -> PyTree:
    return called("init", "of a key", lambda key: shapes_of(draw, key), jax.eval_shape(jax.random.key, 0))


def _layout(position: PyTree, argument: str, model: AbstractModel, discrete: bool) -> Layout:
    """The layout of the position that a model makes of a user's position, given as arrays or as their shapes."""
    like = position if _giver(model) is None else shapes_of(model.given, position)
    return _checked(like, argument, model, discrete)


def _check_constraints(position: PyTree, argument: str, layout: Layout) -> None:
    """Raises ValueError if a position violates a constraint of the model."""
    for name, leaf in zip(layout.names, layout.leaves(position), strict=True):
        transform = layout.transforms.get(name)
        if transform is not None and not bool(jnp.all(transform.codomain(jnp.asarray(leaf, float)))):
            raise ValueError(f"{argument}: {name!r} violates its constraint {_words(transform)}, got {shown(leaf)}")


def _words(transform: Any) -> str:
    return type(transform.codomain).__name__.strip("_")


def _giver(model: AbstractModel) -> Callable | None:
    """The function from a user's position to the model's position; None if both are the same."""
    return None if type(model).given is AbstractModel.given else model.given


def _flat(model: AbstractModel, function: Callable, position: PyTree) -> Array:
    """`function(position)`, for a function that calls `given` of the model; traced anew if the model has its own."""
    return function(position) if _giver(model) is None else compiled(function, position)(position)


class DrawnFrom(eqx.Module):
    """The user's function of a key, held as a static field so that the same function causes no new compilation."""

    init: Callable = eqx.field(static=True)
    layout: Layout
    given: Callable | None = eqx.field(static=True, default=None)


def _drawn(draw: DrawnFrom, key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    position = draw.init(key)
    return draw.layout.ravel(position if draw.given is None else draw.given(position))


def _given(positions: Float[Array, "chains n"], key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return positions[chain]


def _around(centre: Array, is_real: Array, key: Key[Array, ""], chain: Array) -> Float[Array, " n"]:
    return centre + is_real * jax.random.normal(key, centre.shape, centre.dtype)


def _as_arrays(argument: str, position: PyTree) -> PyTree:
    """A position whose leaves are arrays. Raises TypeError or ValueError if they do not hold finite numbers."""
    what = "a pytree of arrays of numbers" + (", or a function of a key" if argument == "init" else "")

    def array(leaf: Any) -> Array:
        try:
            values = jnp.asarray(leaf)
        except (TypeError, ValueError) as error:
            remedy = "; of a module pass the arrays alone, as of equinox.partition(module, equinox.is_inexact_array)"
            raise TypeError(
                f"{argument} must be {what}, got a leaf of type {type(leaf).__name__}: {shown(leaf)}"
                f"{remedy if callable(leaf) else ''}"
            ) from error
        if jnp.issubdtype(values.dtype, jnp.inexact) and not jnp.isfinite(values).all():
            raise ValueError(
                f"{argument} holds {int((~jnp.isfinite(values)).sum())} numbers that are NaN or infinite; chains need "
                "finite numbers to start from"
            )
        return values

    try:
        leaves, structure = jax.tree.flatten(position)
    except ValueError as error:  # from dicts whose keys cannot be sorted
        raise ValueError(f"{argument}: the keys of a dict must all be strings, got {shown(position)}") from error
    return in_order(position, jax.tree.unflatten(structure, [array(leaf) for leaf in leaves]))


def _checked(position: PyTree, argument: str, model: AbstractModel, discrete: bool) -> Layout:
    """The layout; raises ValueError if a result cannot hold a name, TypeError if the sampler cannot move a type."""
    layout = model.layout_for(position, argument)
    dimensions = {
        f"{name}_dim_{i}" for name, shape in zip(layout.names, layout.shapes, strict=True) for i in range(len(shape))
    }
    for name in layout.names:
        if "/" in name or name in {"chain", "draw", *dimensions} or layout.names.count(name) > 1:
            why = "holds a slash" if "/" in name else "is the name of a dimension of the result, or there twice"
            raise ValueError(f"{argument}: the name {name!r} {why}; call the variable something else")
    for name, dtype in zip(layout.names, layout.dtypes, strict=True):
        if not (np.issubdtype(dtype, np.floating) or discrete):
            raise TypeError(
                f"{argument}: {name!r} has the type {dtype}, but this sampler moves real numbers; pass floating-point "
                f"numbers, such as jnp.asarray({name}, float), or, if it is a constant, take it out and pass it as data"
            )
    return layout
