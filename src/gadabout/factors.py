"""Factors L of a covariance Σ = L Lᵀ: the one way in which proposals hold scales and correlations."""

from abc import abstractmethod
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree


class AbstractFactor(eqx.Module):
    """A square matrix L of size n, known by its products; its array leaves are the parameters that are learned."""

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

    @abstractmethod
    def outer(self, u: Float[Array, " n"], v: Float[Array, " n"]) -> Self:
        """The gradient of uᵀ L v with respect to the parameters, as a factor of the same kind.

        Leaves may be `LowerOuter`, which keeps u and v apart until chains are pooled.
        """

    @abstractmethod
    def floor(self, lowest: Float[Array, ""]) -> Self:
        """The factor with its diagonal kept at or above `lowest`."""


class LowerOuter(eqx.Module):
    """The lower triangle of u vᵀ, not yet multiplied out."""

    u: Float[Array, "*chains n"]
    v: Float[Array, "*chains n"]

    def sum(self) -> Float[Array, "n n"]:
        """Σ_c u_c v_cᵀ over the leading chain axis, lower triangle: one product, not one matrix per chain."""
        u, v = jax.lax.optimization_barrier((self.u, self.v))  # or XLA recomputes v's normals in every entry
        return jnp.tril(jnp.einsum("ci,cj->ij", u, v))


def pooled_sum(gradient: PyTree) -> PyTree:
    """Sums a gradient over its leading chain axis, multiplying `LowerOuter` leaves out."""
    is_outer = lambda leaf: isinstance(leaf, LowerOuter)
    return jax.tree.map(lambda g: g.sum() if is_outer(g) else jnp.sum(g, 0), gradient, is_leaf=is_outer)


class Diagonal(AbstractFactor):
    """L = diag(scale), with scale of shape (n,): standard deviations without correlations."""

    scale: Float[Array, " n"]

    @property
    def dim(self):
        return self.scale.shape[-1]

    def mul(self, v):
        return self.scale * v

    def tmul(self, v):
        return self.scale * v

    def solve(self, v):
        return v / self.scale

    def log_det(self):
        return jnp.sum(jnp.log(self.scale))

    def outer(self, u, v):
        return Diagonal(u * v)

    def floor(self, lowest):
        return Diagonal(jnp.maximum(self.scale, lowest))


class Cholesky(AbstractFactor):
    """L lower triangular, stored as an (n, n) matrix whose upper triangle is zero and stays so.

    The derivatives of its products with respect to `matrix` are lower triangular: only they pay for the mask.
    """

    matrix: Float[Array, "n n"]

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

    def floor(self, lowest):
        on_diagonal = jnp.eye(self.dim, dtype=bool)
        return Cholesky(jnp.where(on_diagonal, jnp.maximum(self.matrix, lowest), self.matrix))


class SquareRoot(AbstractFactor):
    """Any square matrix R, not triangular: a root of Σ = R Rᵀ. `solve` and `log_det` cost O(n³)."""

    matrix: Float[Array, "n n"]

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

    def outer(self, u, v):
        return SquareRoot(jnp.outer(u, v))

    def floor(self, lowest):
        """The factor itself: the diagonal of such a root has no meaning of its own."""
        return self


class Scaled(AbstractFactor):
    """√variance · L for another factor L: one number that scales all directions alike."""

    variance: Float[Array, ""]
    base: AbstractFactor

    @property
    def dim(self):
        return self.base.dim

    def mul(self, v):
        return jnp.sqrt(self.variance) * self.base.mul(v)

    def tmul(self, v):
        return jnp.sqrt(self.variance) * self.base.tmul(v)

    def solve(self, v):
        return self.base.solve(v) / jnp.sqrt(self.variance)

    def log_det(self):
        return self.base.log_det() + 0.5 * self.dim * jnp.log(self.variance)

    def outer(self, u, v):
        root = jnp.sqrt(self.variance)
        return Scaled(0.5 / root * (u @ self.base.mul(v)), self.base.outer(root * u, v))

    def floor(self, lowest):
        return Scaled(self.variance, self.base.floor(lowest))


def isotropic(n: int, scale: Float[Array, ""], kind: str = "diagonal") -> AbstractFactor:
    """L = scale · I of size n, as a "dense" (`Cholesky`) or "diagonal" (`Diagonal`) factor."""
    return Cholesky(scale * jnp.eye(n)) if kind == "dense" else Diagonal(scale * jnp.ones(n))


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
