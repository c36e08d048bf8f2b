"""Adaptations: rules that learn a kernel's parameters while it runs."""

from gadabout.adaptations.acceptance import AcceptanceRate, ProportionalControl
from gadabout.adaptations.base import AbstractAdaptation, Together
from gadabout.adaptations.dual_averaging import DualAveraging
from gadabout.adaptations.fisher import InverseFisher
from gadabout.adaptations.freeze import Freeze
from gadabout.adaptations.gains import Gain, PowerGain, check_gains
from gadabout.adaptations.haario import GlobalScale, Haario
from gadabout.adaptations.moments import CholeskyMoments
from gadabout.adaptations.online_em import OnlineEM
from gadabout.adaptations.optimisers import Optimiser, RMSprop
from gadabout.adaptations.part import OfPart
from gadabout.adaptations.reprojection import Reprojection, extent, go_home, stay_within
from gadabout.adaptations.robust import Robust
from gadabout.adaptations.speed_measure import SpeedMeasure
from gadabout.adaptations.windowed import DepthLimit, WindowedMetric

__all__ = [
    "AbstractAdaptation",
    "AcceptanceRate",
    "CholeskyMoments",
    "DepthLimit",
    "DualAveraging",
    "Freeze",
    "Gain",
    "GlobalScale",
    "Haario",
    "InverseFisher",
    "OfPart",
    "OnlineEM",
    "Optimiser",
    "PowerGain",
    "ProportionalControl",
    "RMSprop",
    "Reprojection",
    "Robust",
    "SpeedMeasure",
    "Together",
    "WindowedMetric",
    "check_gains",
    "extent",
    "go_home",
    "stay_within",
]
