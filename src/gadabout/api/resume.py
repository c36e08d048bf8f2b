"""To go on with a stored run."""

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import PyTree

from gadabout.api import stored
from gadabout.api.running import carry_out, check_alike, sink_for
from gadabout.api.same_model import check_model
from gadabout.checks import check_function, check_truth, check_whole, shown
from gadabout.driver import Progress
from gadabout.driver.processes import in_step
from gadabout.model import AbstractModel
from gadabout.sampler import Sampler
from gadabout.schedule import Plan
from gadabout.store import StoreError, ZarrSink, start_of
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
    """Goes on with a run that `sample` stored by `out`, from its last checkpoint, to the draws it would have made.

    A run that was killed, interrupted or ran out of disk ends on the same bits as one that was left alone. One that has
    ended is returned as it is, or goes on to more draws.

    Args:
        path: the store.
        logdensity: the log density or model of the run: no store can hold it, nor its data. It is compared with the
            run's at the positions where chains started, the data by their checksum.
        sampler: the run's sampler, where it was made of objects that a store cannot hold, such as a custom optimiser.
        data: the run's data, if a log density takes any.
        num_draws: how many draws of each chain there are to be in all; the run's own number by default.
        devices: as in `sample`; as many as the run's by default.
        progress: whether to show progress on stderr.
        callback: called with a `Progress` between chunks of iterations.

    Returns:
        The result, as `sample` returns it.

    Raises:
        FileNotFoundError: where there is no store.
        StoreError (a ValueError): where the store is damaged, being written by another run, or not of what was passed.
        CheckpointError (a ValueError): where no checkpoint can be believed.
        TypeError, ValueError: for an argument that is out of range, or missing.
        RunStopped, MemoryError: as `sample` does.
    """
    began = time.perf_counter()
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be that of a stored run, such as 'run.zarr', got {shown(path)}")
    store, wanted = Path(path), None if num_draws is None else check_whole("num_draws", num_draws)
    check_truth("progress", progress)
    observer = None if callback is None else check_function("callback", callback, "of a Progress")
    manifest = stored.manifest_of(store)
    ending, made = how_far(store)
    if wanted is not None and wanted < made:
        raise ValueError(f"num_draws must be at least the {made:,} draws that the run has made, got {wanted:,}")
    if ending in ("completed", "satisfied") and (wanted is None or wanted == made):
        check_store(store, manifest)
        return opened(store)
    stored.check_here(manifest)
    plan = stored.plan_again(manifest, sampler)
    model = stored.model_again(manifest, logdensity, data)
    model.check(plan)
    layout = stored.layout_again(manifest, model)
    model = model.laid_out(layout)
    settings = stored.settings_again(manifest, wanted, ending, devices)
    check_alike(model, plan, settings, manifest.seed, manifest.settings["record"])
    sink = sink_for(settings, store, lambda: ZarrSink(store, model.dims, model.coords))
    try:
        start = start_of(store, manifest)
        if start is None:
            raise StoreError(f"{str(store)!r} {stored.NOT_BEGUN}")
        check_model(manifest, model, start, plan, settings)
        in_step(settings.mesh, lambda: stored.note_settings(store, manifest, settings))
    except BaseException:
        sink.close()
        raise
    return carry_out(
        model, plan, settings, manifest.seed, sink, stored.starts_again(manifest, layout, start),
        stored.learned_again(store), record=manifest.settings["record"], progress=progress, callback=observer,
        began=began, checkpoint=sink.last,
    )  # fmt: skip
