"""Models: each has a flat target and maps flat positions back to the user's variables."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, PyTree

from gadabout.calls import called
from gadabout.checks import check_function
from gadabout.executables import edition, traced_as
from gadabout.indices import beyond_an_axis
from gadabout.layout import Layout, in_order, layout_of, shapes_of
from gadabout.named import OWN, check_coords, check_names, checked_coords, checked_data, checked_dims, checked_observed
from gadabout.precision import whole_products
from gadabout.target import Target
from gadabout.transforms import transforms_of

MOST_SHOWN = 8
"""most variables that the repr of a model names"""


class AbstractModel(ABC):
    """A density that can be sampled: a flat, unconstrained `target`, a `layout`, and the user's variables.

    The log density takes a position of the layout. For models of other libraries these are unconstrained values, which
    `given` computes from the user's. A `Model` takes the user's own values; its `transforms` are in the layout.

    `layout` is None if only a start position determines the form of positions (see `laid_out`).
    """

    name: str = "model"
    origin: Mapping[str, Any] = {}
    """how the command line found the model; stored with a run, so that the model can be found again"""
    layout: Layout | None = None
    position: PyTree = None
    """a position around which chains may start, if the model has no `start`; None if there is none"""
    dims: Mapping[str, Sequence[str]]
    coords: Mapping[str, Any]
    observed: Mapping[str, Any]
    constant: Mapping[str, Any] = {}
    """other data by name"""
    _traced: dict[Any, tuple[Any, int]] | None = None
    """the order of the entries that functions of positions return, and their editions; renewed by `laid_out`"""

    def __repr__(self) -> str:
        """One line with the class, the name, the number of coordinates, and the first variables with their shapes."""
        if self.layout is None:
            return f"<{type(self).__name__} {self.name!r}, not laid out>"
        found = [f"{name} {shape}" for name, shape in zip(self.layout.names, self.layout.shapes, strict=True)]
        more = [f"{len(found) - MOST_SHOWN} more"] if len(found) > MOST_SHOWN else []
        variables = ", ".join(found[:MOST_SHOWN] + more)
        return f"<{type(self).__name__} {self.name!r}, {self.layout.dim:,} coordinates: {variables}>"

    @property
    def starts_itself(self) -> bool:
        """Whether the model has a start of its own."""
        return type(self).start is not AbstractModel.start or "start" in vars(self)

    @property
    @abstractmethod
    def target(self) -> Target:
        """log π of a flat position, with the model's layout."""

    def given(self, position: PyTree) -> PyTree:
        """The position of the layout that corresponds to a user's position; in JAX, so that it can be traced."""
        return position

    def layout_for(self, position: PyTree, argument: str) -> Layout:
        """The layout of positions with these arrays or shapes: the model's own layout if it fits."""
        layout, own = self._layout_of(position, argument), self.layout
        by_name = own is not None and own.by_name and layout.by_name
        return own if own is not None and by_name and _shapes(own) == _shapes(layout) else layout

    def _layout_of(self, position: PyTree, argument: str) -> Layout:
        return layout_of(position, argument)

    def laid_out(self, layout: Layout) -> Self:
        """The model for positions of a layout; raises ValueError if the model has a different one.

        Functions of positions are traced anew, because values that they read may have changed since an earlier run.
        """
        if self.layout is not None:
            if (self.layout.names, self.layout.shapes) != (layout.names, layout.shapes):
                raise ValueError(
                    f"init has the leaves {_leaves(layout)}, the model {_leaves(self.layout)}; start with a position "
                    "like the model's own"
                )
            layout = self.layout
        model = copy(self)
        model.layout, model._traced = layout, {}
        return model

    def start(self, key: Key[Array, ""], /) -> PyTree:
        """A position of the layout to start from; raises TypeError if the model has no start of its own."""
        raise TypeError(f"init: {self.name} has no start of its own; pass a position, or a function of a key")

    def constrain(self, x: Any) -> dict[str, Any]:
        """The user's variables by name, from flat positions (..., n): arrays of JAX or NumPy of shape (..., *shape)."""
        assert self.layout is not None
        return self.layout.variables(x)

    def each(self, name: str, function: Any, data: PyTree, x: Any, *keys: Any) -> PyTree:
        """Values of a function of (position, data) or (key, position, data) at flat positions; leading axes are kept.

        `name` identifies the function. It is traced anew once for each model that was laid out, and compiled anew only
        if its program has changed. Dicts keep the order in which they were written.
        """
        assert self.layout is not None, "models are laid out before they are run"
        x, known = jnp.asarray(x), {} if self._traced is None else self._traced
        if (name, x.dtype) not in known:
            known[name, x.dtype] = _traced_anew(function, data, self.layout, x, keys)
        like, edition = known[name, x.dtype]
        return in_order(like, _each(function, data, self.layout, edition, x, *keys))

    def outputs(self, x: Any) -> dict[str, dict[str, Any]]:
        """Further groups of the result, such as `log_likelihood`, from flat positions (..., n)."""
        return {}

    def impossible(self, x: Any) -> str:
        """How the observed data explain that the log density is not finite at x, in words; empty if they do not."""
        for name, values in self.observed.items():
            values = np.asarray(values)
            if values.dtype.kind == "f" and np.isnan(values).any():
                missing = int(np.isnan(values).sum())
                return f"the observed {name!r} holds {missing} values that are NaN; remove or impute them"
        return ""

    @property
    def plain(self) -> bool:
        """Whether the variables are the coordinates of the flat position, and nothing else is computed from them."""
        return False

    @property
    def predicts(self) -> bool:
        """Whether every result includes one draw of data for each draw."""
        return False

    def predictions(self, keys: Key[Array, "*draws"], x: Float[Array, "*draws n"]) -> dict[str, Any]:
        """Draws of data by name, arrays (*draws, *shape), for flat positions with one key each."""
        raise TypeError(f"model: {self.name} draws no data; give it `predict`, a function (key, position)")

    def predicting(self, names: Collection[str]) -> "AbstractModel":
        """The model that draws data given draws of the named variables; by default this model."""
        return self

    def feed(self, seed: int) -> Any:
        """The source of a run's batches; None if there are no batches."""
        return None

    def check(self, plan: Any) -> None:  # noqa: B027
        """Raises ValueError for a plan that cannot run on the model."""

    def account(self, feed: Any) -> dict[str, Any]:
        """Entries of a result's attributes about the model."""
        return {}


