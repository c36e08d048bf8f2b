"""Factors L of a covariance Σ = L Lᵀ: the only form in which proposals store scales and correlations."""

from gadabout.factors.base import AbstractFactor, LowerOuter, multiplied_out, pooled_sum, safe_norm
from gadabout.factors.cholesky import Cholesky
from gadabout.factors.diagonal import Diagonal
from gadabout.factors.kinds import FactorChoice, FactorKind, isotropic, kind_for, of_kind
from gadabout.factors.low_rank import LowRank
from gadabout.factors.scaled import Scaled
from gadabout.factors.square_root import SquareRoot

__all__ = [
    "AbstractFactor",
    "Cholesky",
    "Diagonal",
    "FactorChoice",
    "FactorKind",
    "LowRank",
    "LowerOuter",
    "Scaled",
    "SquareRoot",
    "isotropic",
    "kind_for",
    "multiplied_out",
    "of_kind",
    "pooled_sum",
    "safe_norm",
]
