"""The target distribution: the only place that calls the user's log density."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from gadabout.executables import edition, new_edition, traced_as
from gadabout.layout import Layout
from gadabout.precision import whole_products


class LogDensityError(ValueError):
    """The user's log density returns a value that no sampler can use; the message says which, and the remedy."""


class Point(eqx.Module):
    """One position of a chain, with the log density, the gradient, and values that the proposal caches.

    `grad` is None if and only if the kernel needs no gradient. `cache` belongs to the proposal (Langevin keeps Lᵀ grad
    there, so that a sampling iteration needs two O(n²) products instead of three) and is renewed whenever θ changes.
    """

    x: Float[Array, " n"]
    logp: Float[Array, ""]
    grad: Float[Array, " n"] = None  # pyright: ignore[reportAssignmentType]
    cache: PyTree = None

    @property
    def finite(self) -> Bool[Array, ""]:
        """Whether the log density, and the gradient where there is one, are finite."""
        finite = jnp.isfinite(self.logp)
        return finite if self.grad is None else finite & jnp.isfinite(self.grad).all()


class Target(eqx.Module):
    """A log density log π(x), known up to a constant, of a flat and unconstrained position x of shape (n,).

    If the layout has transforms, log π(x) is the user's log density plus the logarithm of the transforms' Jacobian.

    Data are an argument of programs and never in a closure, so that other data of the same shape need no new
    compilation. With an `edition` (see `fresh`) the function is traced once for all callers with the same shapes.

    Args:
        function: the log density of the user's position, or of (position, data) if `data` is not None.
        data: a pytree of arrays.
        layout: the map from the flat vector to the user's position; None if the position is the vector itself.
        num_rows: rows whose log likelihoods the log density sums, if it is estimated from batches of them; else 1.
        edition: a number for what the function computes; programs identify the function by it and by object identity.
    """

    function: Callable[..., Any]
    data: PyTree = None
    layout: Layout | None = None
    num_rows: Any = 1.0
    edition: int | None = eqx.field(static=True, default=None)

    def log_density(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """log π(x), a scalar; raises LogDensityError during tracing if the user's function returns anything else."""
        call = _call if self.edition is None else _called_once
        with whole_products(), traced_as(self.edition):
            value = call(self.function, self.layout, x, self.data)
        check_scalar("logdensity", value)
        value = jnp.asarray(value).astype(x.dtype)
        return value if self.layout is None or not self.layout.transforms else value + self.layout.log_jacobian(x)

    def unravel(self, x: Float[Array, " n"]) -> PyTree:
        """The user's position for the flat position x."""
        return x if self.layout is None else self.layout.unravel(x)

    def ravel(self, position: PyTree) -> Float[Array, " n"]:
        """The flat position x of a user's position: the inverse of `unravel`."""
        return position if self.layout is None else self.layout.ravel(position)

    def with_data(self, data: PyTree) -> "Target":
        """The same density with other data, such as the batch of one iteration."""
        return replace(self, data=data)

    def conditional(self, x: Float[Array, " n"], indices: Sequence[int]) -> "Target":
        """The density of the coordinates `indices`, given the others at x; up to a constant independent of them."""
        layout = None if self.layout is None else self.layout.part(indices)
        return Target(_Conditional(self, x, layout, tuple(indices)), None, layout, self.num_rows, self.edition)

    def at(self, x: Float[Array, " n"], order: int = 0) -> Point:
        """The point at x, with as many derivatives of log π as `order` says.

        - 0: the log density alone; a later derivative of it costs the gradient then.
        - 1: value and gradient in one pass. In derivatives of the point the gradient is a constant, and the value's
          derivative is that same gradient: no second pass over the data.
        - 2: the same, but derivatives go through the gradient too: one Hessian-vector product, never a Hessian.
        """
        if order == 0:
            return Point(x, self.log_density(x))
        with traced_as(self.edition):  # the user's rules for gradients are traced here too
            logp, grad = jax.value_and_grad(self.log_density)(x if order == 2 else jax.lax.stop_gradient(x))
        return Point(x, _known_gradient(x, *jax.lax.stop_gradient((logp, grad))), grad)

    def with_curvature(self, x: Float[Array, " n"]) -> tuple[Point, Float[Array, " n"]]:
        """The point at x, and the product of the Hessian there with a vector of ones."""

        def gradient(x):
            point = self.at(x, 2)
            return point.grad, point

        with traced_as(self.edition):
            _, pull, point = jax.vjp(gradient, x, has_aux=True)
            return point, pull(jnp.ones_like(x))[0]


class _Conditional(eqx.Module):
    """A log density as a function of some coordinates, with the others held at x."""

    whole: Target
    x: Float[Array, " n"]
    layout: Layout | None
    indices: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, block):
        block = block if self.layout is None else self.layout.ravel(block)
        value = self.whole.log_density(self.x.at[jnp.array(self.indices)].set(block))
        return value if self.layout is None else value - self.layout.log_jacobian(block)  # because the target adds it


