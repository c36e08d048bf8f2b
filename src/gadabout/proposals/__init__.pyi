from .barker import Barker
from .base import AbstractProposal, AbstractReparametrised, renew_cache
from .distributions import AbstractDistribution, Gaussian, StudentT, UserDistribution
from .flow import CouplingFlow, coupling_flow
from .hamiltonian import Hamiltonian, JitteredHamiltonian
from .independent import (
    Independent,
    ReparametrisedIndependent,
    importance_sample,
    log_importance_weight,
)
from .integrators import Euler, GaussianFlow, Leapfrog
from .langevin import Langevin
from .mixture import GaussianMixture, MixtureWalk
from .multiscale import MultiscaleWalk
from .random_walk import RandomWalk
from .scale_mixture import ScaleMixture, fitted_weights, log_radial_density
from .split_hamiltonian import SplitHamiltonian
from .tails import Tails, fitted_tails, no_tails
from .trajectory import Trajectory
from .user import UserProposal, as_pytree

__all__ = [
    "AbstractDistribution",
    "AbstractProposal",
    "AbstractReparametrised",
    "Barker",
    "CouplingFlow",
    "Euler",
    "Gaussian",
    "GaussianFlow",
    "GaussianMixture",
    "Hamiltonian",
    "Independent",
    "JitteredHamiltonian",
    "Langevin",
    "Leapfrog",
    "MixtureWalk",
    "MultiscaleWalk",
    "RandomWalk",
    "ReparametrisedIndependent",
    "ScaleMixture",
    "SplitHamiltonian",
    "StudentT",
    "Tails",
    "Trajectory",
    "UserDistribution",
    "UserProposal",
    "as_pytree",
    "coupling_flow",
    "fitted_tails",
    "fitted_weights",
    "importance_sample",
    "log_importance_weight",
    "log_radial_density",
    "no_tails",
    "renew_cache",
]
