"""A function that stays as it is where a single chain is vectorised."""

from collections.abc import Callable
from typing import Any

import jax
from jax.custom_batching import custom_vmap


def alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of arrays, to which `jax.vmap` over one chain adds an axis and nothing else.

    Otherwise a batched loop selects, in every iteration, between old and new of all that it carries, and a batched
    choice computes both branches, even where there is one chain to choose for. Over several chains it is `jax.vmap`.
    Not for what is differentiated.
    """
    call = custom_vmap(function)

    @call.def_vmap
    def _(size: int, batched: list[Any], *arguments: Any) -> tuple[Any, Any]:
        if size == 1:
            first = jax.tree.map(lambda leaf, b: leaf[0] if b else leaf, list(arguments), batched)
            result = jax.tree.map(lambda leaf: leaf[None], call(*first))
        else:
            axes = jax.tree.map(lambda b: 0 if b else None, batched)
            result = jax.vmap(function, axes)(*arguments)
        return result, jax.tree.map(lambda _: True, result)

    return call
