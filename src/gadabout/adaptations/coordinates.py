"""The coordinates in which Algorithm 1 learns θ: every parameter in its own unit, independent of the units of x.

A proposal's parameters are those of its factors, which define their units, and others, such as logarithms of scales,
whose unit is 1. The gradient of one chain may hold `LowerOuter` leaves, which represent their product.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gadabout.factors import AbstractFactor, LowerOuter, safe_norm


def units(proposal: PyTree) -> PyTree:
    """The unit of each parameter: that of its factor's `units()`, or 1 outside factors."""
    unit = lambda node: node.units() if _is_factor(node) else jnp.ones((), node.dtype)
    return jax.tree.map(unit, eqx.filter(proposal, eqx.is_inexact_array), is_leaf=_is_factor)


def growth(theta: PyTree, entropy_gradient: PyTree) -> PyTree:
    """The direction, in units, along which proposals grow: factors by `growth()`, the rest by the entropy's sign."""

    def direction(node, h):
        return jax.tree.map(jnp.divide, node.growth(), node.units()) if _is_factor(node) else jnp.sign(h)

    return jax.tree.map(direction, theta, entropy_gradient, is_leaf=_is_factor)


def floored(theta: PyTree, lowest: Float[Array, ""], relative: bool) -> PyTree:
    """θ with the diagonal of every factor at or above `lowest`, in the factor's units if `relative`."""
    floor = lambda node: node.floor(lowest, relative) if _is_factor(node) else node
    return jax.tree.map(floor, theta, is_leaf=_is_factor)


def in_units(gradient: PyTree, unit: PyTree) -> PyTree:
    """One chain's gradient with respect to θ / unit."""
    return _by_parameter(lambda g, s: g * s, gradient, unit)


def clipped(gradient: PyTree, largest: Float[Array, ""]) -> PyTree:
    """One chain's gradient, each leaf scaled down to a norm of at most `largest`; its direction stays."""

    def clip(g: Any) -> Any:
        if isinstance(g, LowerOuter):
            return g.clipped(largest)
        return jnp.where((norm := safe_norm(g)) > largest, g / jnp.where(norm > 0, norm, 1) * largest, g)

    return _by_parameter(clip, gradient)


def _is_factor(node: Any) -> bool:
    return isinstance(node, AbstractFactor)


def _by_parameter(function: Callable, gradient: PyTree, *rest: PyTree) -> PyTree:
    return jax.tree.map(function, gradient, *rest, is_leaf=lambda node: isinstance(node, LowerOuter))
