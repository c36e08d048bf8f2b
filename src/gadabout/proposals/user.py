"""A proposal given by the user's own functions."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.tree_util import Partial
from jaxtyping import PyTree

from gadabout.proposals.base import AbstractProposal


def as_pytree(function: Any) -> Any:
    """A plain function as a pytree without leaves; modules and partials keep their arrays as parameters."""
    return function if function is None or isinstance(function, Partial | eqx.Module) else Partial(function)


class UserProposal(AbstractProposal):
    r"""y ~ q(·|x) by `sample(key, x)`, with log q(y|x) given by `log_density(y, x)` (lectures, "Metropolis–Hastings").

    Both see positions as the user holds them. `log_density` may lack a constant free of both arguments; None says that
    q is symmetric, q(y|x) = q(x|y). Nothing checks that the two functions belong together: if they do not, the chain
    has another law. Both see θ if they are modules or `jax.tree_util.Partial`s with arrays.
    """

    sample: Callable[..., PyTree] = eqx.field(converter=as_pytree)
    log_density: Callable[..., Any] | None = eqx.field(converter=as_pytree, default=None)

    def noise(self, key, here):
        return key

    def move(self, noise, here, target):
        position = target.unravel(here.x)
        proposed = self.sample(noise, position)
        _check(proposed, position)
        there = target.at(target.ravel(proposed))
        if self.log_density is None:
            return there, 0.0
        return there, self.log_density(position, proposed) - self.log_density(proposed, position)


def _check(proposed: PyTree, position: PyTree) -> None:
    """Raises ValueError while tracing where a proposal is not shaped as a position."""
    shapes = [jax.tree.map(jax.numpy.shape, tree) for tree in (proposed, position)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"sample must return a position with the shapes {shapes[1]}, got {shapes[0]}")
