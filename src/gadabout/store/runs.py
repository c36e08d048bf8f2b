"""Stored runs: how one begins, and the comparisons and data with which it continues."""

import json
import os
import shutil
import warnings
from collections.abc import Collection
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.tree_util import Partial

from gadabout.algorithms.recipe import call_of, rebuilt
from gadabout.checks import shown
from gadabout.driver import Settings
from gadabout.driver.devices import leads
from gadabout.factors import Cholesky, Diagonal
from gadabout.files import json_value
from gadabout.layout import Layout
from gadabout.model import AbstractModel
from gadabout.sampler import Learned, Sampler
from gadabout.schedule import Plan
from gadabout.starts import Starts
from gadabout.store.arrays import HIDDEN
from gadabout.store.checkpoints import Checkpoints, read_arrays, write_arrays
from gadabout.store.integrity import check_arrays
from gadabout.store.manifest import (
    MANIFEST,
    Manifest,
    StoreError,
    differing,
    digest,
    layout_from_json,
    layout_to_json,
)
from gadabout.store.sink import ZarrSink, start_of

LEARNED = "learned.npz"
NOT_BEGUN = "was stopped before it began; remove it, and start the run again"
PRNG = ("jax_default_prng_impl", "jax_threefry_partitionable")
"""settings of JAX that determine the numbers of its keys"""
PACKAGES = ("gadabout", "jax", "numpy")


def check_destination(out: str | os.PathLike, mesh: Mesh | None = None) -> Path:
    """The destination of a result, checked before the run: it must not exist, and its folder must.

    Of several processes only the leader checks the folder.

    Raises:
        TypeError: if it is not a path.
        FileExistsError, FileNotFoundError: with the remedy.
        ValueError: if the name has another format than zarr.
    """
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f"out must be the path of a zarr store, such as 'run.zarr', got {shown(out)}")
    path = Path(out)
    if not leads(mesh):
        return path
    if path.suffix != ".zarr":
        raise ValueError(f"out must name a zarr store, such as run.zarr, got {str(out)!r}")
    if os.path.lexists(path):
        raise FileExistsError(f"out: {str(out)!r} exists already; remove it or choose another name")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"out: the folder {str(path.parent)!r} does not exist; create it first")
    return path


def begin(
    path: Path,
    model: AbstractModel,
    plan: Plan,
    sampler: Sampler | Plan,
    settings: Settings,
    seed: int,
    record: Collection[str] | None,
    learned: Learned | None,
    tries: int,
) -> ZarrSink:
    """A new store with all arguments of a run; raises OSError if it cannot be made, and leaves nothing behind."""
    assert model.layout is not None
    manifest = Manifest(
        {name: version(name) for name in PACKAGES},
        str(jnp.result_type(float)),
        seed,
        settings_as_told(settings) | {"record": None if record is None else sorted(record)},
        layout_to_json(model.layout),
        {
            "name": model.name,
            "origin": dict(model.origin),
            "dims": {name: list(names) for name, names in model.dims.items()},
            "tries": tries,
            "coords": {name: json_value(np.asarray(labels)) for name, labels in model.coords.items()},
        },
        digest(model.target.data),
        call_of(sampler),
        _told(plan),
        {name: getattr(jax.config, name) for name in PRNG},
    )
    try:
        hidden = ZarrSink.create(path)
        manifest.write(hidden / MANIFEST)
        if learned is not None:
            write_arrays(hidden / LEARNED, _as_arrays(learned))
        return ZarrSink(path, model.dims, model.coords)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def manifest_of(path: Path) -> Manifest:
    """The manifest of a stored run.

    Raises FileNotFoundError if there is nothing at `path`, StoreError if it is not a stored run.
    """
    if not path.is_dir():
        raise FileNotFoundError(f"path: there is no store {str(path)!r}; check the name")
    return Manifest.read(path / HIDDEN / MANIFEST)


def check_here(manifest: Manifest) -> None:
    """Raises StoreError if JAX has another float type or other settings of keys; warns of other package versions."""
    here = str(jnp.result_type(float))
    if manifest.float_type != here:
        wanted = manifest.float_type == "float64"
        raise StoreError(
            f"the run is in {manifest.float_type}, JAX is set to {here}: "
            f"call jax.config.update('jax_enable_x64', {wanted}) first"
        )
    for name in PRNG:
        if (now := getattr(jax.config, name)) != manifest.prng.get(name):
            raise StoreError(
                f"the run has {name}={manifest.prng.get(name)!r}, JAX is set to {now!r}, which gives other draws: "
                f"call jax.config.update({name!r}, {manifest.prng.get(name)!r}) first"
            )
    others = differing(manifest.versions, {name: version(name) for name in PACKAGES})
    if others:
        warnings.warn(f"the run was made by other versions, so that bits may differ: {', '.join(others)}", stacklevel=3)


