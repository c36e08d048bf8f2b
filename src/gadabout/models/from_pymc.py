"""PyMC models, through PyTensor's translation to JAX."""

# pyright: reportMissingImports=false

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gadabout.checks import shown
from gadabout.models.base import AbstractForeign, impossible_values
from gadabout.models.missing import needs
from gadabout.starts import Uniform
from gadabout.target import Target

RADIAL = 2
"""k of the density r^k exp(−k r²/2) of radii, with which neither flat nor narrow angles are hard to sample"""


def pymc(
    model: Any, *, dims: Mapping[str, Sequence[str]] | None = None, coords: Mapping[str, Any] | None = None
) -> "PyMCModel":
    """A PyMC model, as a model that `sample` takes: `gad.sample(gad.models.pymc(model))`.

    Names, dims, coords, observed data and deterministic variables are the model's. The group `posterior` holds the
    variables, `unconstrained_posterior` PyMC's value variables. Chains start as in PyMC, at its initial point plus a
    jitter uniform on (−1, 1); `init` of `sample` takes values by variable. Data are part of the program: a model with
    other data is compiled anew, and later changes by `pymc.set_data` take effect. An angle, as of `pymc.VonMises`, is
    sampled as that of a point in the plane, whose coordinates are unconstrained.

    Args:
        model: a `pymc.Model` whose free variables are continuous.
        dims: names of the dimensions of variables, in addition to the model's.
        coords: coordinates along dimensions, in addition to the model's.

    Raises:
        ImportError: if PyMC is not installed.
        TypeError, ValueError: if `model` is not a PyMC model, has discrete free variables, a `Minibatch` or a
            `Simulator`, or if PyTensor cannot translate it to JAX.
    """
    needs("pymc", "pymc", "gadabout.models.pymc")
    with precision_kept():
        import pymc.sampling.jax  # noqa: F401
        from pymc import Model
    if not isinstance(model, Model):
        raise TypeError(f"model must be a pymc.Model, got {shown(model)}")
    return PyMCModel(model, dims, coords)


def _refuse(model: Any) -> None:
    """Raises ValueError for a model whose density is not a fixed function of real numbers."""
    from pymc.data import MinibatchOp
    from pymc.distributions.simulator import SimulatorRV
    from pytensor.graph.traversal import ancestors

    if model.discrete_value_vars:
        name = model.values_to_rvs[model.discrete_value_vars[0]].name
        raise ValueError(
            f"model: the free variable {name!r} is discrete; sum over it, by pymc_extras.marginalize for instance"
        )
    for rv in model.basic_RVs:
        if isinstance(rv.owner.op, SimulatorRV):
            raise ValueError(f"model: {rv.name!r} is a Simulator, which has no density; use pymc.sample_smc")
        if any(v.owner and isinstance(v.owner.op, MinibatchOp) for v in ancestors([rv, model.rvs_to_values[rv]])):
            raise ValueError(
                f"model: {rv.name!r} has a Minibatch, other rows each time; pass all rows, or use gadabout.Minibatches"
            )


@contextmanager
def precision_kept():
    """Context that restores JAX's float precision, which the import of PyTensor changes; users choose the precision."""
    before = jnp.result_type(float)
    try:
        yield
    finally:
        if jnp.result_type(float) != before:
            jax.config.update("jax_enable_x64", before == jnp.float64)


class Graph(eqx.Module):
    """A PyTensor graph of value variables as a function of (position, data), compared by its identity."""

    function: Callable = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    angles: tuple[str, ...] = eqx.field(static=True)
    """variables that are angles; their positions are points in the plane"""
    outputs: tuple[str, ...] | None = eqx.field(static=True)
    """the names of the values that it returns; None for the log density alone"""

    def __call__(self, position, data):
        values = {name: _angle(position[name]) if name in self.angles else position[name] for name in self.names}
        with warnings.catch_warnings():  # float64 in the graph means JAX's current float type
            warnings.filterwarnings("ignore", "Explicitly requested dtype")
            found = self.function(*values.values())
        if self.outputs is None:
            return found[0] + sum(_log_of_radius(position[name]) for name in self.angles)
        return dict(zip(self.outputs, found, strict=True))


def _angle(points: Any) -> Any:
    return jnp.arctan2(points[..., 1], points[..., 0])


def _log_of_radius(points: Any) -> Any:
    """The log density of points in the plane with uniform angles and the density r^k exp(−k r²/2) of the radius."""
    square = jnp.sum(points**2, -1)
    return 0.5 * jnp.sum((RADIAL - 1) * jnp.log(square) - RADIAL * square)


class Jittered:
    """PyMC's start: its initial point, by variable, plus a uniform jitter on (−1, 1)."""

    def __init__(self, point: Mapping[str, np.ndarray]):
        self.point = dict(point)
        self.jitter = Uniform(tuple((name, np.shape(value)) for name, value in point.items()), radius=1.0)

    def __call__(self, key):
        jitter = self.jitter(key)
        return {name: jnp.asarray(value, float) + jitter[name] for name, value in self.point.items()}


