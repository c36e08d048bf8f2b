"""Square roots that are not triangular."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors.base import AbstractFactor, check_leaf, row_norms


class SquareRoot(AbstractFactor):
    """Any square matrix R, not triangular: a root of Σ = R Rᵀ. `solve` and `log_det` cost O(n³)."""

    matrix: Float[Array, "n n"]

    def __check_init__(self):
        check_leaf("matrix", self.matrix, "(n, n)", 2, square=True)

    @property
    def dim(self):
        return self.matrix.shape[-1]

    def mul(self, v):
        return self.matrix @ v

    def tmul(self, v):
        return v @ self.matrix

    def solve(self, v):
        return jnp.linalg.solve(self.matrix, v)

    def log_det(self):
        return jnp.linalg.slogdet(self.matrix)[1]

    def units(self):
        """The norm of each row."""
        return SquareRoot(row_norms(self.matrix))

    def dense(self):
        return self.matrix

    def fitted(self, covariance):
        L = jnp.linalg.cholesky(covariance)
        return SquareRoot(jnp.where(jnp.isfinite(L).all(), L, self.matrix))
