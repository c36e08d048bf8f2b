"""How an everyday posterior becomes a model, and where a user who knows nothing starts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.model import Model

Position = Mapping[str, Any]
Data = Mapping[str, Any]


@dataclass(frozen=True)
class Anywhere:
    """Stan's start: uniform on (−2, 2) for every unconstrained coordinate, whatever the variable's unit."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    def __call__(self, key: Key[Array, ""]) -> dict[str, Float[Array, "..."]]:
        keys = jax.random.split(key, len(self.shapes))
        return {
            name: jax.random.uniform(one, shape, jnp.result_type(float), -2, 2)
            for one, (name, shape) in zip(keys, self.shapes, strict=True)
        }


def build(
    log_density: Callable[..., Any],
    shapes: Mapping[str, tuple[int, ...]],
    data: Data,
    outputs: Callable[..., Any] | None = None,
    observed: str | None = None,
) -> Model:
    """The model of a log density of (position, data), which is a function of its module and never a closure.

    Args:
        log_density: log π of (position, data), up to a constant.
        shapes: of the unconstrained variables, by name.
        data: arrays by name; in JAX's default float type once they are the model's.
        outputs: of (position, data), the values on the scale of the statistical model, by name.
        observed: the name of the data that are observed.
    """
    return Model(
        log_density,
        data={name: np.asarray(values, float) for name, values in data.items()},
        start=Anywhere(tuple(shapes.items())),
        outputs=outputs,
        observed={} if observed is None else {observed: np.asarray(data[observed])},
    )
