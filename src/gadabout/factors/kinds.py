"""Factors by the name of their kind."""

from collections.abc import Sequence
from typing import Any, Literal

import jax.numpy as jnp

from gadabout.factors.base import AbstractFactor
from gadabout.factors.cholesky import Cholesky
from gadabout.factors.diagonal import Diagonal

FactorKind = Literal["dense", "diagonal"]
FactorChoice = Literal["auto", "dense", "diagonal"]


MANY = 300
"""coordinates above which correlations are not learned unless they are asked for"""


def kind_for(choice: FactorChoice, n: int, known: AbstractFactor | None = None) -> FactorKind:
    """The kind of factor that is meant for n coordinates: "auto" is "dense" up to 300, and where a known one is."""
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


def marginal(factor: AbstractFactor, indices: Sequence[int]) -> Cholesky | Diagonal:
    """A factor of the covariance that some coordinates of N(0, L Lᵀ) have, in the order of the indices."""
    at = jnp.asarray(indices)
    if isinstance(factor, Diagonal):
        return Diagonal(factor.scale[at])
    rows = factor.dense()[at]
    return isotropic(len(at), 1.0, "dense").fitted(rows @ rows.T)
