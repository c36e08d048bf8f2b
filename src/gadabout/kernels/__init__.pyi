from .base import AbstractInfo, AbstractKernel, CompositeInfo, Info, MetropolisInfo, Transition
from .block import Block
from .compose import AbstractComposite, Cycle, Mix
from .gibbs import Gibbs
from .metropolis import Metropolis
from .nuts import NoUTurn
from .stochastic_gradient import (
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
    "Metropolis",
    "MetropolisInfo",
    "Mix",
    "NoUTurn",
    "NoseHooverThermostat",
    "PreconditionedLangevin",
    "StochasticHamiltonian",
    "Transition",
]
