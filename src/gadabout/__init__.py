"""gadabout: Bayesian sampling by gradient-based adaptive Markov chain Monte Carlo."""

from importlib.metadata import version

from gadabout.adaptations import AcceptanceRate, CholeskyMoments, RMSprop, SpeedMeasure, Together
from gadabout.algorithms import am, gad, gad_mala, gad_rwm, hmc, mala, rwm
from gadabout.api import sample
from gadabout.driver import Progress, Sampler, Stage, State
from gadabout.factors import AbstractFactor, Cholesky, Diagonal, Scaled
from gadabout.kernels import AbstractKernel, Metropolis
from gadabout.proposals import AbstractProposal, AbstractReparametrised, Hamiltonian, Langevin, RandomWalk
from gadabout.target import Point, Target

__version__ = version("gadabout")

__all__ = [
    "AbstractFactor",
    "AbstractKernel",
    "AbstractProposal",
    "AbstractReparametrised",
    "AcceptanceRate",
    "Cholesky",
    "CholeskyMoments",
    "Diagonal",
    "Hamiltonian",
    "Langevin",
    "Metropolis",
    "Point",
    "Progress",
    "RMSprop",
    "RandomWalk",
    "Sampler",
    "Scaled",
    "SpeedMeasure",
    "Stage",
    "State",
    "Target",
    "Together",
    "am",
    "gad",
    "gad_mala",
    "gad_rwm",
    "hmc",
    "mala",
    "rwm",
    "sample",
]
