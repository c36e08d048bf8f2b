"""What several recipes check and build alike."""

import math
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations import Optimiser, RMSprop, SpeedMeasure
from gadabout.factors import AbstractFactor, Diagonal, Scaled, isotropic

FactorKind = Literal["dense", "diagonal"]


def one_of(argument: str, value: Any, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices; otherwise a ValueError that lists them."""
    if value not in choices:
        raise ValueError(f"{argument} must be one of {', '.join(map(repr, choices))}, got {value!r}")
    return value


def probability(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it lies strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{argument} must lie strictly between 0 and 1, got {value}; typical values are 0.25 to 0.8")
    return jnp.asarray(value, dtype=float)


def positive(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it is a finite positive number."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{argument} must be a finite number above 0, got {value}")
    return jnp.asarray(value, dtype=float)


def optional_positive(argument: str, value: float | None) -> Float[Array, ""] | None:
    """`positive`, or None where the recipe has a default that depends on n."""
    return None if value is None else positive(argument, value)


def initial_factor(n: int, factor: str, scale: Float[Array, ""] | None) -> AbstractFactor:
    """L = scale · I; the paper starts at scale = 0.1/√n."""
    return isotropic(n, jnp.asarray(0.1 / math.sqrt(n), dtype=float) if scale is None else scale, factor)


def isotropic_start(n: int, variance: Float[Array, ""] | None) -> Scaled:
    """√δ I with δ = `variance`, by default the paper's 0.5/n."""
    return Scaled(jnp.asarray(0.5 / n, dtype=float) if variance is None else variance, Diagonal(jnp.ones(n)))


def proposal_variance(kernel: Any) -> Any:
    """The lens to δ of a proposal whose factor is `Scaled`."""
    return kernel.proposal.factor.variance


def count(argument: str, value: int, lowest: int = 1) -> int:
    """The value, if it is a whole number of at least `lowest`."""
    if not (isinstance(value, int) and not isinstance(value, bool) and value >= lowest):
        raise ValueError(f"{argument} must be a whole number of at least {lowest}, got {value!r}")
    return value


def speed_measure(
    optimiser: Optimiser | None, learning_rate: float, target_acceptance: float, beta_rate: float
) -> SpeedMeasure:
    """Algorithm 1's adaptation with the paper's RMSprop, or with an optimiser in its place."""
    return SpeedMeasure(
        RMSprop(positive("learning_rate", learning_rate)) if optimiser is None else optimiser,
        probability("target_acceptance", target_acceptance),
        positive("beta_rate", beta_rate),
    )
