"""Kernels: transitions that leave the target invariant."""

from gadabout.kernels.base import AbstractKernel, Info, Transition
from gadabout.kernels.block import Block
from gadabout.kernels.compose import AbstractComposite, Cycle, Mix
from gadabout.kernels.gibbs import Gibbs
from gadabout.kernels.metropolis import Metropolis

__all__ = ["AbstractComposite", "AbstractKernel", "Block", "Cycle", "Gibbs", "Info", "Metropolis", "Mix", "Transition"]
