"""Parts that recipes share: checked settings of a sampler, its initial factor, its adaptation."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from gadabout.adaptations import (
    AbstractAdaptation,
    ForEver,
    Gain,
    NoAdaptation,
    Optimiser,
    PowerGain,
    RMSprop,
    SpeedMeasure,
)
from gadabout.calls import first_line
from gadabout.checks import (
    check_function,
    check_non_negative,
    check_one_of,
    check_positive,
    check_probability,
    check_truth,
    shown,
)
from gadabout.factors import AbstractFactor, Diagonal, Scaled, isotropic, of_kind
from gadabout.factors.kinds import low_rank
from gadabout.proposals import AbstractDistribution
from gadabout.sampler import Learned, Sampler, known_factor

Form = Literal["hardened", "paper"]
LearnedKind = Literal["dense", "diagonal", "low-rank"]
"""kind of the factor that Algorithm 1 learns"""

PAPER: dict[str, Any] = {"form": "paper"}
"""Algorithm 1 as the paper ran it: L in units of x, no ceiling on β, no clipping, constant rates."""


class Fading:
    """γ_k = (1 + k/2000)^(−0.6): 1 at first, a quarter after the default warm-up of 20,000."""

    powers = (2_000**0.6, 0.6, 2_000)

    @property
    def gain(self) -> PowerGain:
        """The gain sequence in JAX's current float type, made on demand so that imports compute nothing."""
        return PowerGain(*self.powers)

    def __call__(self, k: Any) -> Any:
        return self.gain(k)

    def __repr__(self) -> str:
        return "PowerGain({:.4g}, {:g}, {:g})".format(*self.powers)


FADING = Fading()


