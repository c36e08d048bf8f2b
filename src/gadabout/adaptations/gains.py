"""Gain sequences γ_k of stochastic approximation, and the conditions under which adaptation with them converges."""

import warnings
from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from gadabout.adaptations.base import setting
from gadabout.calls import first_line
from gadabout.checks import check_finite, check_function, check_non_negative, check_positive
from gadabout.files import PACKAGE

Gain = Callable[[Array], Array]
"""γ as a function of k = 1, 2, …, traced by JAX and called with floats by `check_gains`."""

TAIL = np.exp2(np.arange(20, 41))
"""Values of k at which the tail exponent of a callable is fitted: from 2²⁰ to 2⁴⁰."""

TOLERANCE = 0.02
"""Largest distance from a boundary of the conditions at which a fitted exponent is taken to lie on it."""


class PowerGain(eqx.Module):
    r"""$\gamma_k = c\,(k + k_0)^{-a}$ for k = 1, 2, …; its parameters are array leaves.

    Args:
        coefficient: c, above 0.
        exponent: a; the conditions of `check_gains` hold where ½ < a ≤ 1.
        offset: k₀, at least 0, in iterations.

    Raises:
        ValueError: if c or k₀ is out of range.
    """

    coefficient: Float[Array, ""] = eqx.field(converter=setting)
    exponent: Float[Array, ""] = eqx.field(converter=setting)
    offset: Float[Array, ""] = eqx.field(converter=setting, default=0.0)

    def __init__(self, coefficient: float, exponent: float, offset: float = 0.0):
        check_positive("coefficient", coefficient)
        check_finite("exponent", exponent, "0.5 < exponent <= 1 converges")
        check_non_negative("offset", offset)
        self.coefficient, self.exponent, self.offset = coefficient, exponent, offset  # pyright: ignore

    def __call__(self, k):
        return self.coefficient * (k + self.offset) ** -self.exponent


def check_gains(gain: Gain) -> list[str]:
    r"""The conditions that a gain sequence violates; a UserWarning is issued for each.

    Andrieu & Moulines (2006) require $\sum\gamma_k = \infty$, or θ can stop short of its limit, and
    $\sum(\gamma_k^2 + k^{-1/2}\gamma_k) < \infty$ (A5), or the number of reprojections need not be finite. Their law of
    large numbers (theorem 8) requires $\sum\gamma_k / k < \infty$. A `PowerGain` is checked exactly by its exponent a:
    the first holds if a ≤ 1, the second if a > ½, the third if a > 0. For any other callable the exponent of the tail
    is fitted, as the slope of log γ against log k for k from 2²⁰ to 2⁴⁰, and the warning says so. The fit cannot detect
    factors slower than every power (logarithms).

    Raises:
        ValueError: if a callable fails or returns anything but a finite number of at least 0.
    """
    a, slack, how = tail(check_function("gain", gain, "of k = 1, 2, …"))
    conditions = {
        "Σ γ_k = ∞": (a <= 1 + slack, "θ can stop short of where it should go"),
        "Σ (γ_k² + k^(-1/2) γ_k) < ∞": (a > 0.5 + slack, "the number of reprojections need not be finite"),
        "Σ γ_k / k < ∞": (a > slack, "averages need not converge"),
    }
    return warn_of_violated("gain", conditions, how, "exponents above 0.5 and at most 1 satisfy it")


def tail(sequence: Callable, argument: str = "gain") -> tuple[float, float, str]:
    """The exponent a of a sequence that falls like k^−a, the tolerance of a, and a phrase on how a was obtained."""
    if isinstance(sequence, PowerGain):
        return float(sequence.exponent), 0.0, f"its exponent is {float(sequence.exponent):.4g}"
    a = tail_exponent(sequence, argument)
    return a, TOLERANCE, f"the exponent of its tail, fitted between k = 2^20 and 2^40, is {a:.4g}"


def warn_of_violated(argument: str, conditions: dict[str, tuple[bool, str]], how: str, remedy: str) -> list[str]:
    """The conditions that do not hold; a UserWarning names each, its consequence and the remedy."""
    violated = [condition for condition, (holds, _) in conditions.items() if not holds]
    for condition in violated:
        message = f"{argument}: {condition} is violated ({how}), so that {conditions[condition][1]}; {remedy}"
        warnings.warn(message, UserWarning, skip_file_prefixes=(str(PACKAGE),))  # points to the user's own file
    return violated


def tail_exponent(gain: Gain, argument: str = "gain") -> float:
    """The exponent a of γ_k ≈ c k^−a, by least squares on logarithms; infinite if γ underflows to 0."""
    wanted = f"{argument} must return finite numbers of at least 0 for every k, however large"
    try:
        values = np.array([float(gain(k)) for k in TAIL])  # pyright: ignore[reportArgumentType]
    except Exception as error:
        raise ValueError(f"{wanted}; it fails: {first_line(error)}") from error
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ValueError(wanted)
    if (values == 0).any():
        return np.inf
    return float(-np.polyfit(np.log(TAIL), np.log(values), 1)[0])
