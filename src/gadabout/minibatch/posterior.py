"""A posterior whose gradients are estimated from batches of rows, as the user defines it."""

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from gadabout.checks import check_array, check_function, check_positive, check_whole
from gadabout.executables import edition, traced_as
from gadabout.minibatch.density import Batch, Batches, Control, EstimatedDensity, num_rows_of
from gadabout.minibatch.feed import AbstractFeed, IteratorFeed, RowFeed
from gadabout.model import AbstractModel
from gadabout.precision import whole_products
from gadabout.target import Target

BLOCK = 4_096
"""number of rows sent to the device at once in a pass over all rows"""


class Minibatches(AbstractModel):
    """A posterior with separate prior and likelihood, so that batches of rows can represent all of them.

    Pass it to `sample` in place of the log density, with a sampler that takes estimated gradients, such as `psgld`.
    Each iteration has its own batch, shared by all chains. Chains are independent given the batches, so the variation
    between chains understates the noise of the gradients (of higher order in the step size).

    Args:
        log_prior: log p(θ) of a position, a scalar, in JAX.
        log_likelihood: log p(y_i | θ) of (position, rows): one number for each of the rows, in JAX.
        rows: a pytree of arrays whose leading axis counts rows; of memory-mapped files (`numpy.memmap`) only the rows
            of the batches are read. Or an iterator of batches of one shape, which the user must draw at random; one run
            uses it up.
        batch_size: rows of a batch, drawn without replacement; by default 100, or all if fewer. Not for an iterator.
        num_rows: N, the total number of rows; for an iterator only.

    Raises:
        ValueError, TypeError: for an argument out of range or of the wrong shape.
    """

    def __init__(
        self,
        log_prior: Callable[[Any], Any],
        log_likelihood: Callable[[Any, Any], Any],
        rows: PyTree | Iterator[PyTree],
        *,
        batch_size: int | None = None,
        num_rows: int | None = None,
    ):
        check_function("log_prior", log_prior)
        check_function("log_likelihood", log_likelihood)
        self.dims, self.coords, self.observed = {}, {}, {}
        self.density = EstimatedDensity(log_prior, log_likelihood)
        self.control: Control | None = None
        self.comes_in_batches = isinstance(rows, Iterator)
        if self.comes_in_batches:
            if num_rows is None or batch_size is not None:
                raise ValueError("an iterator of batches needs num_rows, their total number, and takes no batch_size")
            self.rows, self.num_rows, self.batch_size = rows, check_whole("num_rows", num_rows), None
            return
        if num_rows is not None:
            raise ValueError(f"num_rows is for an iterator of batches only, got {num_rows} beside arrays; leave it out")
        self.rows, self.num_rows = _checked(rows)
        batch_size = min(100, self.num_rows) if batch_size is None else batch_size
        self.batch_size = check_whole("batch_size", batch_size, 1, self.num_rows)

    def log_density(self, position: PyTree, rows: PyTree) -> Float[Array, ""]:
        """log π of a position given `rows`, for exact samplers: `sample(p.log_density, init, data=rows)`."""
        return self.density.prior(position) + self.density.likelihood(position, rows)

    def with_control(self, position: PyTree) -> Self:
        r"""The same posterior with the control variate $\hat g = g(\theta_*) + \frac{N}{|B|}\sum_B(g_i(\theta) -
        g_i(\theta_*))$ at θ* = `position`, best near the mode (see `mode`).

        Makes one pass over all rows, some thousands at a time. Every estimate then costs a second pass over its batch.

        Raises ValueError for an iterator of batches, which allows no pass over all rows.
        """
        if self.comes_in_batches:
            raise ValueError("a control variate needs the gradient of all rows, which an iterator of batches hides")
        position = _as_position("position", position)
        total, now = None, None
        for start in range(0, self.num_rows, BLOCK):
            chosen = np.arange(start, start + min(BLOCK, self.num_rows))
            inside = chosen < self.num_rows
            block = jax.tree.map(lambda leaf: np.asarray(leaf[np.where(inside, chosen, 0)]), self.rows)  # noqa: B023
            now = now or edition(_value_and_gradient, self.density, position, block)
            part = _likelihood(self.density, now, position, block, jnp.asarray(inside, dtype=float))
            part = jax.tree.map(lambda sums: np.asarray(sums, np.float64), part)
            total = part if total is None else jax.tree.map(np.add, total, part)
        total = jax.tree.map(lambda sums: jnp.asarray(sums, dtype=float), total)
        controlled = copy(self)
        controlled.control = Control(position, *total)
        return controlled

    def mode(self, init: PyTree, *, num_iterations: int = 5_000, learning_rate: float = 0.01, seed: int = 0) -> PyTree:
        """A position near the mode: `num_iterations` steps of Adam (Kingma & Ba 2015) on batches.

        The learning rate falls linearly from `learning_rate` to zero; β₁ = 0.9, β₂ = 0.999. `init` is one position.
        """
        num_iterations = check_whole("num_iterations", num_iterations)
        check_positive("learning_rate", learning_rate)
        position = _as_position("init", init)
        check_whole("seed", seed, 0, 2**32 - 1)
        zeros = jax.tree.map(jnp.zeros_like, position)
        feed, state, t, now = self.feed(seed), (position, zeros, zeros), 0, None
        while t < num_iterations:
            batches, found = feed.chunk(t, min(feed.capacity, num_iterations - t))
            if not found:
                break
            settings = jnp.asarray([t, found, num_iterations, learning_rate], dtype=float)
            now = now or edition(jax.value_and_grad(self.density), position, batches.during(0))
            state, t = _ascend(self.density, now, state, batches, settings), t + found
        return state[0]

    @property
    def target(self) -> Target:
        return Target(self.density, None, self.layout, jnp.asarray(self.num_rows, float))

    def check(self, plan):
        if plan.on_host or not all(sampler.takes_noisy_gradients for sampler in plan.samplers):
            raise ValueError(
                f"sampler: {plan.name} compares log densities of all rows, which batches do not give; use psgld, sgld, "
                "sghmc or sgnht, or pass the posterior's `log_density` with data=rows"
            )

    def account(self, feed):
        rows = num_rows_of(feed.example)
        kind = "with control variates" if self.control is not None else "without control variates"
        estimated = f"gradients are estimated from {rows} of {self.num_rows} rows, {kind}"
        return {"estimated": estimated, "num_rows": self.num_rows, "batch_size": rows}

    def feed(self, seed: int) -> AbstractFeed:
        """The source of a run's batches."""
        if self.batch_size is None:
            return IteratorFeed(self.rows, self.num_rows, self.control)
        return RowFeed(self.rows, self.batch_size, self.num_rows, seed, self.control)


