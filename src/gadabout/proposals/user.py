"""A proposal given by the user's own functions."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import PyTree

from gadabout.calls import called
from gadabout.checks import shown
from gadabout.proposals.base import AbstractProposal
from gadabout.target import check_scalar


def as_pytree(function: Any) -> Any:
    """A plain function as a pytree without leaves; modules and partials keep their arrays as parameters."""
    return function if function is None or isinstance(function, Partial | eqx.Module) else Partial(function)


class UserProposal(AbstractProposal):
    r"""y ~ q(·|x) by `sample(key, x)`, with log q(y|x) given by `log_density(y, x)` (lectures, "Metropolis–Hastings").

    Both take positions in the user's form. `log_density` may omit a constant free of both arguments; None means that
    q is symmetric, q(y|x) = q(x|y). Nothing checks that the two functions belong together: if they do not, the chain
    has another stationary law. Arrays in modules or `jax.tree_util.Partial`s are parameters θ.
    """

    sample: Callable[..., PyTree] = eqx.field(converter=as_pytree)
    log_density: Callable[..., Any] | None = eqx.field(converter=as_pytree, default=None)

    def noise(self, key, here):
        return key

    def move(self, noise, here, target):
        position = target.unravel(here.x)
        proposed = called("sample", "(key, x)", self.sample, noise, position)
        check_position("sample", proposed, position)
        there = target.at(target.ravel(proposed))
        if self.log_density is None:
            return there, 0.0
        return there, _log_q(self.log_density, position, proposed) - _log_q(self.log_density, proposed, position)


def _log_q(log_density: Callable[..., Any], y: PyTree, x: PyTree) -> Any:
    """log q(y|x); raises TypeError or ValueError while tracing unless it is one real number."""
    value = called("log_density", "(y, x)", log_density, y, x)
    check_scalar("log_density", value)
    return value


def check_position(name: str, found: PyTree, position: PyTree) -> None:
    """Raises ValueError while tracing unless `found`, returned by a user's function, has the shapes of a position."""
    expected = jax.tree.map(jnp.shape, position)
    try:
        shapes = jax.tree.map(lambda leaf: jnp.asarray(leaf).shape, found)
    except TypeError as error:
        raise ValueError(f"{name} must return a position with the shapes {expected}, got {shown(found)}") from error
    if shapes != expected:
        raise ValueError(f"{name} must return a position with the shapes {expected}, got {shapes}")
