"""Kernels: transitions that leave the target invariant."""

from gadabout.kernels.base import AbstractKernel, Info, Transition
from gadabout.kernels.metropolis import Metropolis

__all__ = ["AbstractKernel", "Info", "Metropolis", "Transition"]
