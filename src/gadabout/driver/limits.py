"""Memory and disk that a run needs, and the refusal of a run that needs more memory than this process may use."""

import os
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.diagnostics import spacing_of
from gadabout.driver.loop import BUFFER_BYTES, POSITION
from gadabout.driver.records import Records
from gadabout.schedule import Context, Plan

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
FILES = {"": "memory.max", "memory": "memory.limit_in_bytes"}
"""by controller, the file with the limit of a control group; version 2 has one hierarchy, without a name"""
COPIES = 4
"""least number of arrays of the size of θ, or of all positions, that a run holds at once"""
COPIES_JUDGED = 2
"""the same for the draws from which diagnostics are computed"""
STATISTICS = 64
"""approximate bytes of statistics in one draw of one chain"""
SMALLER = "choose a diagonal factor or metric, a sampler that needs none, fewer components or fewer coordinates"
FEWER = "use fewer chains, or name a sampler that learns scales alone, such as nuts() or gad_mala(factor='diagonal')"


def available_memory(groups: Path | None = None, own: Path | None = None) -> tuple[int, str]:
    """The most bytes that this process may use, and the source of that limit in words.

    The limit is the machine's memory, or less if a Linux control group, of version 1 or 2, that contains the process or
    its group sets a lower limit. Containers and batch queues set such limits.

    Args:
        groups: where control groups are mounted, `GROUPS` by default.
        own: the file that lists the control groups of the process, `OWN_GROUPS` by default.
    """
    groups, own = groups or GROUPS, own or OWN_GROUPS
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = min((found for file in _limit_files(groups, own) if (found := _limit(file)) is not None), default=machine)
    return (limit, "its control group allows") if limit < machine else (machine, "this machine has")


def check_memory(each: int, count: int, what: str, remedy: str = "use fewer, or a diagonal factor") -> None:
    """Raises MemoryError if `count` objects of `each` bytes need more memory than the process may use."""
    needed, (there, whose) = each * count, available_memory()
    if needed > there:
        raise MemoryError(f"{what} need {needed / 2**30:,.1f} GiB of memory, {whose} {there / 2**30:.1f}: {remedy}")


def _limit_files(groups: Path, own: Path) -> list[Path]:
    """The files with the limits of the process's control groups, and of all groups that contain these."""
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in set(controllers.split(",")) & FILES.keys():
            folder = groups / controller / path.strip("/")
            files += [each / FILES[controller] for each in (folder, *folder.parents) if each.is_relative_to(groups)]
    return files


def _limit(file: Path) -> int | None:
    """The number in a file; None if there is no number, as for "max"."""
    try:
        return int(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def check_plan(context: Context, plan: Plan, records: Records) -> None:
    """Raises MemoryError if the chains, a stage, or draws of host stages need more memory than there is."""
    n, kind, settings = context.starts.layout.dim, jnp.result_type(float), context.settings
    chains = settings.num_chains
    check_memory(COPIES * n * kind.itemsize, chains, f"num_chains = {chains:,} chains", "use fewer chains")
    for stage in plan.stages:
        needs, what = stage.memory(context)
        check_memory(needs, 1, what, FEWER)
    positions = {POSITION: jax.ShapeDtypeStruct((chains, n), kind)}
    for name, draws in (("num_draws", settings.num_draws), ("num_warmup", settings.num_warmup // settings.thinning)):
        if plan.on_host and records.select(POSITION, name == "num_warmup"):
            check_draws(records, positions, draws, name)


def check_matrices(context: Context, plan: Plan, sizes: Sequence[int]) -> None:
    """Raises MemoryError if matrices need too much; `sizes` are the numbers of entries in each sampler's kernel."""
    n, size = context.starts.layout.dim, jnp.result_type(float).itemsize
    for sampler, numbers in zip(plan.samplers, sizes, strict=True):
        check_memory(COPIES * size * numbers, 1, f"the matrices of {sampler.name} on {n:,} coordinates", SMALLER)


def check_draws(records: Records, shapes: dict[str, jax.ShapeDtypeStruct], draws: int, argument: str) -> None:
    """Raises MemoryError if a sink that keeps everything in memory would need more than there is."""
    if not records.sink.durable:
        draw = sum(spec.size * spec.dtype.itemsize for spec in shapes.values())
        remedy = "use thinning, fewer draws or chains, or record=[...] to keep less"
        check_memory(draw, draws, f"{argument} = {draws:,} draws", remedy)


def needed(context: Context, records: Records, sizes: Sequence[int]) -> tuple[int, int]:
    """Approximate bytes on disk of all stored records, and bytes of memory that the run needs beside them."""
    n, settings = context.starts.layout.dim, context.settings
    one = jax.ShapeDtypeStruct((settings.num_chains, n), jnp.result_type(float))
    size = lambda tree: sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
    whole = size(jax.eval_shape(lambda x: (records.model.constrain(x), records.model.outputs(x)), one))
    draw, warmup = (
        STATISTICS * settings.num_chains + (each if records.select(POSITION, warmup) else 0)
        for each, warmup in ((whole, False), (size(one), True))
    )
    disk = draw * settings.num_draws + warmup * (settings.num_warmup // settings.thinning)
    judged = -(-settings.num_draws // spacing_of(settings.num_chains, settings.num_draws))
    matrices = one.dtype.itemsize * max(sizes, default=0)
    return disk, COPIES * (matrices + size(one)) + COPIES_JUDGED * judged * size(one) + 2 * BUFFER_BYTES
