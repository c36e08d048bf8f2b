"""Continuation of a stored run."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import PyTree

from gadabout.algorithms.recipe import rebuilt
from gadabout.api.checks import checked_model, checked_plan, laid_over
from gadabout.api.running import carry_out, check_alike, sink_for
from gadabout.api.same_model import check_model
from gadabout.checks import check_function, check_truth, check_whole, shown
from gadabout.driver import Progress, Settings, Until
from gadabout.driver.devices import in_step
from gadabout.model import AbstractModel
from gadabout.sampler import Sampler
from gadabout.schedule import Plan
from gadabout.store import Manifest, StoreError, ZarrSink, runs, start_of
from gadabout.store.arrays import opened
from gadabout.store.integrity import check_store, how_far

if TYPE_CHECKING:
    import xarray as xr


def resume(
    path: str | os.PathLike,
    logdensity: AbstractModel | Callable[..., Any] | None = None,
    sampler: Sampler | Plan | None = None,
    data: PyTree = None,
    num_draws: int | None = None,
    *,
    devices: int | Sequence[Any] | None = None,
    progress: bool = True,
    callback: Callable[[Progress], object] | None = None,
) -> "xr.DataTree":
    """Continues a run that `sample` stored with `out`, from its last checkpoint, to the draws it would have made.

    A run that was killed, interrupted or ran out of disk ends with the same bits as an undisturbed one. A run that has
    ended is returned as it is, or continues to more draws.

    Args:
        path: the store.
        logdensity: the log density or model of the run; a store can hold neither it nor its data. Log densities are
            compared with the run's at the starting positions of the chains, the data by their checksum.
        sampler: the run's sampler, if it was made of objects that a store cannot hold, such as a custom optimiser.
        data: the run's data, if the log density takes any.
        num_draws: the total number of draws of each chain; the run's own number by default.
        devices: as in `sample`; as many as the run's by default.
        progress: whether to show progress on stderr.
        callback: called with a `Progress` between chunks of iterations.

    Returns:
        The result, as `sample` returns it.

    Raises:
        FileNotFoundError: if there is no store.
        StoreError (a ValueError): if the store is damaged, written by another run, or does not match the arguments.
        CheckpointError (a ValueError): if no checkpoint is valid.
        TypeError, ValueError: if an argument is out of range or missing.
        RunStopped, MemoryError: as in `sample`.
    """
    began = time.perf_counter()
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be that of a stored run, such as 'run.zarr', got {shown(path)}")
    store, wanted = Path(path), None if num_draws is None else check_whole("num_draws", num_draws)
    check_truth("progress", progress)
    observer = None if callback is None else check_function("callback", callback, "of a Progress")
    manifest = runs.manifest_of(store)
    ending, made = how_far(store)
    if wanted is not None and wanted < made:
        raise ValueError(f"num_draws must be at least the {made:,} draws that the run has made, got {wanted:,}")
    if ending in ("completed", "satisfied") and (wanted is None or wanted == made):
        check_store(store, manifest)
        return opened(store)
    runs.check_here(manifest)
    plan = _plan(manifest, sampler)
    model = _model(manifest, logdensity, data)
    model.check(plan)
    layout = runs.layout_again(manifest, model)
    model = model.laid_out(layout)
    settings = _settings(manifest, wanted, ending, devices)
    check_alike(model, plan, settings, manifest.seed, manifest.settings["record"])
    sink = sink_for(settings, store, lambda: ZarrSink(store, model.dims, model.coords))
    try:
        start = start_of(store, manifest)
        if start is None:
            raise StoreError(f"{str(store)!r} {runs.NOT_BEGUN}")
        check_model(manifest, model, start, plan, settings)
        in_step(settings.mesh, lambda: runs.note_settings(store, manifest, settings))
    except BaseException:
        sink.close()
        raise
    return carry_out(
        model, plan, settings, manifest.seed, sink, runs.starts_again(manifest, layout, start),
        runs.learned_again(store), record=manifest.settings["record"], progress=progress, callback=observer,
        began=began, checkpoint=sink.last,
    )  # fmt: skip


def _plan(manifest: Manifest, sampler: Sampler | Plan | None) -> Plan:
    """The run's plan, stored or passed again; raises StoreError if missing or another, TypeError if no sampler."""
    if sampler is None:
        if manifest.sampler is None:
            name = manifest.plan["name"]
            raise StoreError(f"sampler: {name!r} was made of objects that a store cannot hold; pass it again")
        sampler = rebuilt(manifest.sampler)
    plan = checked_plan(sampler)
    runs.check_plan(manifest, plan)
    return plan


def _model(manifest: Manifest, logdensity: Any, data: PyTree) -> AbstractModel:
    """The run's model, passed again, with the names of its dimensions; raises StoreError if it is not passed."""
    if logdensity is None:
        raise StoreError(f"logdensity: a store cannot hold that of {manifest.model['name']!r}; pass it again")
    if isinstance(logdensity, AbstractModel):
        return checked_model(logdensity, data, None, None)
    return checked_model(logdensity, data, manifest.model["dims"] or None, manifest.model["coords"] or None)


def _settings(manifest: Manifest, num_draws: int | None, ending: str, devices: Any = None) -> Settings:
    """The run's settings, with `num_draws` if that is given; a rule that was met is then left out.

    Chains are divided among as many devices as in the run unless `devices` is given. Raises ValueError if that fails.
    """
    plain = dict(manifest.settings)
    until = plain.get("until")
    if num_draws is not None and ending == "satisfied":
        until = None
    settings = Settings(
        plain["num_chains"], plain["num_warmup"], plain["num_draws"], plain["thinning"], plain["adapt"] == "pooled",
        None if until is None else Until(**until),
        laid_over(plain.get("devices") if devices is None else devices, plain.get("chain_block"), plain["num_chains"]),
        plain.get("chain_block"),
    )  # fmt: skip
    return settings if num_draws is None else replace(settings, num_draws=num_draws)
