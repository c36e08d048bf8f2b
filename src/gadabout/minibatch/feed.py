"""Sources of batches of rows on the host: arrays, memory-mapped files or the user's iterator, read per chunk."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gadabout.minibatch.density import Batch, Batches, Control

CHUNK_BYTES = 16 * 2**20
LONGEST_CHUNK = 4_096


class AbstractFeed(ABC):
    """A source of batches by index, shared by all chains: index 0 is for the start, index t + 1 for iteration t.

    At most `capacity` batches go to the device at once, a power of two that depends on the size of a batch and not on
    the run's length. The next chunk is prepared while one is computed, so at most two chunks are in memory.
    """

    def __init__(self, example: PyTree, num_rows: int, control: Control | None):
        self.example, self.num_rows, self.control = example, num_rows, control
        size = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(example))
        self.capacity = max(1, min(LONGEST_CHUNK, 2 ** ((CHUNK_BYTES // max(size, 1)).bit_length() - 1)))

    def go_on(self, iteration: int) -> None:  # noqa: B027
        """Called when a stored run resumes at an iteration; raises ValueError if its batches are not available."""

    @abstractmethod
    def fetch(self, first: int, count: int) -> tuple[PyTree, int]:
        """`count` batches from index `first` on, stacked in arrays of length `capacity`, and the number found."""

    def start(self) -> Batch:
        """The batch of index 0, where chains start."""
        return Batch(jax.tree.map(jnp.asarray, self.example), jnp.asarray(self.num_rows, float), self.control)

    def chunk(self, iteration: int, length: int) -> tuple[Batches, int]:
        """The batches of `length` iterations from `iteration` on, and their number: fewer if an iterator ends."""
        rows, found = self.fetch(iteration + 1, length)
        return Batches(jax.tree.map(jnp.asarray, rows), jnp.asarray(self.num_rows, float), self.control), found

    def room(self) -> PyTree:
        """Zero arrays for `capacity` batches."""
        return jax.tree.map(lambda leaf: np.zeros((self.capacity, *leaf.shape), leaf.dtype), self.example)


class RowFeed(AbstractFeed):
    """Random rows of arrays, without replacement within a batch; memory-mapped arrays are read row by row.

    Batch t is a function of seed and t alone (a Philox stream keyed by both), so that neither chunk length nor
    resumption changes it. The data are never copied as a whole.
    """

    def __init__(self, rows: PyTree, batch_size: int, num_rows: int, seed: int, control: Control | None = None):
        self.rows, self.batch_size, self.seed = rows, batch_size, seed
        example = jax.tree.map(lambda leaf: _at(leaf, self.choice(0, num_rows)), rows)
        super().__init__(example, num_rows, control)

    def choice(self, index: int, num_rows: int) -> np.ndarray:
        """The indices of the rows of a batch, in increasing order, for faster reading from files."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, index]))
        return np.sort(generator.choice(num_rows, self.batch_size, replace=False, shuffle=False))

    def fetch(self, first, count):
        filled = self.room()
        if count:
            chosen = np.stack([self.choice(t, self.num_rows) for t in range(first, first + count)])
            for leaf, into in zip(jax.tree.leaves(self.rows), jax.tree.leaves(filled), strict=True):
                into[:count] = _at(leaf, chosen)
        return filled, count


class IteratorFeed(AbstractFeed):
    """The user's batches in the order of the iterator; the run ends when the iterator does."""

    def __init__(self, batches: Iterator[PyTree], num_rows: int, control: Control | None = None):
        self.batches = batches
        try:
            example = jax.tree.map(np.asarray, next(batches))
        except StopIteration:
            raise ValueError("rows: the iterator of batches is empty") from None
        super().__init__(example, num_rows, control)

    def go_on(self, iteration):
        if iteration:
            raise ValueError(
                f"rows: an iterator of batches cannot go on at iteration {iteration}, because what it gave before is "
                "gone; pass arrays or memory-mapped files, whose batches are functions of seed and iteration"
            )

    def fetch(self, first, count):
        filled, expected = self.room(), _shapes(self.example)
        for i in range(count):
            try:
                batch = next(self.batches)
            except StopIteration:
                return filled, i
            if _shapes(batch) != expected:
                raise ValueError(
                    f"rows: batch {first + i} of the iterator has the shapes {_shapes(batch)}, the first had "
                    f"{expected}; all batches must be of one shape: drop the rows that are left over"
                )
            for leaf, into in zip(jax.tree.leaves(batch), jax.tree.leaves(filled), strict=True):
                into[i] = leaf
        return filled, count


def _at(leaf: Any, chosen: np.ndarray) -> np.ndarray:
    """Copies of some rows, as a plain array whatever the leaf's class."""
    return np.asarray(leaf[chosen])


def _shapes(batch: PyTree) -> PyTree:
    return jax.tree.map(np.shape, batch)
