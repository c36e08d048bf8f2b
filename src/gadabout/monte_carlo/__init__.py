"""Monte Carlo without one long chain: plain, rejection, importance, through the ELBO, and sequential."""

from gadabout.monte_carlo.elbo import GaussianFit, elbo, fit_gaussian
from gadabout.monte_carlo.importance import Importance, importance, self_normalised
from gadabout.monte_carlo.particles import SequentialMonteCarlo, TemperingLimit, systematic_resampling
from gadabout.monte_carlo.plain import ErrorSplit, Estimate, average, error_split, plain
from gadabout.monte_carlo.rejection import EnvelopeViolated, ProposalLimit, Rejection, rejection
from gadabout.monte_carlo.smc import smc

__all__ = [
    "EnvelopeViolated",
    "ErrorSplit",
    "Estimate",
    "GaussianFit",
    "Importance",
    "ProposalLimit",
    "Rejection",
    "SequentialMonteCarlo",
    "TemperingLimit",
    "average",
    "elbo",
    "error_split",
    "fit_gaussian",
    "importance",
    "plain",
    "rejection",
    "self_normalised",
    "smc",
    "systematic_resampling",
]
