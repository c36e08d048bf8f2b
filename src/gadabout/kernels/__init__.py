"""Kernels: transitions that leave the target invariant."""

from gadabout.kernels.base import AbstractInfo, AbstractKernel, CompositeInfo, Info, MetropolisInfo, Transition
from gadabout.kernels.block import Block
from gadabout.kernels.compose import AbstractComposite, Cycle, Mix
from gadabout.kernels.gibbs import Gibbs
from gadabout.kernels.local_global import LocalGlobal
from gadabout.kernels.metropolis import Metropolis
from gadabout.kernels.nuts import NoUTurn
from gadabout.kernels.stochastic_gradient import (
    AbstractStochasticGradient,
    LangevinDynamics,
    NoseHooverThermostat,
    PreconditionedLangevin,
    StochasticHamiltonian,
)

__all__ = [
    "AbstractComposite",
    "AbstractInfo",
    "AbstractKernel",
    "AbstractStochasticGradient",
    "Block",
    "CompositeInfo",
    "Cycle",
    "Gibbs",
    "Info",
    "LangevinDynamics",
    "LocalGlobal",
    "Metropolis",
    "MetropolisInfo",
    "Mix",
    "NoUTurn",
    "NoseHooverThermostat",
    "PreconditionedLangevin",
    "StochasticHamiltonian",
    "Transition",
]
