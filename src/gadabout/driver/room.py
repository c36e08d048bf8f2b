"""Whether what a plan needs fits into memory, before anything runs."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp

from gadabout.driver.sink import check_memory

if TYPE_CHECKING:
    from gadabout.driver.services import Services

COPIES = 4
"""arrays of the size of θ, or of all positions, that a run holds at the least"""
COPIES_LOOKED_AT = 8
"""the same of draws that a stage looks at"""
SMALLER = "choose a diagonal factor or metric, a sampler that needs none, fewer components or fewer coordinates"
UNSEEN = "use fewer chains, or name a sampler that learns scales alone, such as nuts() or gad_mala(factor='diagonal')"


def check_plan(services: "Services") -> None:
    """Raises MemoryError where the chains, a sampler's own matrices, or a look need more than the machine has."""
    n, size, chains = services.starts.layout.dim, jnp.zeros(0).dtype.itemsize, services.settings.num_chains
    for sampler in services.plan.samplers:
        kernel = eqx.filter(eqx.filter_eval_shape(sampler.kernel, n), lambda leaf: hasattr(leaf, "size"))
        own = sum(leaf.size * size for leaf in jax.tree.leaves(kernel))
        check_memory(COPIES * own, 1, f"the matrices of {sampler.name} on {n:,} coordinates", SMALLER)
    check_memory(COPIES * n * size, chains, f"num_chains = {chains:,} chains", "use fewer chains")
    for stage in services.plan.stages:
        seen = stage.looks_at(services)
        what = f"the {seen:,} iterations on {n:,} coordinates that the plan {services.plan.name} looks at"
        check_memory(COPIES_LOOKED_AT * n * size * chains, seen, what, UNSEEN)
