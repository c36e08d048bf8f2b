"""Proposals: where to go next, and the log-ratio that makes it a Metropolis move."""

from gadabout.proposals.barker import Barker
from gadabout.proposals.base import AbstractProposal, AbstractReparametrised, renew_cache
from gadabout.proposals.distributions import AbstractDistribution, Gaussian, StudentT, UserDistribution
from gadabout.proposals.flow import CouplingFlow, coupling_flow
from gadabout.proposals.hamiltonian import Hamiltonian, JitteredHamiltonian
from gadabout.proposals.independent import (
    Independent,
    ReparametrisedIndependent,
    importance_sample,
    log_importance_weight,
)
from gadabout.proposals.integrators import Euler, GaussianFlow, Leapfrog
from gadabout.proposals.langevin import Langevin
from gadabout.proposals.mixture import GaussianMixture, MixtureWalk
from gadabout.proposals.multiscale import MultiscaleWalk
from gadabout.proposals.random_walk import RandomWalk
from gadabout.proposals.scale_mixture import ScaleMixture, fitted_weights, log_radial_density
from gadabout.proposals.split_hamiltonian import SplitHamiltonian
from gadabout.proposals.tails import Tails, fitted_tails, no_tails
from gadabout.proposals.trajectory import Trajectory
from gadabout.proposals.user import UserProposal, as_pytree

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
