"""Arguments of the front door that more than their own value decides: samplers, data, what to record."""

from collections.abc import Callable, Collection
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gadabout.driver import POSITION, Sampler


def checked_sampler(sampler: Any) -> Sampler:
    """The sampler, with its settings in the float type that JAX is set to now; raises TypeError for anything else."""
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a recipe's result, such as gadabout.gad_mala(), got {sampler!r}")
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float) if eqx.is_inexact_array(leaf) else leaf, sampler)


def checked_data(data: PyTree) -> PyTree:
    """The data as JAX arrays; raises ValueError where a leaf holds NaN or infinity."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        values = np.asarray(leaf)
        if np.issubdtype(values.dtype, np.inexact) and not np.isfinite(values).all():
            raise ValueError(
                f"data{jax.tree_util.keystr(path)} holds {(~np.isfinite(values)).sum()} values that are NaN or "
                "infinite; remove or impute them"
            )
    return jax.tree.map(jnp.asarray, data)


def derivatives_needed(sampler: Sampler, n: int) -> int:
    """Derivatives of the log density that the sampler takes, learning included."""
    kernel = eqx.filter_eval_shape(sampler.make_kernel, n)
    return max(kernel.order, int(kernel.gradient_evaluations(True) > 0))


def selection(record: Collection[str] | None, offered: Collection[str]) -> Callable[[str, bool], bool]:
    """Whether to keep a record, by its name and whether it is of warm-up; None keeps all.

    Positions go by the names "posterior" and "warmup_posterior". Raises TypeError for a bare string, ValueError for
    a name that is not offered.
    """
    if isinstance(record, str):
        raise TypeError(f"record must be a collection of names, got the string {record!r}; write record=[{record!r}]")
    names = {"posterior", "warmup_posterior", *offered} - {POSITION}
    for name in record or ():
        if name not in names:
            raise ValueError(f"record: {name!r} is not recorded by this sampler; choose from {sorted(names)}")
    position = {True: "warmup_posterior", False: "posterior"}
    return lambda name, warmup: record is None or (position[warmup] if name == POSITION else name) in record
