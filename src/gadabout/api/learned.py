"""θ, the parameters that a run learned, labelled by the variables to which its axes belong."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import equinox as eqx
import numpy as np

from gadabout.driver import Engine
from gadabout.findings.draws import names_of
from gadabout.model import AbstractModel
from gadabout.sampler import Sampler, theta_by_name

if TYPE_CHECKING:
    import xarray as xr

AXES = ("coordinate", "other_coordinate")
"""names of the axes of a learned array that count coordinates: of the first such axis, and of the second"""
COUNTING = {"mean": (0,), "factor": (0, 1), "tails": (1,), "component_means": (1,), "component_factors": (1, 2)}
"""name of an array that the default learns → its axes that count coordinates"""


def learned_by_name(engine: Engine, model: AbstractModel) -> "xr.Dataset":
    """θ by its path in the kernel, with a leading chain axis if each chain learned its own.

    Axes that count coordinates of the flat, unconstrained position are called `coordinate`, or `other_coordinate` for a
    second one. They are labelled by variable, such as `mu` or `eta[Deerfield]`. All other axes are numbered.
    """
    import xarray as xr

    kernel = engine.theta()
    if kernel is None:
        return xr.Dataset()
    if engine.plan.on_host:
        return _of_arrays(kernel, coordinate_names(model))
    assert model.layout is not None
    n, names = model.layout.dim, coordinate_names(model)
    per_chain, variables = not engine.settings.pooled and engine.settings.num_chains > 1, {}
    smaller, larger = (_shapes(engine.sampler, size) for size in (n, n + 1))
    for name, leaf in theta_by_name(kernel).items():
        values, leading = (np.asarray(leaf), ["chain"]) if per_chain else (np.asarray(leaf)[0], [])
        shape = values.shape[len(leading) :]
        ours = smaller.get(name) == shape and name in larger and len(larger[name]) == len(shape)
        grows = np.not_equal(shape, larger[name]) if ours else np.equal(shape, n)
        counted, axes = iter(AXES), []
        for i, (size, own) in enumerate(zip(shape, grows, strict=True)):
            axes.append((next(counted, None) if own and size == n else None) or f"{name}_dim_{i}")
        variables[name] = ([*leading, *axes], values)
    used = {axis for axes, _ in variables.values() for axis in axes}
    return xr.Dataset(variables, {axis: names for axis in AXES if axis in used})


def _of_arrays(theta: Mapping[str, np.ndarray], names: list[str]) -> "xr.Dataset":
    """The arrays that the default learned, by name; axes that count coordinates are labelled with `names`."""
    import xarray as xr

    variables = {}
    for name, values in theta.items():
        counted, axes = iter(AXES), []
        for i in range(np.ndim(values)):
            axes.append(next(counted) if i in COUNTING.get(name, ()) else f"{name}_dim_{i}")
        variables[name] = (axes, np.asarray(values))
    used = {axis for axes, _ in variables.values() for axis in axes}
    return xr.Dataset(variables, {axis: names for axis in AXES if axis in used})


def coordinate_names(model: AbstractModel) -> list[str]:
    """The names of the flat position's coordinates, from the model's dims and coords where the shapes match."""
    import arviz_base

    layout = model.layout
    assert layout is not None
    parts = dict(zip(layout.free_names, layout.split(np.zeros((1, 1, layout.dim))).values(), strict=True))
    shapes = dict(zip(layout.free_names, layout.shapes, strict=True))
    fits = lambda name, dims: (
        len(dims) == len(shapes.get(name, ()))
        and all(
            len(model.coords[dim]) == size for dim, size in zip(dims, shapes[name], strict=True) if dim in model.coords
        )
    )
    dims = {name: list(dims) for name, dims in model.dims.items() if name in parts and fits(name, dims)}
    tree = arviz_base.from_dict({"posterior": parts}, dims=dims or None, coords=dict(model.coords) or None)
    return names_of(tree["posterior"].to_dataset())


def _shapes(sampler: Sampler, n: int) -> dict[str, tuple[int, ...]]:
    """The shapes of a sampler's θ for n coordinates, by name; empty if no kernel can be made for n."""
    try:
        theta = eqx.filter_eval_shape(lambda: theta_by_name(sampler.make_kernel(n, None)))
    except Exception:
        return {}
    return {name: leaf.shape for name, leaf in theta.items()}
