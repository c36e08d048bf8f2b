"""Proposals: where to go next, and the log-ratio that makes it a Metropolis move."""

from gadabout.proposals.base import AbstractProposal, AbstractReparametrised, renew_cache
from gadabout.proposals.hamiltonian import Hamiltonian
from gadabout.proposals.langevin import Langevin
from gadabout.proposals.random_walk import RandomWalk

__all__ = ["AbstractProposal", "AbstractReparametrised", "Hamiltonian", "Langevin", "RandomWalk", "renew_cache"]
