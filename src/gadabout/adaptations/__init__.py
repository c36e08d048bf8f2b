"""Adaptations: rules that learn a kernel's parameters while it runs."""

from gadabout.adaptations.acceptance import AcceptanceRate, ProportionalControl
from gadabout.adaptations.base import AbstractAdaptation
from gadabout.adaptations.dual_averaging import DualAveraging
from gadabout.adaptations.estimators import AbstractEstimator, GeometricMean, RegularisedCovariance
from gadabout.adaptations.fisher import InverseFisher
from gadabout.adaptations.fitted_gaussian import FittedGaussian, quick_windows
from gadabout.adaptations.gains import Gain, PowerGain, check_gains
from gadabout.adaptations.gradients import AbstractGradient, Pathwise, ScoreFunction
from gadabout.adaptations.haario import GlobalScale, Haario
from gadabout.adaptations.moments import CholeskyMoments
from gadabout.adaptations.objectives import AbstractObjective, JumpDistance, LogAcceptance, LogRatio
from gadabout.adaptations.online_em import OnlineEM
from gadabout.adaptations.optimisers import Optimiser, RMSprop
from gadabout.adaptations.part import OfPart
from gadabout.adaptations.pool import PerChain, Pool
from gadabout.adaptations.reprojection import Reprojection, extent, go_home, stay_within
from gadabout.adaptations.robust import Robust
from gadabout.adaptations.speed_measure import SpeedMeasure
from gadabout.adaptations.together import ForEver, NoAdaptation, Together
from gadabout.adaptations.windowed import WindowedFactor, doubling_windows

__all__ = [
    "AbstractAdaptation",
    "AbstractEstimator",
    "AbstractGradient",
    "AbstractObjective",
    "AcceptanceRate",
    "CholeskyMoments",
    "DualAveraging",
    "FittedGaussian",
    "ForEver",
    "Gain",
    "GeometricMean",
    "GlobalScale",
    "Haario",
    "InverseFisher",
    "JumpDistance",
    "LogAcceptance",
    "LogRatio",
    "NoAdaptation",
    "OfPart",
    "OnlineEM",
    "Optimiser",
    "Pathwise",
    "PerChain",
    "Pool",
    "PowerGain",
    "ProportionalControl",
    "RMSprop",
    "RegularisedCovariance",
    "Reprojection",
    "Robust",
    "ScoreFunction",
    "SpeedMeasure",
    "Together",
    "WindowedFactor",
    "check_gains",
    "doubling_windows",
    "extent",
    "go_home",
    "quick_windows",
    "stay_within",
]
