"""Checks of arguments that need more than their own value: samplers, models, data, names of records, devices."""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PyTree

from gadabout import algorithms, named
from gadabout.api.mistaken import check_data_is_taken, refuse_foreign, refuse_table
from gadabout.checks import check_devices, check_whole, shown
from gadabout.driver import CHAINS, POSITION
from gadabout.model import AbstractModel, Model
from gadabout.sampler import Sampler
from gadabout.schedule import Plan, plan_of


def checked_plan(sampler: Any) -> Plan:
    """The plan of a sampler, with its settings in JAX's current float type.

    Raises TypeError if `sampler` is neither a sampler nor a plan.
    """
    if not isinstance(sampler, Sampler | Plan):
        name = getattr(sampler, "__name__", "")
        got = f"the function {name}: call it, {name}()" if name in vars(algorithms) else shown(sampler)
        raise TypeError(f"sampler must be a recipe's result, such as gadabout.gad_mala(), got {got}")
    own = jnp.result_type(float)
    other = lambda leaf: eqx.is_inexact_array(leaf) and (leaf.dtype != own or not isinstance(leaf, jax.Array))
    retyped = lambda leaf: jnp.asarray(leaf, own) if other(leaf) else leaf
    return plan_of(jax.tree.map(retyped, sampler))


def checked_model(model: Any, data: PyTree, dims: Any, coords: Any) -> AbstractModel:
    """The model, made of a log density and its data if it is not one; raises TypeError if data are given twice."""
    if isinstance(model, AbstractModel):
        for name, value in (("data", data), ("dims", dims), ("coords", coords)):
            if value is not None:
                raise TypeError(f"{name}: a {type(model).__name__} has its own; leave the argument out")
        return model
    refuse_foreign(model)
    refuse_table(data)
    if not callable(model):
        raise TypeError(f"logdensity must be a function of a position, or a gadabout.Model, got {shown(model)}")
    arrays = checked_data(data)
    if not getattr(model, "on_host", False):
        check_data_is_taken(model, data)
    return Model(model, data=arrays, dims=dims, coords=coords)


def checked_data(data: PyTree) -> PyTree:
    """The data as JAX arrays. Raises ValueError if a leaf holds NaN, TypeError if a leaf is not made of numbers."""
    arrays = named.checked_data(data)
    for path, leaf in jax.tree_util.tree_leaves_with_path(arrays):
        values, name = np.asarray(leaf), f"data{jax.tree_util.keystr(path)}"
        if np.issubdtype(values.dtype, np.inexact) and np.isnan(values).any():
            raise ValueError(f"{name} holds {np.isnan(values).sum()} values that are NaN; remove or impute them")
    return arrays


def selection(record: Collection[str] | None, offered: Callable[[], Collection[str]]) -> Callable[[str, bool], bool]:
    """A predicate (name, warmup) that says whether to keep a record; if `record` is None it keeps all.

    Positions have the names "posterior" and "warmup_posterior". `offered` returns all other names. It traces the log
    density and is therefore called only after a start was found, so that errors in the density are reported first.

    Raises TypeError if `record` is not a collection of strings, ValueError if it is empty. The predicate raises
    ValueError at its first call if `record` has a name that is not offered.
    """
    if isinstance(record, str):
        raise TypeError(f"record must be a collection of names, got the string {record!r}; write record=[{record!r}]")
    if record is not None and not isinstance(record, Collection):
        raise TypeError(f"record must be a collection of names, such as ['posterior', 'lp'], got {shown(record)}")
    if record is None:
        return lambda name, warmup: True
    if not len(record):
        raise ValueError("record is empty: nothing of the run would be kept; name what to keep, such as ['posterior']")
    for name in record:
        if not isinstance(name, str):
            raise TypeError(f"record must hold names, such as 'lp', got {shown(name)}")

    @cache
    def chosen() -> Collection[str]:
        names = positions = {"posterior", "warmup_posterior"}
        if not positions.issuperset(record):  # tracing all samplers of a plan is slow
            names = positions.union(offered()) - {POSITION}
        for name in record:
            if name not in names:
                raise ValueError(f"record: {name!r} is not recorded by this sampler; choose from {sorted(names)}")
        return record

    position = {True: "warmup_posterior", False: "posterior"}
    return lambda name, warmup: (position[warmup] if name == POSITION else name) in chosen()


def laid_over(devices: int | Sequence[Any] | None, chain_block: int | None, num_chains: int) -> Mesh | None:
    """The mesh of devices over which chains are divided; None for JAX's default device.

    Raises ValueError if there are too few devices, or if chains do not divide evenly among them and into blocks.
    """
    devices = None if devices is None else check_devices(devices)
    taking_part = {jax.process_index()} if devices is None else {device.process_index for device in devices}
    if taking_part not in ({jax.process_index()}, set(range(jax.process_count()))):
        raise ValueError(
            f"devices belong to the processes {sorted(taking_part)} of {jax.process_count()}; use jax.devices(), those "
            "of all processes, or jax.local_devices(), this one's own"
        )
    over = 1 if devices is None else len(devices)
    if num_chains % over:
        raise ValueError(
            f"devices={over} must divide num_chains={num_chains}; use {over * -(-num_chains // over)} chains"
        )
    if chain_block is not None and (num_chains // over) % check_whole("chain_block", chain_block):
        raise ValueError(f"chain_block={chain_block} must divide the {num_chains // over} chains of each device")
    return None if devices is None else Mesh(np.array(devices), (CHAINS,))
