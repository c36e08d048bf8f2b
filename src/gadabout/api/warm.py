"""What a finished run hands to the next: where its chains stood, and what it learned of the target."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from gadabout.factors import Cholesky, Diagonal
from gadabout.sampler import Learned

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


def last_positions(tree: "xr.DataTree", layout: Any, num_chains: int) -> PyTree:
    """One position for each of `num_chains` chains: where chains stood last, then earlier draws, evenly spread."""
    chains = [np.asarray(tree["posterior"][name].values) for name in layout.names]
    own, draws = chains[0].shape[:2]
    chain = np.arange(num_chains) % own
    draw = draws - 1 - (np.arange(num_chains) // own) * draws // (-(-num_chains // own))
    return jax.tree.unflatten(layout.structure, [values[chain, draw] for values in chains])


def _draws(tree: Any, layout: Any) -> np.ndarray:
    """All draws as flat positions, (draws, n)."""
    import xarray as xr

    if not isinstance(tree, xr.DataTree) or not {"posterior", "learned"} <= set(tree.children):
        raise TypeError(f"warm_start must be a result of gadabout.sample, with its draws, got {type(tree).__name__}")
    parts = []
    for name, shape in zip(layout.names, layout.shapes, strict=True):
        values = tree["posterior"].data_vars.get(name)
        if values is None or values.shape[2:] != shape:
            found = {str(k): v.shape[2:] for k, v in tree["posterior"].data_vars.items()}
            raise ValueError(f"warm_start has the variables {found}, the model needs {name!r} of shape {shape}")
        parts.append(np.asarray(values.values, float).reshape(-1, int(np.prod(shape))))
    return np.concatenate(parts, -1)
