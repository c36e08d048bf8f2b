"""Whether what a plan needs fits into memory, before anything runs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.diagnostics import spacing_of
from gadabout.driver.loop import BUFFER_BYTES, POSITION
from gadabout.driver.memory import check_memory

COPIES = 4
"""arrays of the size of θ, or of all positions, that a run holds at the least"""
COPIES_JUDGED = 2
"""the same of draws that are judged once they are made"""
STATISTICS = 64
"""bytes of statistics that a draw has, about"""
SMALLER = "choose a diagonal factor or metric, a sampler that needs none, fewer components or fewer coordinates"

FEWER = "use fewer chains, or name a sampler that learns scales alone, such as nuts() or gad_mala(factor='diagonal')"


def check_plan(engine: Any) -> None:
    """Raises MemoryError where the chains, or a sampler's own matrices, need more than the machine has."""
    n, size, chains = engine.starts.layout.dim, jnp.result_type(float).itemsize, engine.settings.num_chains
    check_memory(COPIES * n * size, chains, f"num_chains = {chains:,} chains", "use fewer chains")
    if not engine.plan.on_host:
        for sampler, numbers in zip(engine.plan.samplers, engine.runner.kernels.sizes, strict=True):
            check_memory(COPIES * size * numbers, 1, f"the matrices of {sampler.name} on {n:,} coordinates", SMALLER)
    for stage in engine.plan.stages if engine.plan.on_host else ():
        needs, what = stage.memory(engine)
        check_memory(needs, 1, what, FEWER)


def needed(engine: Any) -> tuple[int, int]:
    """Bytes of all that is kept of the run, about, and of memory that it takes beside."""
    n, settings, records = engine.starts.layout.dim, engine.settings, engine.records
    one = jax.ShapeDtypeStruct((settings.num_chains, n), jnp.result_type(float))
    size = lambda tree: sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
    statistics = STATISTICS * settings.num_chains
    draw = size(jax.eval_shape(lambda x: (records.model.constrain(x), records.model.outputs(x)), one))
    draw, warmup = (
        statistics + (each if records.select(POSITION, warmup) else 0)
        for each, warmup in ((draw, False), (size(one), True))
    )
    disk = draw * settings.num_draws + warmup * (settings.num_warmup // settings.thinning)
    matrices = one.dtype.itemsize * max((0,) if engine.plan.on_host else engine.runner.kernels.sizes)
    judged = -(-settings.num_draws // spacing_of(settings.num_chains, settings.num_draws))
    return disk, COPIES * (matrices + size(one)) + COPIES_JUDGED * judged * size(one) + 2 * BUFFER_BYTES
