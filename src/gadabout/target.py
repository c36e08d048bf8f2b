"""The target distribution: the only place that calls the user's log density."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree


class LogDensityError(ValueError):
    """The user's log density returns what no sampler can use; the message says what, and the remedy."""


class Point(eqx.Module):
    """Where a chain stands: position, log density, gradient, and what the proposal keeps of them.

    `grad` is None where the kernel needs no gradient, and only there. `cache` belongs to the proposal (Langevin keeps
    Lᵀ grad there, so that a sampling iteration costs two O(n²) products instead of three) and is renewed whenever θ
    changes.
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
    """A log density log π(x), known up to a constant, of a flat position x of shape (n,).

    `logdensity` is a function of the position, or of (position, data) where `data` is not None. Data are an argument
    and never a closure, so that other data of the same shape compile nothing anew.
    """

    logdensity: Callable[..., Any]
    data: PyTree = None

    def log_density(self, x: Float[Array, " n"]) -> Float[Array, ""]:
        """log π(x), a scalar; raises LogDensityError while tracing where the user's function returns anything else."""
        value = self.logdensity(x) if self.data is None else self.logdensity(x, self.data)
        if jnp.shape(value) != ():
            raise LogDensityError(
                f"logdensity must return a scalar, got an array of shape {jnp.shape(value)}; "
                "sum the terms of the log density before returning it"
            )
        return jnp.asarray(value).astype(x.dtype)

    def unravel(self, x: Float[Array, " n"]) -> PyTree:
        """The user's position that x stands for: x itself, unless `logdensity` carries a layout of its arguments."""
        layout = getattr(self.logdensity, "layout", None)
        return x if layout is None else layout.unravel(x)

    def ravel(self, position: PyTree) -> Float[Array, " n"]:
        """The flat position x of a user's position: the inverse of `unravel`."""
        layout = getattr(self.logdensity, "layout", None)
        return position if layout is None else layout.ravel(position)

    def during(self, i: Int[Array, ""] | int) -> "Target":
        """The target of iteration i of a chunk: itself, unless its data hold a batch for each iteration (`Batches`)."""
        pick = getattr(self.data, "during", None)
        return self if pick is None else Target(self.logdensity, pick(i))

    @property
    def num_rows(self) -> Any:
        """Rows whose log likelihoods the log density sums, where they come in batches; else 1."""
        return getattr(self.data, "num_rows", 1)

    def at(self, x: Float[Array, " n"], order: int = 0) -> Point:
        """The point at x, with as many derivatives of log π as `order` asks for.

        - 0: the log density alone; whoever differentiates it pays for the gradient then.
        - 1: value and gradient in one pass. The gradient is a constant to anyone who differentiates the point, and the
          value's derivative is that same gradient: no second pass over the data.
        - 2: the same, but the derivative goes through the gradient too: one Hessian-vector product, never a Hessian.
        """
        if order == 0:
            return Point(x, self.log_density(x))
        logp, grad = jax.value_and_grad(self.log_density)(x if order == 2 else jax.lax.stop_gradient(x))
        return Point(x, _known_gradient(x, *jax.lax.stop_gradient((logp, grad))), grad)


@jax.custom_jvp
def _known_gradient(x, logp, grad):
    """log π(x), whose derivative with respect to x is the gradient already at hand."""
    return logp


@_known_gradient.defjvp
def _(primals, tangents):
    _, logp, grad = primals
    return logp, grad @ tangents[0]