class Model(AbstractModel):
    """A log density in JAX; data and all other arguments are optional.

    Args:
        log_density: log π of a position, or of (position, data) if there are data; a scalar.
        position: an example of a position, a pytree of arrays or of their shapes. If it consists of finite numbers and
            there is no `start`, chains start around it when `init` of `sample` is None.
        data: a pytree of arrays. Other data of the same shape need no new compilation.
        transforms: the constraints of variables, by name: "positive", "unit_interval", "simplex", "ordered",
            "positive_ordered", "corr_cholesky", "corr_matrix", "lower_cholesky", "positive_definite", bounds (low,
            high) of which one may be None, or a constraint of `numpyro.distributions`. Chains move without constraints.
            All functions given here use constrained values, and so does `init`; the logarithm of the Jacobian is added
            to the log density. The group `unconstrained_posterior` holds the free coordinates.
        start: a function of a key that draws a start position, so that `init` may be omitted.
        dims: the names of the dimensions of variables, by variable.
        coords: the coordinates along named dimensions.
        log_likelihood: log p(y_i | θ) of (position) or (position, data): an array, or a dict of arrays by name; stored
            in the group `log_likelihood`.
        outputs: other values to store, of (position) or (position, data), a dict of arrays by name; stored in the group
            `posterior` beside the variables.
        observed: the observed data by name, for the group `observed_data`.
        predict: a draw of data, of (key, position) or (key, position, data): an array, or a dict of arrays by name; one
            for each draw is stored in the group `posterior_predictive`.

    Raises:
        TypeError, ValueError: for an invalid argument.
        ImportError: for transforms without NumPyro, which provides them.
    """

    def __init__(
        self,
        log_density: Callable[..., Any],
        position: PyTree = None,
        *,
        data: PyTree = None,
        transforms: Mapping[str, Any] | None = None,
        start: Callable[[Any], PyTree] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
        log_likelihood: Callable[..., Any] | None = None,
        outputs: Callable[..., Any] | None = None,
        observed: Mapping[str, Any] | None = None,
        predict: Callable[..., Any] | None = None,
    ):
        if isinstance(log_density, type):
            raise TypeError(f"logdensity must be a function of a position, got the class {log_density.__name__}")
        self.log_density = check_function("logdensity", log_density)
        functions = {"start": start, "log_likelihood": log_likelihood, "outputs": outputs, "predict": predict}
        for name, function in functions.items():
            if function is not None:
                check_function(name, function)
        self.data = checked_data(data)
        self.dims, self.coords = checked_dims(dims), checked_coords(coords)
        self.observed = checked_observed(observed)
        self.transforms = transforms_of(transforms)
        self._log_likelihood, self._outputs, self._predict = log_likelihood, outputs, predict
        if start is not None:
            self.start = start
        elif _is_finite(position):
            self.position = position
        if position is None and start is not None:
            position = called("start", "of a key", lambda key: shapes_of(start, key), jax.random.key(0))
        self.layout = None if position is None else self._layout_of(_arrays(position), "position")

    @property
    def target(self) -> Target:
        return Target(self.log_density, self.data, self.layout)

    def _layout_of(self, position, argument):
        return layout_of(position, argument, self.transforms)

    def laid_out(self, layout):
        model = super().laid_out(replace(layout, transforms=self.transforms))
        one = jax.ShapeDtypeStruct((1, layout.dim), jnp.result_type(float))
        constrained, more = jax.eval_shape(model.constrain, one), jax.eval_shape(model.outputs, one)
        _check_outputs(more.get("posterior", {}), constrained)
        groups = {"posterior": constrained, "log_likelihood": more.get("log_likelihood"), "more": more.get("posterior")}
        shapes = {path[-1].key: leaf.shape[1:] for path, leaf in jax.tree_util.tree_leaves_with_path(groups)}
        shapes |= {name: np.shape(values) for name, values in self.observed.items()}
        check_names(self.dims, self.coords, shapes)
        check_coords(self.coords, self.dims, shapes)
        model._check_indices()
        return model

    def _check_indices(self) -> None:
        """Raises ValueError if the log density reads beyond the end of an axis, for which JAX raises no error."""
        target, found = self.target, None
        assert self.layout is not None
        x = jax.ShapeDtypeStruct((self.layout.dim,), jnp.result_type(float))
        if not getattr(self.log_density, "on_host", False):
            with suppress(Exception):  # errors of tracing are explained when the run traces it
                found = beyond_an_axis(lambda data, x: target.with_data(data).log_density(x), self.data, x)
        if found is not None:
            index, length = found
            raise ValueError(
                f"logdensity uses the index {index} along an axis of length {length}, where JAX reads another place; "
                "check the shapes of init and data, and that indices count from 0"
            )

    def outputs(self, x):
        groups, layout = {}, self.layout
        assert layout is not None, "models are laid out before they are run"
        if self._log_likelihood is not None:
            values = self._each("log_likelihood", self._log_likelihood, x)
            groups["log_likelihood"] = values if isinstance(values, dict) else {"log_likelihood": values}
        if self._outputs is not None:
            values = self._each("outputs", self._outputs, x)
            if not isinstance(values, dict):
                raise TypeError(f"outputs must return a dict of arrays by name, got a {type(values).__name__}")
            groups["posterior"] = values
        if layout.transforms:
            free = layout.split(x).values()
            groups["unconstrained_posterior"] = dict(zip(layout.free_names, free, strict=True))
        return groups

    @property
    def plain(self):
        return not self.transforms and self._log_likelihood is None and self._outputs is None

    @property
    def predicts(self):
        return self._predict is not None

    def predictions(self, keys, x):
        if self._predict is None:
            return super().predictions(keys, x)
        values = self._each("predict", self._predict, x, keys)
        return values if isinstance(values, dict) else {"y": values}

    def _each(self, name: str, function: Any, x: Any, *keys: Any) -> PyTree:
        """The values of a user's function at every position."""
        return self.each(name, Partial(_called, name, function), self.data, x, *keys)


