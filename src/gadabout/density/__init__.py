"""Densities: log π and its gradients at batches of positions, evaluated from the host."""

import traceback

import jax
from jax.sharding import Mesh

from gadabout.density.base import AbstractDensity
from gadabout.density.from_jax import JaxDensity
from gadabout.density.from_rows import InThreads, RowsDensity, rows_density
from gadabout.density.host import HostDensity, Rows
from gadabout.layout import Layout
from gadabout.starts import explained
from gadabout.target import LogDensityError, Target

__all__ = [
    "AbstractDensity",
    "HostDensity",
    "InThreads",
    "JaxDensity",
    "Rows",
    "RowsDensity",
    "density_for",
    "density_of",
    "raised_by_density",
]

BLOCK = 31
"""proposals of each chain whose log densities are evaluated in one batch"""


def density_of(
    target: Target,
    dim: int,
    *,
    chains: int,
    block: int,
    mesh: Mesh | None = None,
    chain_block: int | None = None,
) -> AbstractDensity:
    """The density of a target's flat positions (see `JaxDensity`).

    A `HostDensity` is evaluated without a compiler, by every process for itself. If its layout has transforms, JAX
    computes their log Jacobian, and a compiled program calls the host; so too if coordinates are not real.
    """
    function, layout = target.function, target.layout
    plain = layout is None or (not layout.transforms and bool(layout.is_real.all()))
    if isinstance(function, HostDensity) and plain:
        return rows_density(function, dim, layout)
    return JaxDensity(target, dim, chains, block, mesh, chain_block)


def density_for(
    target: Target, layout: Layout, chains: int, mesh: Mesh | None = None, chain_block: int | None = None
) -> AbstractDensity:
    """The density that the host evaluates in a run of `chains` chains.

    Raises TypeError or ValueError, with the remedy, for a log density that cannot be evaluated or differentiated.
    """
    try:
        block = BLOCK * chains
        return density_of(target, layout.dim, chains=chains, block=block, mesh=mesh, chain_block=chain_block)
    except LogDensityError:
        raise
    except Exception as error:
        raise explained(error, target, layout, order=1) from error


def raised_by_density(error: BaseException) -> bool:
    """Whether an error comes from an evaluation of the log density, on the host or in a compiled program."""
    evaluations = {AbstractDensity.value.__code__, AbstractDensity.value_and_grad.__code__}
    frames = (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))
    by_program = isinstance(error, jax.errors.JaxRuntimeError) or "error calling callback" in str(error)
    return by_program or not evaluations.isdisjoint(frames)
