"""The public names, which `import gadabout` offers and imports once one of them is asked for."""

from gadabout import adaptations, factors, finite, kernels, minibatch, models, monte_carlo, proposals
from gadabout.adaptations import AbstractAdaptation
from gadabout.algorithms import (
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
from gadabout.api import RunStopped, from_blackjax, posterior_predictive, predictive, resume, sample, to_blackjax
from gadabout.diagnostics import diagnose
from gadabout.driver import CheckpointError, Until, keep_programs
from gadabout.factors import AbstractFactor
from gadabout.findings import DiagnosticWarning
from gadabout.kernels import AbstractKernel
from gadabout.minibatch import Minibatches
from gadabout.model import AbstractModel, Model
from gadabout.proposals import AbstractDistribution, AbstractProposal, AbstractReparametrised
from gadabout.reporting import report
from gadabout.sampler import Sampler
from gadabout.schedule import Plan
from gadabout.store import StoreError
from gadabout.target import Point, Target

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
