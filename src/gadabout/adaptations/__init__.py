"""Adaptations: rules that learn a kernel's parameters while it runs."""

from gadabout.adaptations.acceptance import AcceptanceRate
from gadabout.adaptations.base import AbstractAdaptation, Together
from gadabout.adaptations.moments import CholeskyMoments
from gadabout.adaptations.optimisers import Optimiser, RMSprop
from gadabout.adaptations.speed_measure import SpeedMeasure

__all__ = [
    "AbstractAdaptation",
    "AcceptanceRate",
    "CholeskyMoments",
    "Optimiser",
    "RMSprop",
    "SpeedMeasure",
    "Together",
]
