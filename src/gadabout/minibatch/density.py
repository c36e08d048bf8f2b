r"""Log densities estimated from a batch of rows, on the device; the host delivers the data in chunks."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from gadabout.calls import called
from gadabout.checks import shown
from gadabout.target import LogDensityError, check_scalar


class Control(eqx.Module):
    """A control variate: the likelihood of all rows at one position θ*, and its gradient there."""

    position: PyTree
    value: Float[Array, ""]
    gradient: PyTree


class Batch(eqx.Module):
    """Some of `num_rows` rows, along the leading axis of every leaf, and the control variate if there is one."""

    rows: PyTree
    num_rows: Float[Array, ""]
    control: Control | None = None


class Batches(eqx.Module):
    """The batches of a chunk, stacked along a leading axis of iterations."""

    rows: PyTree
    num_rows: Float[Array, ""]
    control: Control | None = None

    def during(self, i: Int[Array, ""] | int) -> Batch:
        """The batch of iteration i of the chunk."""
        return Batch(jax.tree.map(lambda rows: rows[i], self.rows), self.num_rows, self.control)


class EstimatedDensity(eqx.Module):
    r"""An unbiased estimate of log π from a batch B of N rows; its gradient estimates ∇ log π.

    $$\log p(\theta) + \frac{N}{|B|}\sum_{i\in B}\log p(y_i|\theta),$$

    or, with a control variate at θ* (Baker et al. 2019, equation 5; here without the prior, which then adds no noise)

    $$\log p(\theta) + \ell(\theta_*) + (\theta - \theta_*)^\top\nabla\ell(\theta_*)
    + \frac{N}{|B|}\sum_{i\in B}\left[\ell_i(\theta) - \ell_i(\theta_*)
    - (\theta - \theta_*)^\top\nabla\ell_i(\theta_*)\right],$$

    whose gradient is $\nabla\log p(\theta) + \nabla\ell(\theta_*)
    + \frac{N}{|B|}\sum_B(\nabla\ell_i(\theta) - \nabla\ell_i(\theta_*))$. It costs two passes over the batch, and its
    noise vanishes as θ approaches θ*.
    """

    log_prior: Callable[[Any], Any]
    log_likelihood: Callable[[Any, Any], Any]

    def __call__(self, position: PyTree, batch: Batch) -> Float[Array, ""]:
        scale = batch.num_rows / num_rows_of(batch.rows)
        value = self.likelihood(position, batch.rows)
        if batch.control is None:
            return self.prior(position) + scale * value
        at = jax.lax.stop_gradient(batch.control)
        there, gradient = jax.value_and_grad(self.likelihood)(at.position, batch.rows)
        shift = jax.tree.map(lambda x, y: x - y, position, at.position)
        remainder = value - there - _inner(shift, jax.lax.stop_gradient(gradient))
        return self.prior(position) + at.value + _inner(shift, at.gradient) + scale * remainder

    def prior(self, position: PyTree) -> Float[Array, ""]:
        """log p(θ); raises LogDensityError during tracing if it is not a scalar."""
        value = called("log_prior", "of a position", self.log_prior, position)
        check_scalar("log_prior", value)
        return jnp.asarray(value)

    def likelihood(self, position: PyTree, rows: PyTree, weights: Any = 1.0) -> Float[Array, ""]:
        """Σ w_i log p(y_i | θ) over rows; raises LogDensityError during tracing unless each row has one term."""
        return jnp.sum(weights * by_rows(self.log_likelihood, position, rows))


def by_rows(log_likelihood: Callable[[Any, Any], Any], position: PyTree, rows: PyTree) -> Float[Array, " rows"]:
    """log p(y_i | θ) of each row; raises LogDensityError during tracing if the result has another shape."""
    expected = (num_rows_of(rows),)
    terms = called("log_likelihood", "(position, rows)", log_likelihood, position, rows)
    if not isinstance(terms, jax.Array | np.ndarray | float | int):
        raise LogDensityError(f"log_likelihood must return one number for each row, got {shown(terms)}")
    if jnp.shape(terms) != expected:
        raise LogDensityError(
            f"log_likelihood must return one log likelihood for each row, shape {expected}, got {jnp.shape(terms)}; "
            "do not sum over rows"
        )
    return jnp.asarray(terms)


def num_rows_of(rows: PyTree) -> int:
    """The number of rows: the length of the leading axis of all leaves."""
    return jax.tree.leaves(rows)[0].shape[0]


def _inner(a: PyTree, b: PyTree) -> Float[Array, ""]:
    return sum(jnp.sum(x * y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))  # pyright: ignore
