"""Base class of factors: a square matrix L, defined by its products."""

from abc import abstractmethod
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from gadabout.checks import shown


class AbstractFactor(eqx.Module):
    """A square matrix L of size n, defined by its products; its array leaves are the learned parameters.

    Every factor defines the abstract methods. The others follow from these by default; a factor may override them.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """The size n."""

    @abstractmethod
    def mul(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        """L v."""

    @abstractmethod
    def tmul(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        """Lᵀ v."""

    @abstractmethod
    def solve(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        """L⁻¹ v."""

    @abstractmethod
    def log_det(self) -> Float[Array, ""]:
        """log |det L|."""

    def outer(self, u: Float[Array, " n"], v: Float[Array, " n"]) -> Self:
        """The gradient of uᵀ L v with respect to the parameters, as a factor of the same kind.

        Leaves may be `LowerOuter`, which keeps u and v separate until chains are pooled.
        """
        return eqx.filter_grad(lambda factor: u @ factor.mul(v))(self)

    def floor(self, lowest: Float[Array, ""], relative: bool = False) -> Self:
        """The factor with its scales at or above `lowest`, or `lowest` times `units()` if `relative`.

        Returns the factor itself if scales are not separate parameters.
        """
        return self

    def units(self) -> Self:
        """The unit in which each parameter is learned, as a factor of the same kind; a change by one unit is large.

        Leaves broadcast against the parameters; one that multiplies a `LowerOuter` has the shape (n, 1) or (). If units
        scale with the coordinates of x, learning is independent of the units of x. The default 1 suits logarithms.
        """
        return jax.tree.map(lambda leaf: jnp.ones((), leaf.dtype), eqx.filter(self, eqx.is_inexact_array))

    def growth(self) -> Self:
        """The direction in parameters along which L grows as a whole; by default the parameters themselves."""
        return self

    def scales(self) -> Float[Array, " scales"]:
        """Numbers that are all above 0 if the factor has an inverse; by default |det L|^(1/n)."""
        return jnp.exp(self.log_det() / self.dim)[None]

    def dense(self) -> Float[Array, "n n"]:
        """The matrix L."""
        return jax.vmap(self.mul, out_axes=1)(jnp.eye(self.dim, dtype=self.log_det().dtype))

    def deviations(self) -> Float[Array, " n"]:
        """The standard deviations of N(0, L Lᵀ)."""
        return jnp.sqrt(jnp.sum(self.dense() ** 2, -1))

    def covariance_shape(self) -> tuple[int, ...]:
        """The shape of the covariance that `fitted` takes: (n, n), or (n,) if the factor holds only variances."""
        return self.dim, self.dim

    @abstractmethod
    def fitted(self, covariance: Float[Array, "n *n"]) -> Self:
        """A factor of this kind with L Lᵀ ≈ covariance; the factor itself if rounding leaves no root."""


def check_leaf(name: str, value: Any, wanted: str, fewest: int, square: bool = False) -> None:
    """Raises TypeError or ValueError unless a factor's leaf is an array of floating-point numbers of the right shape.

    Leading axes are free, for stacked factors. The last axis of a square leaf may be 1, for units.
    """
    if isinstance(value, LowerOuter):
        return
    if not (hasattr(value, "ndim") and jnp.issubdtype(getattr(value, "dtype", object), jnp.floating)):
        got = shown(value) + (f" of type {value.dtype}" if hasattr(value, "dtype") else "")
        raise TypeError(f"{name} must be an array of floating-point numbers of shape {wanted}, got {got}")
    shape = tuple(value.shape)
    if len(shape) < fewest or (square and shape[-1] not in (1, shape[-2])):
        raise ValueError(f"{name} must have the shape {wanted}, got {shape}")


def check_factor(value: Any) -> None:
    """Raises TypeError unless the value is a factor."""
    if not isinstance(value, AbstractFactor):
        remedy = "such as gadabout.factors.Diagonal(scale) or Cholesky(matrix)"
        raise TypeError(f"factor must be a factor, {remedy}, got {shown(value)}")


def as_unit(size: Array) -> Array:
    """A size as a unit, bounded below so that its square does not underflow."""
    return jnp.maximum(size, jnp.sqrt(jnp.finfo(size.dtype).tiny))


def row_norms(matrix: Float[Array, "n n"]) -> Float[Array, "n 1"]:
    """The norm of each row of L: the standard deviation of its coordinate under L Lᵀ."""
    return as_unit(jnp.linalg.norm(matrix, axis=1, keepdims=True))


def safe_norm(x: Float[Array, "..."]) -> Float[Array, ""]:
    """The Euclidean norm of all entries, computed without overflow of their squares."""
    top = jnp.max(jnp.abs(x))
    return top * jnp.sqrt(jnp.sum((x / jnp.where(top > 0, top, 1)) ** 2))


class LowerOuter(eqx.Module):
    """The lower triangle of u vᵀ, not yet multiplied out."""

    u: Float[Array, "*chains n"]
    v: Float[Array, "*chains n"]

    def __mul__(self, unit: Float[Array, "*n 1"]) -> "LowerOuter":
        """The product with each row multiplied by its unit."""
        return LowerOuter(self.u * (unit[:, 0] if unit.ndim else unit), self.v)

    def clipped(self, largest: Float[Array, ""]) -> "LowerOuter":
        """u vᵀ scaled down to a norm of at most `largest`; correct even if u vᵀ itself would overflow."""
        u, v, norms = self.u, self.v, (safe_norm(self.u), safe_norm(self.v))
        beyond = norms[0] * norms[1] > largest
        return LowerOuter(jnp.where(beyond, u / norms[0] * largest, u), jnp.where(beyond, v / norms[1], v))

    def sum(self) -> Float[Array, "n n"]:
        """Σ_c u_c v_cᵀ over the leading chain axis, lower triangle: one product, not one matrix per chain."""
        u, v = jax.lax.optimization_barrier((self.u, self.v))  # otherwise XLA redraws v's normals per entry
        return jnp.tril(jnp.einsum("ci,cj->ij", u, v))


def pooled_sum(gradient: PyTree) -> PyTree:
    """Sums a gradient over its leading chain axis, multiplying `LowerOuter` leaves out."""
    is_outer = lambda leaf: isinstance(leaf, LowerOuter)
    return jax.tree.map(lambda g: g.sum() if is_outer(g) else jnp.sum(g, 0), gradient, is_leaf=is_outer)


def multiplied_out(gradient: PyTree) -> PyTree:
    """One chain's gradient, with its `LowerOuter` leaves multiplied out."""
    return pooled_sum(jax.tree.map(lambda leaf: leaf[None], gradient))
