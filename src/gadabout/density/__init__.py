"""What is evaluated: log π and gradients of batches of positions, on the host's side."""

from jax.sharding import Mesh

from gadabout.density.base import AbstractDensity
from gadabout.density.from_jax import JaxDensity
from gadabout.density.from_rows import InThreads, RowsDensity, rows_density
from gadabout.density.host import HostDensity, Rows
from gadabout.target import Target

__all__ = ["AbstractDensity", "HostDensity", "InThreads", "JaxDensity", "Rows", "RowsDensity", "density_of"]


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

    A `HostDensity` is evaluated without a compiler, and by every process for itself. Where its layout has transforms,
    their log Jacobian comes from JAX, and the host is called from a compiled program.
    """
    function, layout = target.function, target.layout
    plain = layout is None or (not layout.transforms and bool(layout.is_real.all()))
    if isinstance(function, HostDensity) and plain:
        return rows_density(function, dim, layout)
    return JaxDensity(target, dim, chains, block, mesh, chain_block)
