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
from gadabout.models.base import AbstractForeign
from gadabout.models.missing import needs
from gadabout.starts import Uniform
from gadabout.target import Target


def pymc(
    model: Any, *, dims: Mapping[str, Sequence[str]] | None = None, coords: Mapping[str, Any] | None = None
) -> "PyMCModel":
    """A PyMC model, as a model that `sample` takes: `gad.sample(gad.models.pymc(model))`.

    Names, dims, coords, observed data and deterministic variables are the model's; the group `posterior` has the
    variables themselves, `unconstrained_posterior` what PyMC calls their value variables. Chains start as in PyMC, at
    its initial point plus a jitter uniform on (−1, 1); `init` of `sample` takes values by variable. Data are part of
    the program, so that a model of other data compiles anew.

    Args:
        model: a `pymc.Model` whose free variables are continuous.
        dims: names of the dimensions of variables, beside the model's.
        coords: coordinates along dimensions, beside the model's.

    Raises:
        ImportError: if PyMC is not installed.
        TypeError, ValueError: for what is no PyMC model, one with discrete free variables, or one that PyTensor cannot
            translate to JAX.
    """
    needs("pymc", "pymc", "gadabout.models.pymc")
    with _precision_kept():
        import pymc.sampling.jax  # noqa: F401
        from pymc import Model
    if not isinstance(model, Model):
        raise TypeError(f"model must be a pymc.Model, got {shown(model)}")
    if model.discrete_value_vars:
        name = model.values_to_rvs[model.discrete_value_vars[0]].name
        raise ValueError(
            f"model: the free variable {name!r} is discrete; sum over it, by pymc_extras.marginalize for instance"
        )
    return PyMCModel(model, dims, coords)


@contextmanager
def _precision_kept():
    """PyTensor sets JAX to its own precision when it is imported, which is for the user to say."""
    before = jnp.result_type(float)
    try:
        yield
    finally:
        if jnp.result_type(float) != before:
            jax.config.update("jax_enable_x64", before == jnp.float64)


class Graph(eqx.Module):
    """A PyTensor graph of value variables as a function of (position, data), told from others by its identity."""

    function: Callable = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    outputs: tuple[str, ...] | None = eqx.field(static=True, default=None)
    """the names of what it returns; None for one value alone"""

    def __call__(self, position, data):
        with warnings.catch_warnings():  # its float64 is what JAX is set to
            warnings.filterwarnings("ignore", "Explicitly requested dtype")
            values = self.function(*(position[name] for name in self.names))
        return values[0] if self.outputs is None else dict(zip(self.outputs, values, strict=True))


class Jittered:
    """PyMC's start: its initial point, by variable, plus a uniform jitter on (−1, 1)."""

    def __init__(self, point: Mapping[str, np.ndarray]):
        self.point = dict(point)
        self.jitter = Uniform(tuple((name, np.shape(value)) for name, value in point.items()), radius=1.0)

    def __call__(self, key):
        jitter = self.jitter(key)
        return {name: jnp.asarray(value, float) + jitter[name] for name, value in self.point.items()}


class PyMCModel(AbstractForeign):
    """What `gadabout.models.pymc` makes."""

    def __init__(self, model: Any, dims: Any, coords: Any):
        from pymc.util import get_default_varnames

        self._model = model
        self._names = tuple(rv.name for rv in model.free_RVs)
        point = model.initial_point()
        point = {rv.name: np.asarray(point[model.rvs_to_values[rv].name]) for rv in model.free_RVs}
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
        own_dims = {
            name: [dim or f"{name}_dim_{i}" for i, dim in enumerate(dims)]
            for name, dims in model.named_vars_to_dims.items()
            if name in shapes
        }
        own_coords = {dim: np.asarray(values) for dim, values in model.coords.items() if values is not None}
        free = {name: value.shape for name, value in point.items()}
        super().__init__(model.name or "model", free, shapes, own_dims, own_coords, observed, (dims, coords))
        self.start = Jittered(point)

    def _graph(self, outputs: Sequence[Any], names: Sequence[str] | None) -> Graph:
        from pymc.sampling.jax import get_jaxified_graph

        try:
            function = get_jaxified_graph(inputs=self._model.value_vars, outputs=list(outputs))
        except NotImplementedError as error:
            raise ValueError(f"model: PyTensor cannot translate it to JAX: {error}") from error
        order = tuple(self._model.values_to_rvs[value].name for value in self._model.value_vars)
        return Graph(function, order, None if names is None else tuple(names))

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
        return dict(zip(self._names, function(*position.values()), strict=True))

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

    def predictions(self, keys, x):
        raise TypeError("model: draws of data are PyMC's; use pymc.sample_posterior_predictive with the result")


def _values(variable: Any) -> np.ndarray:
    """The data of an observed variable, which are a constant, a shared variable, or made of them."""
    return np.asarray(variable.data if hasattr(variable, "data") else variable.eval())
