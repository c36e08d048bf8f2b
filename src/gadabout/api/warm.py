"""What a finished run hands to the next: where its chains stood, and what it learned of the target."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gadabout.adaptations import NoAdaptation
from gadabout.factors import Cholesky, Diagonal
from gadabout.layout import Layout, layout_of
from gadabout.sampler import Learned, theta_by_name
from gadabout.schedule import Plan

if TYPE_CHECKING:
    import xarray as xr

LARGEST_DENSE = 1_000
"""coordinates up to which the covariance of the draws is kept whole"""


def learned_from(tree: Any, layout: Any) -> Learned:
    """Mean and covariance of the draws of a result, and its θ by name.

    Raises TypeError for what is no result of `sample`, ValueError where its variables are not the model's.
    """
    x = _draws(tree, layout)
    n = x.shape[-1]
    mean, centred = x.mean(0), x - x.mean(0)
    variances = np.maximum(centred.var(0, ddof=1), np.finfo(float).tiny) if len(x) > 1 else np.ones(n)
    factor = Diagonal(jnp.asarray(np.sqrt(variances), dtype=float))
    if len(x) > 2 * n and n <= LARGEST_DENSE:
        covariance = centred.T @ centred / (len(x) - 1) + 1e-9 * np.diag(variances)
        factor = Cholesky(jnp.asarray(np.linalg.cholesky(covariance), dtype=float))
    theta = {str(name): jnp.asarray(leaf.values) for name, leaf in tree["learned"].data_vars.items()}
    return Learned(jnp.asarray(mean, dtype=float), factor, theta)


def suited(learned: Learned, tree: "xr.DataTree", plan: Plan) -> Learned:
    """What of it a plan begins with: θ if the same sampler has learned all of it, else mean and covariance alone.

    θ goes with the factor that it was learned with, be that the one a kernel begins with in a first run or in a later
    one; a step size of one and a covariance of the other would not fit together. Numbers that nothing learns are what
    the user has set now, not what they were then.
    """
    assert learned.mean is not None
    sampler, n = plan.samplers[-1], learned.mean.size
    learns = all(each is sampler for each in plan.samplers) and not isinstance(sampler.adaptation, NoAdaptation)
    if learns and tree.attrs.get("sampler") == plan.name:
        shapes = {name: jnp.shape(leaf) for name, leaf in learned.theta.items()}
        for known in (Learned(learned.mean, learned.factor), Learned(learned.mean)):
            own = eqx.filter_eval_shape(lambda known: theta_by_name(sampler.make_kernel(n, known)), known)
            if {name: leaf.shape for name, leaf in own.items()} == shapes:
                return replace(known, theta=learned.theta)
    return Learned(learned.mean, learned.factor)


def layout_from(tree: Any) -> Layout:
    """The layout of a result's positions: a dict of its variables, or the bare array where `x` is the only one.

    Raises TypeError for what is no result of `sample`.
    """
    _check(tree)
    variables = {str(name): values for name, values in tree["posterior"].data_vars.items()}
    position = {name: jax.ShapeDtypeStruct(values.shape[2:], values.dtype) for name, values in variables.items()}
    return layout_of(position["x"] if list(position) == ["x"] else position, "warm_start")


def last_positions(tree: "xr.DataTree", layout: Any, num_chains: int) -> PyTree:
    """One position for each of `num_chains` chains: where chains stood last, then earlier draws, evenly spread."""
    chains = [np.asarray(tree["posterior"][name].values) for name in layout.names]
    own, draws = chains[0].shape[:2]
    chain = np.arange(num_chains) % own
    draw = draws - 1 - (np.arange(num_chains) // own) * draws // (-(-num_chains // own))
    return jax.tree.unflatten(layout.structure, [values[chain, draw] for values in chains])


def _draws(tree: Any, layout: Any) -> np.ndarray:
    """All draws as flat positions, (draws, n)."""
    _check(tree)
    parts = []
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        values = tree["posterior"].data_vars.get(name)
        if values is None or values.shape[2:] != shape:
            found = {str(k): v.shape[2:] for k, v in tree["posterior"].data_vars.items()}
            raise ValueError(f"warm_start has the variables {found}, the model needs {name!r} of shape {shape}")
        parts.append(np.asarray(values.values, float).reshape(-1, int(np.prod(shape))))
    return np.concatenate(parts, -1)


def _check(tree: Any) -> None:
    import xarray as xr

    if not isinstance(tree, xr.DataTree) or not {"posterior", "learned"} <= set(tree.children):
        raise TypeError(f"warm_start must be a result of gadabout.sample, with its draws, got {type(tree).__name__}")