def probability(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it lies strictly between 0 and 1; raises TypeError or ValueError."""
    return jnp.asarray(check_probability(argument, value, "typical values are 0.25 to 0.8"), dtype=float)


def positive(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it is a finite positive number; raises TypeError or ValueError."""
    return jnp.asarray(check_positive(argument, value), dtype=float)


def non_negative(argument: str, value: float) -> Float[Array, ""]:
    """The value as an array, if it is a finite number of at least 0; raises TypeError or ValueError."""
    return jnp.asarray(check_non_negative(argument, value), dtype=float)


def optional_positive(argument: str, value: float | None) -> Float[Array, ""] | None:
    """`positive`, or None where the recipe has a default that depends on n."""
    return None if value is None else positive(argument, value)


def gain_sequence(gain: Any, largest_first: float = math.inf) -> Gain:
    """The gain sequence of a recipe's argument `gain`, its numbers in JAX's current float type.

    Raises TypeError unless it is a function, ValueError unless its first value is in (0, `largest_first`].
    """
    check_function("gain", gain, "of k = 1, 2, …, such as gadabout.adaptations.PowerGain(1.0, 0.8, 20.0)")
    gain = FADING.gain if gain is FADING else gain
    gain = jax.tree.map(lambda leaf: jnp.asarray(leaf, float) if eqx.is_inexact_array(leaf) else leaf, gain)
    wanted = "above 0" if largest_first == math.inf else f"in (0, {largest_first:g}]"
    try:
        with jax.ensure_compile_time_eval():
            first = float(gain(1.0))
    except Exception as error:
        raise ValueError(f"gain must return one number {wanted} for k = 1; it fails: {first_line(error)}") from error
    if not (math.isfinite(first) and 0 < first <= largest_first):
        raise ValueError(f"gain must start with a finite number {wanted}, got {first} at k = 1; PowerGain(1, 0.8) does")
    return gain


def fitting(tree: Any, n: int, argument: str) -> Any:
    """The proposal or distribution; raises ValueError unless all factors and distributions in it have n coordinates."""
    sized = lambda node: isinstance(node, AbstractFactor | AbstractDistribution)
    for part in filter(sized, jax.tree.leaves(tree, is_leaf=sized)):
        if part.dim != n:
            raise ValueError(
                f"{argument}: its {type(part).__name__} is of {part.dim} coordinates, the position has {n}; make it of "
                "as many"
            )
    return tree


def optional_distribution(distribution: Any) -> AbstractDistribution | None:
    """The argument `distribution`; raises TypeError unless it is a distribution or None."""
    if not (distribution is None or isinstance(distribution, AbstractDistribution)):
        raise TypeError(
            "distribution must be one of the library's, such as gadabout.proposals.Gaussian(mean, factor), or one that "
            f"derives from gadabout.AbstractDistribution, got {shown(distribution)}"
        )
    return distribution


def known_gaussian(n: int, learned: Learned | None) -> tuple[Float[Array, " n"], AbstractFactor]:
    """Learned mean and factor of the target; 0 and I where there are none."""
    mean, factor = None if learned is None else learned.mean, known_factor(learned)
    return jnp.zeros(n) if mean is None else mean, Diagonal(jnp.ones(n)) if factor is None else factor


def initial_factor(
    n: int, kind: LearnedKind, scale: Float[Array, ""] | None, learned: Learned | None
) -> AbstractFactor:
    """The initial factor scale · I; `scale` is 0.1/√n by default, as in the paper.

    Where the covariance L Lᵀ of the target is known, it is scale · L, and `scale` is 1/√n by default.
    """
    known = known_factor(learned)
    if known is None:
        scale = jnp.asarray(0.1 / math.sqrt(n), dtype=float) if scale is None else scale
        return low_rank(n, scale) if kind == "low-rank" else isotropic(n, scale, kind)
    scale = jnp.asarray(1 / math.sqrt(n), dtype=float) if scale is None else scale
    if kind == "low-rank":
        return low_rank(n, scale, known)
    return jax.tree.map(lambda leaf: scale * leaf, of_kind(kind, known))


def scaled_start(n: int, step_size: Float[Array, ""] | None, learned: Learned | None) -> Scaled:
    """h · I, or h · L where the covariance is known; h = `step_size`, by default the paper's √(0.5/n)."""
    h = jnp.asarray(math.sqrt(0.5 / n), dtype=float) if step_size is None else step_size
    known = known_factor(learned)
    return Scaled(h, Diagonal(jnp.ones(n)) if known is None else known)


def proposal_scale(kernel: Any) -> Any:
    """The lens to h of a proposal whose factor is `Scaled`."""
    return kernel.proposal.factor.multiplier


def for_ever(adaptation: AbstractAdaptation, adapt_for_ever: bool) -> AbstractAdaptation:
    """The adaptation, continued while draws are kept if `adapt_for_ever`; ValueError if its steps do not diminish."""
    return ForEver(adaptation) if check_truth("adapt_for_ever", adapt_for_ever) else adaptation


def speed_measure(
    optimiser: Optimiser | None,
    learning_rate: float | None,
    target_acceptance: float,
    beta_rate: float,
    *,
    form: Form,
    paper_rate: float,
    gain: Gain | None,
    parts: Mapping[str, Any] = MappingProxyType({}),
) -> SpeedMeasure:
    """Algorithm 1's adaptation with the optimiser, RMSprop if it is None; `paper_rate` is the paper's η."""
    hardened = check_one_of("form", form, ("hardened", "paper")) == "hardened"
    off: dict[str, Any] = {} if hardened else {"gradient_clip": None, "patience": None}
    if optimiser is not None and not all(callable(getattr(optimiser, name, None)) for name in ("init", "update")):
        raise TypeError(f"optimiser must be an optax transformation, such as optax.adam(1e-3), got {shown(optimiser)}")
    eta = positive("learning_rate", (4e-3 if hardened else paper_rate) if learning_rate is None else learning_rate)
    constant = gain is None or (gain is FADING and not hardened)
    return SpeedMeasure(
        RMSprop(eta, guarded=hardened) if optimiser is None else optimiser,
        probability("target_acceptance", target_acceptance),
        positive("beta_rate", beta_rate),
        diagonal_floor=jnp.asarray(1e-3, dtype=float),
        beta_cap=jnp.asarray(100.0, dtype=float) if hardened else None,
        relative=hardened,
        gain=None if constant else gain_sequence(gain),
        **off,
        **parts,
    )


def unadjusted(name: str, kernel: Any, bias: str) -> Sampler:
    """A sampler that never rejects, takes batch gradients and keeps more than a point; `bias` describes its bias."""
    facts = {"exact": False, "takes_noisy_gradients": True, "state_is_point": False}
    return Sampler(name, kernel, NoAdaptation(), num_warmup=1_000, bias=bias, **facts)
