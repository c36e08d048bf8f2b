"""What several recipes build alike: the leaves of a sampler, its first factor, its adaptation."""

import math
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations import Optimiser, RMSprop, SpeedMeasure
from gadabout.checks import check_positive, check_probability
from gadabout.factors import AbstractFactor, Diagonal, Scaled, isotropic

FactorKind = Literal["dense", "diagonal"]


def probability(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it lies strictly between 0 and 1; raises TypeError or ValueError."""
    return jnp.asarray(check_probability(argument, value, "typical values are 0.25 to 0.8"), dtype=float)


def positive(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it is a finite positive number; raises TypeError or ValueError."""
    return jnp.asarray(check_positive(argument, value), dtype=float)


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


def speed_measure(
    optimiser: Optimiser | None, learning_rate: float, target_acceptance: float, beta_rate: float
) -> SpeedMeasure:
    """Algorithm 1's adaptation with the paper's RMSprop, or with an optimiser in its place."""
    return SpeedMeasure(
        RMSprop(positive("learning_rate", learning_rate)) if optimiser is None else optimiser,
        probability("target_acceptance", target_acceptance),
        positive("beta_rate", beta_rate),
    )
