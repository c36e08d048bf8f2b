"""The Gibbs kernel: blocks of the position drawn from their conditional laws, by the user's functions."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from gadabout.calls import called
from gadabout.kernels.base import AbstractKernel, Info
from gadabout.proposals.user import as_pytree, check_position
from gadabout.target import Point, Target


class Gibbs(AbstractKernel):
    r"""Draws each block from $\pi(x_b | x_{\setminus b})$ in turn: Metropolis–Hastings with acceptance probability 1.

    Each conditional is a function (key, position), or (key, position, data) if the target has data, of the user's own
    position, including integers. It returns the whole position with its block redrawn, or, if positions are dicts, a
    dict of the redrawn entries alone. Nothing checks that the conditionals are those of the target: if they are not,
    the chain has another law. The log density is evaluated once per sweep, for `lp` and the kernels that follow. A
    sweep that ends at a non-finite position or log density is undone and counted as `nonfinite`.

    Args:
        conditionals: one function for each block.
        random_order: a new random order for every sweep, drawn from the key alone; by default the order given.
    """

    conditionals: tuple[Callable[..., PyTree], ...] = eqx.field(converter=lambda fs: tuple(map(as_pytree, fs)))
    random_order: bool = eqx.field(static=True, default=False)

    @property
    def order(self):
        return 0

    def init(self, x, target):
        return target.at(x)

    def step(self, key, state, target):
        order_key, *keys = jax.random.split(key, len(self.conditionals) + 1)
        x = state.x
        if self.random_order:
            impl = jax.random.key_impl(key)
            own = lambda bits: jax.random.wrap_key_data(bits, impl=impl)  # a batched switch copies its operands
            draws = [lambda bits, x, f=f: _renewed(f, own(bits), x, target) for f in self.conditionals]
            turns = jax.random.permutation(order_key, len(draws)), jax.random.key_data(jnp.stack(keys))
            x, _ = jax.lax.scan(lambda x, turn: (jax.lax.switch(turn[0], draws, turn[1], x), None), x, turns)
        else:
            for conditional, conditional_key in zip(self.conditionals, keys, strict=True):
                x = _renewed(conditional, conditional_key, x, target)
        there = target.at(x)
        finite = there.finite & jnp.isfinite(x).all()
        after = jax.tree.map(lambda new, old: jnp.where(finite, new, old), there, Point(state.x, state.logp))
        rate = finite.astype(x.dtype)
        return after, Info(after.logp, rate, finite, finite)

    def position(self, state):
        return state.x


def _renewed(conditional: Callable, key: Key[Array, ""], x: Float[Array, " n"], target: Target) -> Float[Array, " n"]:
    """The flat position after one conditional draw; raises ValueError during tracing if it is not a position."""
    position = target.unravel(x)
    data, arguments = ((), "(key, position)") if target.data is None else ((target.data,), "(key, position, data)")
    new: Any = called("a conditional", arguments, conditional, key, position, *data)
    if isinstance(position, dict) and isinstance(new, dict):
        new = {**position, **new}
    check_position("a conditional", new, position)
    return target.ravel(new)
