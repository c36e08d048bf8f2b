"""What users bring: models, each with a flat target and the way back to what its variables are called."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from gadabout.calls import called
from gadabout.checks import check_function
from gadabout.layout import Layout, layout_of
from gadabout.named import by_name, check_names, checked_coords, checked_data, checked_dims
from gadabout.target import Target


class AbstractModel(ABC):
    """A density that can be sampled: a flat, unconstrained `target`, a `layout`, and the user's variables.

    `layout` is None where only a position to start from can tell what positions look like (see `laid_out`).
    """

    name: str = "model"
    origin: Mapping[str, Any] = {}
    """how the command line found it; a stored run keeps that, so that it can be found again"""
    layout: Layout | None = None
    dims: Mapping[str, Sequence[str]]
    coords: Mapping[str, Any]
    observed: Mapping[str, Any]

    @property
    @abstractmethod
    def target(self) -> Target:
        """log π of a flat position, with the model's layout."""

    def laid_out(self, layout: Layout) -> Self:
        """The model for positions of a layout; raises ValueError where it has another one."""
        if self.layout is not None:
            if (self.layout.names, self.layout.shapes) != (layout.names, layout.shapes):
                raise ValueError(
                    f"init has the leaves {_leaves(layout)}, the model {_leaves(self.layout)}; start with a position "
                    "like the model's own"
                )
            return self
        model = copy(self)
        model.layout = layout
        return model

    def start(self, key: Key[Array, ""]) -> PyTree:
        """A position to start from; raises TypeError where the model has none of its own."""
        raise TypeError(f"init: {self.name} has no start of its own; pass a position, or a function of a key")

    def constrain(self, x: Any) -> dict[str, Any]:
        """The user's variables by name, from flat positions (..., n): arrays of JAX or NumPy of shape (..., *shape)."""
        assert self.layout is not None
        return self.layout.split(x)

    def outputs(self, x: Any) -> dict[str, dict[str, Any]]:
        """More groups of the result, such as `log_likelihood`, from flat positions (..., n)."""
        return {}

    def feed(self, seed: int) -> Any:
        """Where the batches of a run come from; None where the data are all there."""
        return None

    def check(self, samplers: Sequence[Any]) -> None:  # noqa: B027
        """Raises ValueError for samplers that cannot run on the model."""

    def account(self, feed: Any) -> dict[str, Any]:
        """What a result says of the model."""
        return {}


class Model(AbstractModel):
    """A log density in JAX with its data, and as much of the following as there is.

    Args:
        log_density: log π of a position, or of (position, data) where there are data; a scalar.
        position: an example of a position, a pytree of arrays or of their shapes; what `init` of `sample` is like if
            it is None.
        data: a pytree of arrays. Other data of the same shape compile nothing anew.
        start: a function of a key that draws a position to start from, so that `init` may be left out.
        dims: the names of the dimensions of variables, by variable.
        coords: the coordinates along named dimensions.
        log_likelihood: log p(y_i | θ) of (position) or (position, data): an array, or a dict of arrays by name; kept
            in the group `log_likelihood`.
        outputs: other values worth keeping of (position) or (position, data), a dict of arrays by name; kept in the
            group `posterior` beside the variables.
        observed: the data that are observed, by name, for the group `observed_data`.

    Raises:
        TypeError, ValueError: for an argument that is not of its kind.
    """

    def __init__(
        self,
        log_density: Callable[..., Any],
        position: PyTree = None,
        *,
        data: PyTree = None,
        start: Callable[[Any], PyTree] | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Any] | None = None,
        log_likelihood: Callable[..., Any] | None = None,
        outputs: Callable[..., Any] | None = None,
        observed: Mapping[str, Any] | None = None,
    ):
        if isinstance(log_density, type):
            raise TypeError(f"logdensity must be a function of a position, got the class {log_density.__name__}")
        self.log_density = check_function("logdensity", log_density)
        for name, function in (("start", start), ("log_likelihood", log_likelihood), ("outputs", outputs)):
            if function is not None:
                check_function(name, function)
        self.data = checked_data(data)
        self.dims, self.coords = checked_dims(dims), checked_coords(coords)
        self.observed = by_name("observed", observed)
        self._start, self._log_likelihood, self._outputs = start, log_likelihood, outputs
        if position is None and start is not None:
            position = called("start", "of a key", lambda key: jax.eval_shape(start, key), jax.random.key(0))
        self.layout = None if position is None else layout_of(_arrays(position), "position")

    @property
    def target(self) -> Target:
        return Target(self.log_density, self.data, self.layout)

    def laid_out(self, layout):
        model = super().laid_out(layout)
        one = jax.ShapeDtypeStruct((1, layout.dim), jnp.zeros(0).dtype)
        groups = {"posterior": jax.eval_shape(layout.split, one), "more": jax.eval_shape(model.outputs, one)}
        shapes = {path[-1].key: leaf.shape[1:] for path, leaf in jax.tree_util.tree_leaves_with_path(groups)}
        shapes |= {name: np.shape(values) for name, values in self.observed.items()}
        check_names(self.dims, self.coords, shapes)
        return model

    def start(self, key):
        return super().start(key) if self._start is None else self._start(key)

    def outputs(self, x):
        groups, layout = {}, self.layout
        assert layout is not None, "models are laid out before they are run"
        if self._log_likelihood is not None:
            values = _each("log_likelihood", self._log_likelihood, layout, self.data, jnp.asarray(x))
            groups["log_likelihood"] = values if isinstance(values, dict) else {"log_likelihood": values}
        if self._outputs is not None:
            values = _each("outputs", self._outputs, layout, self.data, jnp.asarray(x))
            if not isinstance(values, dict):
                raise TypeError(f"outputs must return a dict of arrays by name, got a {type(values).__name__}")
            groups["posterior"] = values
        return groups


def _arrays(position: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf if hasattr(leaf, "dtype") else np.asarray(leaf), position)


def _leaves(layout: Layout) -> str:
    return ", ".join(f"{name}: {shape}" for name, shape in zip(layout.names, layout.shapes, strict=True))


@eqx.filter_jit
def _each(name: str, function: Callable, layout: Layout, data: PyTree, x: Float[Array, "*draws n"]) -> PyTree:
    """A function of every position; the leading axes of x stay in front."""
    own, arguments = ((), "of a position") if data is None else ((data,), "(position, data)")
    flat = x.reshape(-1, x.shape[-1])
    values = jax.vmap(lambda row: called(name, arguments, function, layout.unravel(row), *own))(flat)
    return jax.tree.map(lambda leaf: leaf.reshape(*x.shape[:-1], *leaf.shape[1:]), values)
