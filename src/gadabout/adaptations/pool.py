"""The chains that learn together, and sums over them."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from gadabout.factors import pooled_sum


class Pool(eqx.Module):
    """The chains that share θ, on one or several devices; sums go over all of them.

    If chains are on several devices, `axis` names the mesh axis over which they are distributed. Each call is then one
    communication between the devices; an iteration has no others.

    `block` is the number of chains that one program processes at a time. Numbers of a chain are then rounded in the
    same way however many blocks a device has, and sums are taken within blocks and added in the order of the blocks.
    None means all chains of the device.

    `staged` says whether the compiler keeps the stages of an iteration apart, so that all programs round them alike.
    """

    axis: str | None = eqx.field(static=True, default=None)
    block: int | None = eqx.field(static=True, default=None)
    staged: bool = eqx.field(static=True, default=False)

    def each(self, function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
        """Applies a function to each chain of this device, along the leading axis of every leaf, block by block."""
        if self.block is None:
            return _each(function, *trees)
        made = self._by_block(lambda *trees: _each(function, *trees), *trees)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), made)

    def stage(self, tree: PyTree) -> PyTree:
        """The result of a stage of an iteration, not fused into the next stage if the pool is `staged`."""
        return apart(tree) if self.staged else tree

    def total(self, tree: PyTree) -> PyTree:
        """Sums over the leading axis of every leaf, and over devices; `LowerOuter` leaves are multiplied out."""
        return self.summed(pooled_sum, tree)

    def summed(self, function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
        """Sums of a function, which itself sums over the leading axis of every leaf, over the chains of all devices."""
        if self.block is not None:
            return jax.tree.map(lambda sums: jnp.sum(sums, 0), apart(self.gather(self._by_block(function, *trees))))
        local = function(*trees)
        if self.axis is None:
            return local
        flat, unravel = ravel_pytree(local)
        return unravel(jax.lax.psum(flat, self.axis))

    def _by_block(self, function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
        """Applies a function to each block and stacks the results along a new leading axis.

        The number of blocks is hidden from the compiler, so that it compiles a block in the same way however many
        there are, even if there is only one.
        """
        blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, self.block, *leaf.shape[1:]), trees)
        count = len(jax.tree.leaves(blocks)[0])

        def one(i):
            block, _ = apart((jax.tree.map(lambda leaf: leaf[i], blocks), i))
            return apart(function(*block))

        made = jax.tree.map(lambda new: jnp.zeros((count, *new.shape), new.dtype), jax.eval_shape(one, 0))
        put = lambda i, made: jax.tree.map(lambda rows, new: rows.at[i].set(new), made, one(i))
        return jax.lax.fori_loop(0, apart(jnp.asarray(count)), put, made)

    def mean(self, tree: PyTree) -> PyTree:
        """Means over the leading axis of every leaf, and over devices; Booleans count as 0 and 1."""
        if not jax.tree.leaves(tree):
            return tree
        tree = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf, float)), tree)
        chains = self.size(tree)
        return jax.tree.map(lambda total: total / chains, self.total(tree))

    def gather(self, tree: PyTree) -> PyTree:
        """The rows of all chains on all devices, in the order of the chains, for uses where a sum is not enough."""
        if self.axis is None:
            return tree
        unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], tree))[1]
        flat = jax.vmap(lambda row: ravel_pytree(row)[0])(tree)
        return jax.vmap(unravel)(jax.lax.all_gather(flat, self.axis, tiled=True))

    def size(self, tree: PyTree) -> int:
        """The number of chains on all devices."""
        local = jax.tree.leaves(tree)[0].shape[0]
        return local if self.axis is None else local * jax.lax.axis_size(self.axis)


def _each(function: Callable[..., PyTree], *trees: PyTree) -> PyTree:
    """`jax.vmap`, but a single chain is not batched: its loops end on time, and a conditional computes one branch.

    A batched loop selects, in every iteration, between the old and new values of everything that it carries.
    """
    if jax.tree.leaves(trees)[0].shape[0] > 1:
        return jax.vmap(function)(*trees)
    return jax.tree.map(lambda leaf: jnp.expand_dims(leaf, 0), function(*jax.tree.map(lambda leaf: leaf[0], trees)))


def apart(tree: PyTree) -> PyTree:
    """The same tree, compiled separately from its uses, so that the code of a block does not depend on its place."""
    return jax.lax.optimization_barrier(tree)


ALONE = Pool()
"""The pool whose chains are all on one device."""


class PerChain(eqx.Module):
    """A part of a memory that belongs to single chains: a tree whose leaves have a leading chain axis."""

    tree: PyTree
