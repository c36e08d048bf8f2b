"""Construction of factors from the name of their kind."""

from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp

from gadabout.factors.base import AbstractFactor
from gadabout.factors.cholesky import Cholesky
from gadabout.factors.diagonal import Diagonal
from gadabout.factors.low_rank import LowRank

FactorKind = Literal["dense", "diagonal"]
FactorChoice = Literal["auto", "dense", "diagonal"]


MANY = 300
"""number of coordinates above which correlations are learned only if the user requests it"""

COLUMNS = 5
"""number of columns of a low-rank factor"""


def kind_for(choice: FactorChoice, n: int, known: AbstractFactor | None = None) -> FactorKind:
    """The kind of factor for n coordinates; "auto" is "dense" up to 300, or if the known factor is a `Cholesky`."""
    if choice != "auto":
        return choice
    return "dense" if n <= MANY or isinstance(known, Cholesky) else "diagonal"


def isotropic(n: int, scale: Any, kind: FactorKind = "diagonal") -> Cholesky | Diagonal:
    """L = scale · I of size n, as a "dense" (`Cholesky`) or "diagonal" (`Diagonal`) factor."""
    return Cholesky(scale * jnp.eye(n)) if kind == "dense" else Diagonal(scale * jnp.ones(n))


def of_kind(kind: FactorKind, factor: AbstractFactor) -> Cholesky | Diagonal:
    """A factor of another kind with the same standard deviations and, if "dense", the same correlations."""
    if kind == "diagonal":
        return Diagonal(factor.deviations())
    L = factor.dense()
    return isotropic(factor.dim, 1.0, "dense").fitted(L @ L.T)


def low_rank(n: int, scale: Any, known: AbstractFactor | None = None) -> LowRank:
    """L = scale · I of size n, or scale times a known factor, as a `LowRank` factor of at most five columns.

    U of scale · I is random, because V is zero and would have no gradient if U were zero too. A known factor with
    correlations is fitted from its dense covariance, once, in O(n³).
    """
    columns = min(COLUMNS, n)
    left = jax.random.normal(jax.random.key(0), (n, columns)) / n**0.5
    factor = LowRank(jnp.ones(n) if known is None else known.deviations(), left, jnp.zeros_like(left))
    if known is not None and not isinstance(known, Diagonal):
        L = known.dense()
        factor = factor.fitted(L @ L.T)
    return LowRank(scale * factor.scale, factor.left, factor.right)


def marginal(factor: AbstractFactor, indices: Sequence[int]) -> Cholesky | Diagonal:
    """A factor of the marginal covariance of some coordinates of N(0, L Lᵀ), in the order of the indices."""
    at = jnp.asarray(indices)
    if isinstance(factor, Diagonal):
        return Diagonal(factor.scale[at])
    rows = factor.dense()[at]
    return isotropic(len(at), 1.0, "dense").fitted(rows @ rows.T)