class PyMCModel(AbstractForeign):
    """The model that `gadabout.models.pymc` returns."""

    def __init__(self, model: Any, dims: Any, coords: Any):
        from pymc.logprob.transforms import CircularTransform
        from pymc.util import get_default_varnames

        _refuse(model)
        self._model, self._named, self._data = model, (dims, coords), _data_of(model)
        self._names = tuple(rv.name for rv in model.free_RVs)
        circular = lambda rv: isinstance(model.rvs_to_transforms[rv], CircularTransform)
        self._angles = tuple(rv.name for rv in model.free_RVs if circular(rv))
        point = model.initial_point()
        point = {rv.name: np.asarray(point[model.rvs_to_values[rv].name]) for rv in model.free_RVs}
        point |= {name: _on_circle(point[name]) for name in self._angles}
        variables = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
        constrained = [variable for variable in variables if variable.name in self._names]
        more = [variable for variable in variables if variable.name not in self._names]
        observed = {rv.name: _values(model.rvs_to_values[rv]) for rv in model.observed_RVs}
        shapes = model.eval_rv_shapes()
        shapes = {name: tuple(shapes[name]) for name in self._names}
        self._constrain = self._graph(constrained, [variable.name for variable in constrained])
        self._more = self._graph(more, [variable.name for variable in more]) if more else None
        likelihood = model.logp(model.observed_RVs, sum=False) if model.observed_RVs else []
        self._likelihood = self._graph(likelihood, list(observed)) if likelihood else None
        self.density = self._graph([model.logp()], None)
        like = {name: jnp.asarray(value, float) for name, value in point.items()}
        for graph in (self._more, self._likelihood):
            found = {} if graph is None else jax.eval_shape(graph, like, None)
            shapes |= {name: tuple(leaf.shape) for name, leaf in found.items()}
        shapes |= {name: np.shape(values) for name, values in self._constants().items()}
        own_dims = {
            name: [dim or f"{name}_dim_{i}" for i, dim in enumerate(dims)]
            for name, dims in model.named_vars_to_dims.items()
            if name in shapes
        }
        own_coords = {dim: np.asarray(values) for dim, values in model.coords.items() if values is not None}
        free = {name: value.shape for name, value in point.items()}
        super().__init__(model.name or "model", free, shapes, own_dims, own_coords, observed, (dims, coords))
        self.constant = self._constants()
        self.start = Jittered(point)

    def _constants(self) -> dict[str, np.ndarray]:
        from pymc.backends.arviz import find_constants

        return {name: np.asarray(values) for name, values in find_constants(self._model).items()}

    def _again(self) -> "PyMCModel":
        return PyMCModel(self._model, *self._named)

    def laid_out(self, layout):
        now = _data_of(self._model)
        if now.keys() == self._data.keys() and all(np.array_equal(now[name], self._data[name]) for name in now):
            return super().laid_out(layout)
        for name, values in now.items():
            if values.dtype.kind == "f" and (bad := int(np.isnan(values).sum())):
                raise ValueError(f"model: the data {name!r} hold {bad} values that are NaN; remove or impute them")
        anew = self._again()
        assert anew.layout is not None
        if anew.layout.shapes != layout.shapes:
            raise ValueError(
                "model: other data have made variables of other shapes; convert it anew by gadabout.models"
            )
        return anew.laid_out(layout)

    def _graph(self, outputs: Sequence[Any], names: Sequence[str] | None) -> Graph:
        from pymc.sampling.jax import get_jaxified_graph

        try:
            function = get_jaxified_graph(inputs=self._model.value_vars, outputs=list(outputs))
        except NotImplementedError as error:
            raise ValueError(f"model: PyTensor cannot translate it to JAX: {error}") from error
        order = tuple(self._model.values_to_rvs[value].name for value in self._model.value_vars)
        return Graph(function, order, self._angles, None if names is None else tuple(names))

    @property
    def target(self):
        return Target(self.density, (), self.layout)

    def unconstrain(self, position):
        from pymc.sampling.jax import get_jaxified_graph
        from pytensor.graph.replace import graph_replace

        model = self._model
        values = {rv: rv.type(name=rv.name) for rv in model.free_RVs}
        outputs = []
        for rv in model.free_RVs:
            transform = model.rvs_to_transforms[rv]
            free = values[rv] if transform is None else transform.forward(values[rv], *rv.owner.inputs)
            outputs.append(free)
        outputs = graph_replace(outputs, values, strict=False)
        function = get_jaxified_graph(inputs=list(values.values()), outputs=outputs)  # pyright: ignore
        free = dict(zip(self._names, function(*position.values()), strict=True))
        return free | {name: _on_circle(free[name]) for name in self._angles}

    def constrain(self, x):
        assert self.layout is not None
        values = self.each("constrain", self._constrain, (), x)
        return {name: values[name] for name in self._names}

    def outputs(self, x):
        assert self.layout is not None
        groups = {"unconstrained_posterior": self.free(x)}
        for group, graph in (("posterior", self._more), ("log_likelihood", self._likelihood)):
            if graph is not None and graph.outputs:
                values = self.each(group, graph, (), x)
                groups[group] = {name: values[name] for name in graph.outputs}
        return groups

    def impossible(self, x):
        if (said := super().impossible(x)) or self._likelihood is None:
            return said
        assert self.layout is not None
        likelihood = self._likelihood(self.layout.unravel(jnp.asarray(x, float)), None)
        return impossible_values(likelihood)

    def predictions(self, keys, x):
        raise TypeError("model: draws of data are PyMC's; use pymc.sample_posterior_predictive with the result")


def _on_circle(angles: Any) -> Any:
    return jnp.stack([jnp.cos(angles), jnp.sin(angles)], -1)


def _data_of(model: Any) -> dict[str, np.ndarray]:
    """The data that `pymc.set_data` can change."""
    return {variable.name: np.array(_values(variable)) for variable in model.data_vars}


def _values(variable: Any) -> np.ndarray:
    """The value of an observed or data variable: a constant, a shared variable, or an expression of them."""
    if hasattr(variable, "get_value"):
        return np.asarray(variable.get_value())
    return np.asarray(variable.data if hasattr(variable, "data") else variable.eval())
