"""The handover from a finished run to the next: where its chains ended, and what it learned of the target."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gadabout.adaptations import NoAdaptation
from gadabout.api.flat import flat_draws
from gadabout.factors import Cholesky, Diagonal
from gadabout.sampler import Learned, theta_by_name
from gadabout.schedule import Plan

if TYPE_CHECKING:
    import xarray as xr

LARGEST_DENSE = 1_000
"""largest number of coordinates for which the full covariance of the draws is kept"""


def learned_from(tree: Any, layout: Any) -> Learned:
    """Mean and covariance of the draws of a result, and its θ by name.

    Raises TypeError if `tree` is not a result of `sample`, ValueError if its variables are not those of the model.
    """
    x = flat_draws(tree, layout)
    x = x.reshape(-1, x.shape[-1])
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
    """The part of `learned` that a plan begins with: mean and covariance, and θ if the same sampler learned all of it.

    θ is kept with the kind of factor that it was learned with: the one that a kernel begins with in a first run, or the
    one in a later run. A step size of one and a covariance of the other would not fit together. Numbers that are not
    learned have the user's current values, not those of the earlier run.
    """
    assert learned.mean is not None
    if plan.on_host:
        return Learned(learned.mean, learned.factor)
    sampler, n = plan.samplers[-1], learned.mean.size
    learns = all(each is sampler for each in plan.samplers) and not isinstance(sampler.adaptation, NoAdaptation)
    if learns and tree.attrs.get("sampler") == plan.name:
        shapes = {name: jnp.shape(leaf) for name, leaf in learned.theta.items()}
        for known in (Learned(learned.mean, learned.factor), Learned(learned.mean)):
            own = eqx.filter_eval_shape(lambda known: theta_by_name(sampler.make_kernel(n, known)), known)
            if {name: leaf.shape for name, leaf in own.items()} == shapes:
                return replace(known, theta=learned.theta)
    return Learned(learned.mean, learned.factor)


def last_positions(tree: "xr.DataTree", layout: Any, num_chains: int) -> PyTree:
    """One position for each of `num_chains` chains: the last ones of all chains, then evenly spaced earlier draws."""
    chains = [np.asarray(tree["posterior"][name].values) for name in layout.names]
    own, draws = chains[0].shape[:2]
    chain = np.arange(num_chains) % own
    draw = draws - 1 - (np.arange(num_chains) // own) * draws // (-(-num_chains // own))
    return layout.position({name: values[chain, draw] for name, values in zip(layout.names, chains, strict=True)})
