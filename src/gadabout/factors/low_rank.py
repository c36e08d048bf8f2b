"""Low-rank factors: scales, and correlations along a few directions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.factors.base import AbstractFactor, as_unit, check_leaf


class LowRank(AbstractFactor):
    r"""$L = \mathrm{diag}(s)\,(I + UV^\top)$, U and V of shape (n, r) with r fixed: all products cost O(n).

    With orthonormal U and $V = U\,\mathrm{diag}(\sqrt{\lambda_i} - 1)$ it is the factor of a covariance whose
    correlation matrix has r eigenvalues $\lambda_i$ other than 1; unused columns are zero. The inverse is
    Woodbury's, $(I + UV^\top)^{-1} = I - U(I_r + V^\top U)^{-1}V^\top$, and $|I + UV^\top| = |I_r + V^\top U|$.
    """

    scale: Float[Array, " n"]
    left: Float[Array, "n r"]
    right: Float[Array, "n r"]

    def __check_init__(self):
        check_leaf("scale", self.scale, "(n,)", 1)
        n = self.scale.shape[-1]
        for name, value in (("left", self.left), ("right", self.right)):
            check_leaf(name, value, f"({n}, r)", 0)
            if value.ndim and value.shape[-2:] != (n, *self.right.shape[-1:]):  # units have no axis
                raise ValueError(f"{name} must have the shape ({n}, r), with the r of both, got {tuple(value.shape)}")

    @property
    def dim(self):
        return self.scale.shape[-1]

    def mul(self, v):
        return self.scale * (v + self.left @ (v @ self.right))

    def tmul(self, v):
        w = self.scale * v
        return w + self.right @ (w @ self.left)

    def solve(self, v):
        w = v / self.scale
        return w - self.left @ jnp.linalg.solve(self._small(), w @ self.right)

    def log_det(self):
        return jnp.sum(jnp.log(self.scale)) + jnp.linalg.slogdet(self._small())[1]

    def floor(self, lowest, relative=False):
        lowest = lowest * self.units().scale if relative else lowest
        return LowRank(jnp.maximum(self.scale, lowest), self.left, self.right)

    def units(self):
        """Each scale itself, and 1 for U and V."""
        one = jnp.ones((), self.scale.dtype)
        return LowRank(as_unit(jnp.abs(self.scale)), one, one)

    def growth(self):
        """The scales themselves, and zero for U and V."""
        return LowRank(self.scale, jnp.zeros_like(self.left), jnp.zeros_like(self.right))

    def scales(self):
        return jnp.append(self.scale, jnp.abs(jnp.linalg.det(self._small())))

    def fitted(self, covariance):
        s = jnp.sqrt(jnp.diagonal(covariance))
        values, vectors = jnp.linalg.eigh(covariance / jnp.outer(s, s))
        strongest = jnp.argsort(-jnp.abs(jnp.log(jnp.maximum(values, 1e-12))))[: self.left.shape[-1]]
        U, lam = vectors[:, strongest], jnp.maximum(values[strongest], 1e-12)
        fitted = LowRank(s, U, U * (jnp.sqrt(lam) - 1))
        sound = jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(fitted)]).all() & (s > 0).all()
        return jax.tree.map(lambda new, old: jnp.where(sound, new, old), fitted, self)

    def _small(self) -> Float[Array, "r r"]:
        return jnp.eye(self.left.shape[-1], dtype=self.scale.dtype) + self.right.T @ self.left