def _call(function, layout, x, data):
    position = x if layout is None else layout.unravel(x)
    return function(position) if data is None else function(position, data)


_called_once = eqx.filter_jit(_call)


def fresh(target: Target, dim: int, order: int = 2) -> Target:
    """The target with the edition of its present function, so that no program of an earlier function is used for it.

    JAX identifies a function by object identity: it does not notice changes of globals, attributes, closures or arrays.
    So the log density and its derivatives are traced anew, and lowered. If program and constants are the same as
    before, the edition is the earlier one, and nothing is compiled twice. A function that calls back to the host, or
    cannot be traced, gets a new edition each time. Functions marked `on_host` are an exception: they are called in
    every iteration, and only the transforms of their layout are traced. Data and other arrays of the target are
    arguments; their values are not compared.

    Args:
        target: the target whose function is called, with tracers.
        dim: number of coordinates of a flat position.
        order: derivatives that will be taken, as in `at`.
    """
    traced = replace(target, edition=None)
    if getattr(target.function, "on_host", False):
        if target.layout is None or not target.layout.transforms:
            return target
        traced = replace(traced, function=_all_of)
    arrays, rest = eqx.partition(traced, eqx.is_array)
    once = jax.jit(lambda arrays, x: eqx.combine(arrays, rest).log_density(x))  # traced once for all derivatives
    x = jax.ShapeDtypeStruct((2, dim), jnp.result_type(float))

    def points(arrays, x, order):
        now = Target(lambda x: once(arrays, x))
        at = now.with_curvature if order == 2 else lambda x: now.at(x, order)
        return jax.vmap(lambda x: (now.log_density(x), at(x)))(x)

    for most in range(order, -1, -1):  # fewer derivatives may exist
        with suppress(Exception):  # errors of the user's function are explained when the run calls it
            return replace(target, edition=edition(partial(points, order=most), arrays, x))
    return replace(target, edition=new_edition())


def _all_of(position: PyTree, data: PyTree = None) -> Array:
    """A number that depends on every entry of a position."""
    return sum((jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(position)), start=jnp.zeros(()))


def check_scalar(name: str, value: Any) -> None:
    """Raises LogDensityError if the value of a user's log density is not one real number; `name` is for the message."""
    if not isinstance(value, jax.Array | np.ndarray | np.generic | int | float | complex):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise LogDensityError(f"{name} must return a scalar, one real number, got {kind}; return the value alone")
    if jnp.shape(value) != ():
        raise LogDensityError(
            f"{name} must return a scalar, got an array of shape {jnp.shape(value)}; "
            "sum the terms of the log density before returning it"
        )
    kind = jnp.result_type(value)
    if jnp.issubdtype(kind, jnp.bool_) or jnp.issubdtype(kind, jnp.complexfloating):
        raise LogDensityError(
            f"{name} must return a scalar, one real number, got one of type {kind}; return the log density, "
            "not a truth value or a complex number"
        )


@jax.custom_jvp
def _known_gradient(x, logp, grad):
    """log π(x), with the gradient already computed as its derivative with respect to x."""
    return logp


@_known_gradient.defjvp
def _(primals, tangents):
    _, logp, grad = primals
    return logp, grad @ tangents[0]
