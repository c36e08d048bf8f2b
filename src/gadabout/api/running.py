"""From an engine to a result: the part that `sample` and `resume` share."""

import os
import signal
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp

from gadabout.api.checks import selection
from gadabout.api.result import RunStopped, to_datatree
from gadabout.driver import (
    AbstractSink,
    Checkpoint,
    Ending,
    Engine,
    Failed,
    Interrupted,
    Progress,
    Records,
    Settings,
    deferred_interrupt,
    devices,
    display,
)
from gadabout.files import PACKAGE
from gadabout.findings import category
from gadabout.model import AbstractModel
from gadabout.sampler import Learned, for_layout
from gadabout.schedule import Plan
from gadabout.starts import NoFiniteStart, Starts
from gadabout.store import FollowedSink, ZarrSink, digest
from gadabout.store.arrays import opened
from gadabout.store.runs import settings_as_told

if TYPE_CHECKING:
    import xarray as xr


def carry_out(
    model: AbstractModel,
    plan: Plan,
    settings: Settings,
    seed: int,
    sink: AbstractSink,
    starts: Starts,
    learned: Learned | None,
    *,
    record: Collection[str] | None,
    progress: bool,
    callback: Callable[[Progress], object] | None,
    began: float,
    checkpoint: Checkpoint | None = None,
) -> "xr.DataTree":
    """Runs an engine to its end and returns its result, which is in the store if the sink is one.

    Raises what `sample` raises. A store without draws and checkpoints is then removed.
    """
    plan = for_layout(plan, model.layout)
    stored = sink if isinstance(sink, ZarrSink) else None
    mesh, progress = settings.mesh, progress and devices.leads(settings.mesh)
    observers = _observers(stored, callback, progress)
    if stored is not None:
        stored.arrays.attributes = _begun(plan, seed)
    try:
        with deferred_interrupt(*([] if not sink.durable else [signal.SIGTERM])) as interrupted:
            engine = Engine(
                model, plan, settings, seed, Records(model, sink), starts,
                learned=learned, observers=observers, interrupted=interrupted, began=began, feed=model.feed(seed),
            )  # fmt: skip
            engine.records.select = selection(record, engine.offered)
            engine.compile()
            import_module("xarray")  # takes about as long as the compilation, which runs in threads
            ending = engine.drive(checkpoint)
            if isinstance(ending, Interrupted) and engine.pipeline.iterations == 0:
                raise KeyboardInterrupt
            account = {"seed": seed, **settings_as_told(settings), "seconds_total": time.perf_counter() - began}
            tree = _result(engine, ending, model, account)
    except BaseException as error:
        if stored is not None and checkpoint is None and stored.empty:
            stored.remove()
        if isinstance(error, NoFiniteStart) and (why := model.impossible(error.x)):
            raise ValueError(f"{str(error).partition(';')[0]}; {why}") from error
        raise
    finally:
        if stored is not None:
            stored.close()
    if progress:
        _tell(engine, ending, stored)
    if interrupted.signum == signal.SIGTERM:
        os.kill(os.getpid(), signal.SIGTERM)  # the sender of the signal wants the process to end
    if isinstance(ending, Failed):
        raise RunStopped(ending.reason, tree) from engine.pipeline.cause
    if devices.leads(mesh):
        _warn(tree)
    return tree


def _observers(
    stored: ZarrSink | None, callback: Callable[[Progress], object] | None, progress: bool
) -> list[Callable[[Progress], object]]:
    """The functions that are called with a run's progress: those of the display, the user and the store."""
    observers: list[Callable[[Progress], object]] = [display()] if progress else []
    if callback is not None:
        observers.append(callback)
    if stored is not None:
        observers.append(stored.saw)
        stored.tell = _say if progress else stored.tell
    return observers


def _begun(plan: Plan, seed: int) -> dict[str, Any]:
    """The attributes of a store whose run has not ended."""
    return {"inference_library": "gadabout", "sampler": plan.name, "seed": seed, "ending": "running"}


def _tell(engine: Engine, ending: Ending, stored: ZarrSink | None) -> None:
    """Prints which move made the draws and why, and how to continue an interrupted run."""
    if "why" in engine.evidence:
        _say(f"draws by {engine.evidence['why']}")
    if isinstance(ending, Interrupted) and stored is not None:
        _say(f"the run goes on by `gadabout resume {stored.path}`, or gadabout.resume({str(stored.path)!r}, ...)")


def _warn(tree: "xr.DataTree") -> None:
    """Issues a warning for each finding, at the line of the user's file."""
    for finding, message in zip(tree.attrs["findings"], tree.attrs["warnings"], strict=True):
        warnings.warn(message, category(finding["kind"]), skip_file_prefixes=(str(PACKAGE),))


def _result(engine: Engine, ending: Ending, model: AbstractModel, account: dict[str, Any]) -> "xr.DataTree":
    """The result, in every process; a stored one is written by one process and opened by the others."""
    sink = engine.records.sink
    if not isinstance(sink, FollowedSink):
        return devices.in_step(engine.settings.mesh, lambda: to_datatree(engine, ending, model, account))
    devices.in_step(engine.settings.mesh, lambda: (engine.theta(), engine.verdict()))  # the calls of `to_datatree`
    return opened(sink.path)


def sink_for(settings: Settings, path: Path, make: Callable[[], ZarrSink]) -> ZarrSink | FollowedSink:
    """The store, made or opened by `make` in the leading process; a `FollowedSink` of it in the other processes."""
    made = devices.in_step(settings.mesh, make if devices.leads(settings.mesh) else lambda: None)
    return FollowedSink(path) if made is None else made


def check_alike(
    model: AbstractModel, plan: Plan, settings: Settings, seed: int, record: Collection[str] | None
) -> None:
    """Raises ValueError if the processes of a run were called with different arguments."""
    if devices.several(settings.mesh):
        assert model.layout is not None
        chosen = None if record is None else sorted(record)
        told = (
            settings_as_told(settings),
            seed,
            chosen,
            model.layout.names,
            model.layout.shapes,
            str(jnp.result_type(float)),
        )
        said = repr((plan.name, digest(plan), digest(model.target.data), told))
        devices.check_alike(settings.mesh, zlib.crc32(said.encode()))


def _say(text: str) -> None:
    print(f"gadabout: {text}", file=sys.stderr, flush=True)