def _as_position(argument: str, position: PyTree) -> PyTree:
    """A position as arrays of floating-point numbers."""
    wanted = "a position, a pytree of arrays"
    return jax.tree.map(lambda leaf: jnp.asarray(check_array(argument, leaf, wanted), dtype=float), position)


def _checked(rows: PyTree) -> tuple[PyTree, int]:
    """The rows as NumPy arrays, memory-mapped ones as they are, and their number."""
    rows = jax.tree.map(lambda leaf: leaf if isinstance(leaf, np.memmap) else np.asarray(leaf), rows)
    for path, leaf in jax.tree_util.tree_leaves_with_path(rows):
        if leaf.dtype.kind not in "biufc" and not jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise TypeError(f"rows{jax.tree_util.keystr(path)} has the type {leaf.dtype}; pass arrays of numbers")
    shapes = [leaf.shape for leaf in jax.tree.leaves(rows)]
    if not shapes or any(not shape or shape[0] != shapes[0][0] for shape in shapes) or not shapes[0][0]:
        raise ValueError(f"rows must be arrays that share a leading axis of rows, got {shapes or None}")
    for path, leaf in jax.tree_util.tree_leaves_with_path(rows):
        real = np.issubdtype(leaf.dtype, np.inexact) and not isinstance(leaf, np.memmap)
        if real and not np.isfinite(leaf).all():
            raise ValueError(
                f"rows{jax.tree_util.keystr(path)} holds {(~np.isfinite(leaf)).sum()} values that are NaN or "
                "infinite; remove or impute them"
            )
    return rows, num_rows_of(rows)


@eqx.filter_jit
@whole_products()
def _likelihood(estimate: EstimatedDensity, now: int, position: PyTree, rows: PyTree, weights: Array) -> Any:
    with traced_as(now):
        return _value_and_gradient(estimate, position, rows, weights)


def _value_and_gradient(estimate: EstimatedDensity, position: PyTree, rows: PyTree, weights: Any = 1.0) -> Any:
    return jax.value_and_grad(lambda position: estimate.likelihood(position, rows, weights))(position)


@eqx.filter_jit
@whole_products()
def _ascend(estimate: EstimatedDensity, now: int, state: tuple, batches: Batches, settings: Array) -> tuple:
    """Adam on one chunk of batches; `settings` are iterations before, iterations of the chunk, total, and rate.

    `now` is the edition of the estimate.
    """
    before, count, total, rate = settings

    def step(i, state):
        position, m, s = state
        batch: Batch = batches.during(i)
        with traced_as(now):
            gradient = jax.grad(estimate)(position, batch)
        t = before + i + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        s = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g**2, s, gradient)
        size = rate * (1 - (t - 1) / total) / (1 - 0.9**t)
        move = lambda x, m, s: x + size * m / (jnp.sqrt(s / (1 - 0.999**t)) + 1e-8)
        return jax.tree.map(move, position, m, s), m, s

    return jax.lax.fori_loop(0, count.astype(int), step, state)
