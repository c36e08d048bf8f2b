from .acceptance import AcceptanceRate, ProportionalControl
from .base import AbstractAdaptation
from .cemetery import Cemetery
from .dual_averaging import DualAveraging
from .estimators import AbstractEstimator, GeometricMean, RegularisedCovariance
from .fisher import InverseFisher
from .gains import Gain, PowerGain, check_gains
from .gradients import AbstractGradient, Pathwise, ScoreFunction
from .haario import GlobalScale, Haario
from .moments import CholeskyMoments
from .objectives import AbstractObjective, JumpDistance, LogAcceptance, LogRatio
from .online_em import OnlineEM
from .optimisers import Optimiser, RMSprop
from .part import OfPart
from .pool import PerChain, Pool
from .reprojection import Reprojection, extent, go_home, stay_within
from .robust import Robust
from .speed_measure import SpeedMeasure
from .together import ForEver, NoAdaptation, Together
from .windowed import WindowedFactor, doubling_windows

__all__ = [
    "AbstractAdaptation",
    "AbstractEstimator",
    "AbstractGradient",
    "AbstractObjective",
    "AcceptanceRate",
    "Cemetery",
    "CholeskyMoments",
    "DualAveraging",
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
    "stay_within",
]
