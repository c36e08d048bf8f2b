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
"""Where the tail exponent of a callable is fitted: k from 2²⁰ to 2⁴⁰."""

TOLERANCE = 0.02
"""A fitted exponent this close to a boundary of the conditions is taken to lie on it."""


class PowerGain(eqx.Module):
    r"""$\gamma_k = c\,(k + k_0)^{-a}$ for k = 1, 2, …; its numbers are array leaves.

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
    r"""The conditions that a gain sequence violates, each of which is also named in a UserWarning.

    Andrieu & Moulines (2006) need $\sum\gamma_k = \infty$, or θ can stop short of where it should go, and
    $\sum(\gamma_k^2 + k^{-1/2}\gamma_k) < \infty$ (A5), or the number of reprojections need not be finite; their law of
    large numbers (theorem 8) needs $\sum\gamma_k / k < \infty$. A `PowerGain` is judged exactly, from its exponent a:
    the first holds where a ≤ 1, the second where a > ½, the third where a > 0. Of any other callable the exponent of
    the tail is fitted, as the slope of log γ against log k for k from 2²⁰ to 2⁴⁰, and the warning says so; factors
    slower than every power (logarithms) are beyond it.

    Raises:
        ValueError: if a callable returns what is not a finite number of at least 0.
    """
    a, slack, how = tail(check_function("gain", gain, "of k = 1, 2, …"))
    conditions = {
        "Σ γ_k = ∞": (a <= 1 + slack, "θ can stop short of where it should go"),
        "Σ (γ_k² + k^(-1/2) γ_k) < ∞": (a > 0.5 + slack, "the number of reprojections need not be finite"),
        "Σ γ_k / k < ∞": (a > slack, "averages need not converge"),
    }
    return warn_of_violated("gain", conditions, how, "exponents above 0.5 and at most 1 satisfy it")


def tail(sequence: Callable, argument: str = "gain") -> tuple[float, float, str]:
    """The exponent a with which a sequence falls like k^−a, how far off that may be, and how it is known, in words."""
    if isinstance(sequence, PowerGain):
        return float(sequence.exponent), 0.0, f"its exponent is {float(sequence.exponent):.4g}"
    a = tail_exponent(sequence, argument)
    return a, TOLERANCE, f"the exponent of its tail, fitted between k = 2^20 and 2^40, is {a:.4g}"


def warn_of_violated(argument: str, conditions: dict[str, tuple[bool, str]], how: str, remedy: str) -> list[str]:
    """The conditions that do not hold, each named in a UserWarning with what follows from that and the remedy."""
    violated = [condition for condition, (holds, _) in conditions.items() if not holds]
    for condition in violated:
        message = f"{argument}: {condition} is violated ({how}), so that {conditions[condition][1]}; {remedy}"
        warnings.warn(message, UserWarning, skip_file_prefixes=(str(PACKAGE),))  # the line of the user's own file
    return violated


def tail_exponent(gain: Gain, argument: str = "gain") -> float:
    """a of γ_k ≈ c k^−a, by least squares on logarithms; infinite where γ underflows to 0."""
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