def _check_outputs(outputs: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
    """Raises ValueError for an output with the name of a variable or of a dimension of every result."""
    for name in outputs:
        if name in variables or name in OWN:
            whose = "a variable" if name in variables else "a dimension of every result"
            raise ValueError(f"outputs has {name!r}, the name of {whose}; call it something else")


def _is_finite(position: PyTree) -> bool:
    """Whether a position consists of finite numbers, and not of shapes."""
    leaves = jax.tree.leaves(position)
    numbers = all(isinstance(leaf, np.ndarray | np.generic | jax.Array | float | int) for leaf in leaves)
    real = numbers and all(np.asarray(leaf).dtype.kind in "biuf" for leaf in leaves)
    return bool(leaves) and real and all(np.isfinite(np.asarray(leaf, float)).all() for leaf in leaves)


def _arrays(position: PyTree) -> PyTree:
    array = lambda leaf: leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return in_order(position, jax.tree.map(array, position))


def _shapes(layout: Layout) -> dict[str, tuple[int, ...]]:
    return dict(zip(layout.names, layout.shapes, strict=True))


def _leaves(layout: Layout) -> str:
    return ", ".join(f"{name}: {shape}" for name, shape in zip(layout.names, layout.shapes, strict=True))


def _called(name: str, function: Callable, *arguments: Any) -> PyTree:
    """The value of a user's function of ([key], position, data), called without the data if there are none."""
    *key, position, data = arguments
    own = () if data is None else (data,)
    words = [*(["key"] if key else []), "position", *(["data"] if own else [])]
    return called(name, f"({', '.join(words)})" if words[1:] else "of a position", function, *key, position, *own)


def _traced_anew(function: Any, data: PyTree, layout: Layout, x: Array, keys: tuple) -> tuple[Any, int]:
    """The entries of a function's value in the order they were written, if it is a dict, else None; and its edition."""
    written: list[PyTree] = []

    def one(function, data, layout, row, *key):
        written.append(function(*key, layout.unravel(row), data))
        return written[-1]

    row, key = jax.ShapeDtypeStruct(x.shape[-1:], x.dtype), [jax.ShapeDtypeStruct((), key.dtype) for key in keys]
    found = edition(one, function, data, layout, row, *key)
    return dict.fromkeys(written[-1]) if type(written[-1]) is dict else None, found


@eqx.filter_jit
@whole_products()
def _each(function: Any, data: PyTree, layout: Layout, edition: int, x: Float[Array, "*draws n"], *keys: Any) -> PyTree:
    """The values of a function, traced for its edition, at every flat position."""
    one = lambda row, *key: function(*key, layout.unravel(row), data)
    with traced_as(edition):
        values = jax.vmap(one)(x.reshape(-1, x.shape[-1]), *(key.reshape(-1) for key in keys))
    return jax.tree.map(lambda leaf: leaf.reshape(*x.shape[:-1], *leaf.shape[1:]), values)
