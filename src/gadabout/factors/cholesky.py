"""Lower triangular factors."""

from typing import Any, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors.base import AbstractFactor, LowerOuter, check_leaf, row_norms


class Cholesky(AbstractFactor):
    """L lower triangular, stored as an (n, n) matrix whose upper triangle is zero and stays so.

    The derivatives of its products with respect to `matrix` are masked to the lower triangle; the products are not.
    """

    matrix: Float[Array, "n n"]

    def __check_init__(self):
        check_leaf("matrix", self.matrix, "(n, n)", 2, square=True)

    @property
    def dim(self):
        return self.matrix.shape[-1]

    def mul(self, v):
        return _lower_product(self.matrix, v)

    def tmul(self, v):
        return _lower_transposed_product(self.matrix, v)

    def solve(self, v):
        return jax.scipy.linalg.solve_triangular(self.matrix, v, lower=True)

    def log_det(self):
        return _lower_log_det(self.matrix)

    def outer(self, u, v):
        return Cholesky(LowerOuter(u, v))  # pyright: ignore[reportArgumentType]

    def units(self):
        """The norm of each row."""
        return Cholesky(row_norms(self.matrix))

    def floor(self, lowest, relative=False):
        lowest = lowest * self.units().matrix if relative else lowest
        on_diagonal = jnp.eye(self.dim, dtype=bool)
        return Cholesky(jnp.where(on_diagonal, jnp.maximum(self.matrix, lowest), self.matrix))

    def scales(self):
        return jnp.diagonal(self.matrix)

    def dense(self):
        return self.matrix

    def fitted(self, covariance):
        L = jnp.linalg.cholesky(covariance)
        return Cholesky(jnp.where(jnp.isfinite(L).all(), L, self.matrix))

    def mul_outer(self, u: Float[Array, " n"], v: Float[Array, " n"]) -> Self:
        """L [u vᵀ]_lower, O(n²): column j is v_j Σ_{k ≥ j} L_·k u_k, a cumulative sum from the right."""
        matrix = jax.lax.cumsum(self.matrix * u, axis=1, reverse=True) * v
        return Cholesky(jnp.tril(matrix))  # pyright: ignore[reportReturnType]

    def times(self, other: Any) -> Self:
        """The product of two lower triangular factors, O(n³)."""
        return Cholesky(self.matrix @ other.matrix)  # pyright: ignore[reportReturnType]


@jax.custom_jvp
def _lower_product(matrix, v):
    return matrix @ v


@_lower_product.defjvp
def _(primals, tangents):
    (matrix, v), (d_matrix, d_v) = primals, tangents
    return matrix @ v, jnp.tril(d_matrix) @ v + matrix @ d_v


@jax.custom_jvp
def _lower_transposed_product(matrix, v):
    return v @ matrix


@_lower_transposed_product.defjvp
def _(primals, tangents):
    (matrix, v), (d_matrix, d_v) = primals, tangents
    return v @ matrix, v @ jnp.tril(d_matrix) + d_v @ matrix


@jax.custom_jvp
def _lower_log_det(matrix):
    return jnp.sum(jnp.log(jnp.diagonal(matrix)))


@_lower_log_det.defjvp
def _(primals, tangents):
    inverse_diagonal = jnp.diag(1 / jnp.diagonal(primals[0]))  # ∇ log |L| = diag(1 / L_ii)
    return _lower_log_det(*primals), jnp.sum(inverse_diagonal * tangents[0])
