"""Checks whether a log density that is passed again is that of a stored run."""

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np

from gadabout.density import density_for
from gadabout.driver import Settings, log_densities
from gadabout.model import AbstractModel
from gadabout.schedule import Plan
from gadabout.store import Manifest, StoreError, digest

SAME = 1e-6
"""largest relative difference at which log densities, at the first positions of a run, count as the same"""
ROUNDINGS = 1_000
"""largest error of a difference of log π between positions, in roundings of log π"""
SAME_GRADIENT = {"float64": 1e-9, "float32": 1e-4}
"""float type → largest error of a partial derivative, relative to the largest one over all chains"""


def check_model(
    manifest: Manifest, model: AbstractModel, start: dict[str, np.ndarray] | None, plan: Plan, settings: Settings
) -> None:
    """Raises StoreError if data, or log densities at the run's first positions, are not those of the run.

    It compares log densities, their differences between positions, which are free of constants, and gradients.
    """
    if digest(model.target.data) != manifest.data:
        raise StoreError("data: they are not those of the run, by their checksum; pass the same again")
    if start is None or model.feed(manifest.seed) is not None:
        return
    there, positions, slopes = start["log_densities"], start["positions"], start.get("gradients")
    if plan.on_host:  # with the programs that the continued run uses
        assert model.layout is not None
        how = settings.num_chains, settings.mesh, settings.chain_block
        here, gradients = density_for(model.target, model.layout, *how).value_and_grad(positions)
    else:
        found = log_densities(model.target, jnp.asarray(positions), 0 if slopes is None else 1)
        here, gradients = (None if values is None else np.asarray(values) for values in found)
    assert here is not None
    if (problem := _other_values(here, there, manifest.float_type)) is not None:
        raise StoreError(f"logdensity: {problem}; pass the same log density again")
    if slopes is not None and (problem := _other_gradients(gradients, slopes, manifest.float_type)) is not None:
        labels = model.layout.labels if model.layout is not None else None
        chain, coordinate, now, then = problem
        what = coordinate if labels is None else labels[coordinate]
        raise StoreError(
            f"logdensity: its derivative by {what} is {now:.9g} where chain {chain} started, and was {then:.9g} in the "
            "run; pass the same log density again"
        )
    same = slopes is None or (gradients is not None and np.array_equal(gradients, slopes))
    if not (same and np.array_equal(here, there)):
        warnings.warn("logdensity: its values differ from the run's by rounding: bits may differ", stacklevel=3)


def _other_values(here: np.ndarray, there: np.ndarray, float_type: str) -> str | None:
    """The difference of log densities of chains beyond rounding, in words; None if there is none."""
    apart = ~(np.abs(here - there) <= SAME * np.maximum(1, np.abs(there)))
    if apart.any():
        chain = int(np.argmax(apart))
        return f"it is {here[chain]:.9g} where chain {chain} started, and was {there[chain]:.9g} in the run"
    now, then = (values.astype(float) - values.astype(float)[0] for values in (here, there))
    rounding = ROUNDINGS * np.finfo(float_type).eps * np.maximum(1, np.abs(there) + np.abs(there[0]))
    apart = np.abs(now - then) > rounding
    if not apart.any():
        return None
    chain = int(np.argmax(apart))
    return (
        f"it differs by {now[chain]:.9g} between the starts of chains {chain} and 0, and did by {then[chain]:.9g} in "
        "the run"
    )


def _other_gradients(here: Any, there: np.ndarray, float_type: str) -> tuple[int, int, float, float] | None:
    """A chain and a coordinate where gradients differ by more than rounding, and both values; None if there is none."""
    apart = ~(np.abs(here - there) <= SAME_GRADIENT[float_type] * np.maximum(1, np.abs(there).max(0)))
    if not apart.any():
        return None
    chain, coordinate = np.unravel_index(np.argmax(apart), apart.shape)
    return int(chain), int(coordinate), float(here[chain, coordinate]), float(there[chain, coordinate])
