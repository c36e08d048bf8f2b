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
from .noncentred import NoncentredLangevin
from .random_walk import RandomWalk
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
    "NoncentredLangevin",
    "RandomWalk",
    "ReparametrisedIndependent",
    "StudentT",
    "Trajectory",
    "UserDistribution",
    "UserProposal",
    "as_pytree",
    "coupling_flow",
    "importance_sample",
    "log_importance_weight",
    "renew_cache",
]
