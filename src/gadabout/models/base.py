"""The common base of models of other libraries: positions are unconstrained values by name, starts are uniform."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gadabout.layout import Layout
from gadabout.model import AbstractModel
from gadabout.named import check_coords, check_names, checked_coords, checked_dims
from gadabout.starts import Uniform


def impossible_values(likelihood: Mapping[str, Any]) -> str:
    """A message on the first observed variable with log likelihoods that are not finite; empty if all are finite."""
    for name, values in likelihood.items():
        values = np.asarray(values)
        if bad := int(np.isnan(values).sum()):
            return f"the log likelihood of {bad} values of the observed {name!r} is NaN; look for NaN in the other data"
        if bad := int(np.isinf(values).sum()):
            return f"{bad} values of the observed {name!r} are impossible under its distribution; check the data"
    return ""


class AbstractForeign(AbstractModel):
    """A model of another library.

    Args:
        name: the model's name.
        free: the shapes of the unconstrained values, by variable.
        shapes: the shapes of all variables in the library's terms: free, deterministic and observed ones.
        dims, coords: those of the library; `named` takes precedence.
        observed: observed data by name.
        named: the user's dims and coords.
    """

    def __init__(
        self,
        name: str,
        free: Mapping[str, tuple[int, ...]],
        shapes: Mapping[str, tuple[int, ...]],
        dims: Mapping[str, Sequence[str]],
        coords: Mapping[str, Any],
        observed: Mapping[str, Any],
        named: tuple[Any, Any] = (None, None),
    ):
        self.name = name
        names, dtype = tuple(free), np.dtype(jnp.result_type(float))
        reshaped = tuple(name for name in names if free[name] != shapes[name])
        self.layout = Layout(names, tuple(free.values()), (dtype,) * len(names), reshaped=reshaped)
        self.start = Uniform(tuple(free.items()))
        self.shapes, self.observed = dict(shapes), dict(observed)
        self.dims = {name: list(dims) for name, dims in dims.items()} | checked_dims(named[0])
        self.coords = dict(coords) | checked_coords(named[1])
        check_names(self.dims, self.coords, self.shapes)
        check_coords(checked_coords(named[1]), self.dims, self.shapes)

    def given(self, position):
        assert self.layout is not None
        shapes = {name: self.shapes[name] for name in self.layout.names}
        if not isinstance(position, dict) or {name: jnp.shape(value) for name, value in position.items()} != shapes:
            wanted = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
            raise ValueError(f"init must be a dict of all variables of the model ({wanted}), or left out")
        free = self.unconstrain({name: jnp.asarray(position[name], float) for name in shapes})
        return {name: free[name] for name in shapes}

    @abstractmethod
    def unconstrain(self, position: dict[str, Any]) -> dict[str, Any]:
        """The unconstrained values, by variable, of one position with constrained values."""

    def free(self, x: Any) -> dict[str, Any]:
        """The unconstrained values by name; the name is marked if the shape is not that of the variable."""
        assert self.layout is not None
        return dict(zip(self.layout.free_names, self.layout.split(x).values(), strict=True))
