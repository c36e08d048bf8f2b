"""The rules that adapt a step size to an acceptance rate, by name."""

from collections.abc import Callable
from typing import Any, Literal

from gadabout.adaptations import AbstractAdaptation, AcceptanceRate, DualAveraging, ProportionalControl
from gadabout.algorithms.settings import probability
from gadabout.checks import check_one_of

StepSizeRule = Literal["multiplicative", "proportional", "dual-averaging"]

_RULES = {"multiplicative": AcceptanceRate, "proportional": ProportionalControl, "dual-averaging": DualAveraging}


def step_size_control(
    rule: str, target_acceptance: float, where: Callable[[Any], Any], power: int = 1
) -> AbstractAdaptation:
    """The adaptation of the kernel's number at `where`; ValueError for an unknown rule or a rate out of range.

    "multiplicative" is the paper's rule, "proportional" the lectures', "dual-averaging" Hoffman and Gelman's. The first
    two update that number to the `power`: 2 where the source updates a variance and the number is its square root.
    """
    adaptation = _RULES[check_one_of("step_size_rule", rule, tuple(_RULES))]
    alpha = probability("target_acceptance", target_acceptance)
    return (
        adaptation(alpha, where) if power == 1 or adaptation is DualAveraging else adaptation(alpha, where, power=power)
    )