def check_plan(manifest: Manifest, plan: Plan) -> None:
    """Raises StoreError if a plan differs from the run's."""
    given = _told(plan)
    if given["name"] != manifest.plan["name"]:
        raise StoreError(f"sampler: the run's is {manifest.plan['name']!r}, got {given['name']!r}; pass the same again")
    others = differing(manifest.plan["settings"], given["settings"])
    if others or given["digest"] != manifest.plan["digest"]:
        what = "; ".join(others) or "its arrays are others"
        raise StoreError(f"sampler: it differs from the run's: {what}; pass the same again")


def obstacle(path: Path, manifest: Manifest) -> str:
    """Why a run that has stopped cannot continue from its store, in the words of `resume`; empty if it can.

    Warns if the run would continue from the checkpoint before the last one.
    """
    try:
        if start_of(path, manifest) is None:
            return f"{str(path)!r} {NOT_BEGUN}"
        if (kept := Checkpoints(path / HIDDEN).last()) is not None:
            check_arrays(path, kept.rows, kept.arrays)
        if manifest.sampler is not None:
            rebuilt(manifest.sampler)
    except (ValueError, MemoryError) as error:
        return str(error)
    return ""


def layout_again(manifest: Manifest, model: AbstractModel) -> Layout:
    """The layout of the run's positions; raises StoreError if neither the store nor the model has it."""
    layout = layout_from_json(manifest.layout) or model.layout
    if layout is None:
        raise StoreError(
            "logdensity: the run's positions are of a type that a store cannot hold; pass a gadabout.Model with an "
            "example of a `position`"
        )
    return layout


def starts_again(manifest: Manifest, layout: Layout, start: dict[str, np.ndarray]) -> Starts:
    """The start positions of a run's chains; `tries`, which says whether they were given or drawn, stays the same."""
    positions = start["positions"]
    rows = lambda rng, chains: positions
    return Starts(Partial(_given, jnp.asarray(positions)), manifest.model["tries"], layout, rows)


def settings_as_told(settings: Settings) -> dict[str, Any]:
    """The settings in the form that a result and a manifest hold."""
    names = ("num_chains", "num_warmup", "num_draws", "thinning")
    until = {} if settings.until is None else {"until": asdict(settings.until)}
    adapt = "pooled" if settings.pooled else "per-chain"
    over = {"devices": settings.mesh.size} if settings.mesh is not None else {}
    over |= {"chain_block": settings.chain_block} if settings.chain_block is not None else {}
    return {**{name: getattr(settings, name) for name in names}, "adapt": adapt, **over, **until}


def note_settings(path: Path, manifest: Manifest, settings: Settings) -> None:
    """Stores the settings with which a run continues; of several processes only the leader does."""
    told = settings_as_told(settings) | {"record": manifest.settings["record"]}
    if told != manifest.settings and leads(settings.mesh):
        replace(manifest, settings=told).write(path / HIDDEN / MANIFEST)


def learned_again(path: Path) -> Learned | None:
    """Knowledge of the target before the run, from the store; None if there was none."""
    file = path / HIDDEN / LEARNED
    if not file.exists():
        return None
    arrays = {name: jnp.asarray(values) for name, values in read_arrays(file).items()}
    mean, factor = arrays.pop("mean", None), arrays.pop("factor", None)
    theta = {name.removeprefix("theta/"): values for name, values in arrays.items()}
    return Learned(mean, None if factor is None else (Cholesky if factor.ndim == 2 else Diagonal)(factor), theta)


def _as_arrays(learned: Learned) -> dict[str, np.ndarray]:
    arrays = {f"theta/{name}": np.asarray(values) for name, values in learned.theta.items()}
    if learned.mean is not None:
        arrays["mean"] = np.asarray(learned.mean)
    if learned.factor is not None:
        (arrays["factor"],) = map(np.asarray, jax.tree.leaves(learned.factor))
    return arrays


def _told(plan: Plan) -> dict[str, Any]:
    """The name, settings and digest that distinguish a plan from others."""
    settings = json.loads(json.dumps(plan.settings)) | {"stages": [type(stage).__name__ for stage in plan.stages]}
    return {"name": plan.name, "settings": settings, "digest": digest(plan)}


def _given(positions, key, chain):
    return positions[chain]
