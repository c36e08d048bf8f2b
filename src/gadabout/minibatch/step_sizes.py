r"""Step sizes ε_t of stochastic-gradient chains, and the conditions under which their bias vanishes."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from gadabout.adaptations import PowerGain
from gadabout.adaptations.base import setting
from gadabout.adaptations.gains import tail, warn_of_violated
from gadabout.checks import check_positive

StepSizes = Callable[[Any], Any]
"""ε as a function of t = 1, 2, …, moves made since the start, warm-up included; traced by JAX."""


class Constant(eqx.Module):
    """ε_t = ε, an array leaf."""

    value: Float[Array, ""]

    def __call__(self, t):
        return self.value


def constant(step_size: float) -> Constant:
    """ε_t = ε: chains move for ever, with a bias that vanishes only with ε.

    Raises ValueError unless ε is a finite positive number.
    """
    return Constant(setting(check_positive("step_size", step_size)))


def polynomial(a: float, b: float = 0.0, gamma: float = 0.55) -> PowerGain:
    r"""$\epsilon_t = a\,(b + t)^{-\gamma}$, t = 1, 2, …: the bias vanishes where ½ < γ ≤ 1 (Welling & Teh 2011).

    All draws have the same weight in the result, although steps shrink. `sample_stats["step_size"]` holds ε_t, for
    weighting by step size as in Welling & Teh (their equation 11).

    Raises ValueError if a is not above 0, b below 0, or γ not a finite number.
    """
    return PowerGain(coefficient=a, exponent=gamma, offset=b)


def step_sizes(step_size: float | StepSizes) -> StepSizes:
    """Step sizes from a recipe's argument; a number means a constant. Warns of conditions that they violate."""
    found = step_size if callable(step_size) else constant(step_size)
    check_step_sizes(found)
    return found


def check_step_sizes(step_size: StepSizes) -> list[str]:
    r"""The conditions that step sizes violate; a UserWarning is issued for each.

    The conditions are $\sum\epsilon_t = \infty$, or chains can stop short of the posterior, and $\sum\epsilon_t^2 <
    \infty$, or a bias remains (Welling & Teh 2011, equation 2; the slides swap the two). A `constant` and a
    `polynomial` are checked exactly. For any other function the exponent of the tail is fitted, from t = 2²⁰ to 2⁴⁰.

    Raises:
        ValueError: if a function fails or returns anything but a finite number of at least 0.
    """
    gamma, slack, how = (
        (0.0, 0.0, "it is constant") if isinstance(step_size, Constant) else tail(step_size, "step_size")
    )
    conditions = {
        "Σ ε_t = ∞": (gamma <= 1 + slack, "the chain can stop short of the posterior"),
        "Σ ε_t² < ∞": (gamma > 0.5 + slack, "a bias remains however long the run is"),
    }
    remedy = "polynomial(a, b, gamma) with 0.5 < gamma <= 1 satisfies both conditions"
    return warn_of_violated("step_size", conditions, how, remedy)


def bias_of(moves: str, step_size: StepSizes) -> str:
    """A result's note on the bias of draws without an accept–reject step."""
    if isinstance(step_size, Constant):
        return f"{moves} are not corrected by an accept-reject step: a bias of the order of the step size remains"
    return f"{moves} are not corrected by an accept-reject step: the bias vanishes only as fast as the step size does"
