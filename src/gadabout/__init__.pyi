from . import adaptations, factors, finite, kernels, minibatch, models, monte_carlo, proposals
from .adaptations import AbstractAdaptation
from .algorithms import (
    am,
    barker,
    block,
    cycle,
    default,
    fisher_mala,
    gad,
    gad_mala,
    gad_rwm,
    gibbs,
    haario,
    haario_scaled,
    hmc,
    independence,
    mala,
    metropolis_hastings,
    mix,
    mixture_independence,
    mixture_walk,
    nuts,
    psgld,
    ram,
    reprojected,
    rwm,
    sghmc,
    sgld,
    sgnht,
    split_hmc,
    ula,
)
from .api import RunStopped, from_blackjax, posterior_predictive, predictive, resume, to_blackjax
from .api.sample import sample
from .cache import keep_programs
from .diagnostics import diagnose
from .driver import CheckpointError, Until
from .factors import AbstractFactor
from .findings import DiagnosticWarning
from .kernels import AbstractKernel
from .minibatch import Minibatches
from .model import AbstractModel, Model
from .proposals import AbstractDistribution, AbstractProposal, AbstractReparametrised
from .reporting import report
from .sampler import Sampler
from .schedule import Plan
from .store import StoreError
from .target import Point, Target

__version__: str

__all__ = [
    "AbstractAdaptation",
    "AbstractDistribution",
    "AbstractFactor",
    "AbstractKernel",
    "AbstractModel",
    "AbstractProposal",
    "AbstractReparametrised",
    "CheckpointError",
    "DiagnosticWarning",
    "Minibatches",
    "Model",
    "Plan",
    "Point",
    "RunStopped",
    "Sampler",
    "StoreError",
    "Target",
    "Until",
    "adaptations",
    "am",
    "barker",
    "block",
    "cycle",
    "default",
    "diagnose",
    "factors",
    "finite",
    "fisher_mala",
    "from_blackjax",
    "gad",
    "gad_mala",
    "gad_rwm",
    "gibbs",
    "haario",
    "haario_scaled",
    "hmc",
    "independence",
    "keep_programs",
    "kernels",
    "mala",
    "metropolis_hastings",
    "minibatch",
    "mix",
    "mixture_independence",
    "mixture_walk",
    "models",
    "monte_carlo",
    "nuts",
    "posterior_predictive",
    "predictive",
    "proposals",
    "psgld",
    "ram",
    "report",
    "reprojected",
    "resume",
    "rwm",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
    "split_hmc",
    "to_blackjax",
    "ula",
]
