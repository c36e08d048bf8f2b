"""Makes the model of an everyday posterior, with a start that uses no prior knowledge."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gadabout.model import Model
from gadabout.starts import Uniform

Position = Mapping[str, Any]
Data = Mapping[str, Any]


def build(
    log_density: Callable[..., Any],
    shapes: Mapping[str, tuple[int, ...]],
    data: Data,
    outputs: Callable[..., Any] | None = None,
    observed: str | None = None,
) -> Model:
    """The model of a log density of (position, data), which must be a module-level function, not a closure.

    Args:
        log_density: log π of (position, data), up to a constant.
        shapes: shapes of the unconstrained variables, by name.
        data: arrays by name; the model holds them in JAX's default float type.
        outputs: function of (position, data): values on the scale of the statistical model, by name.
        observed: name of the observed data.
    """
    return Model(
        log_density,
        data={name: np.asarray(values, float) for name, values in data.items()},
        start=Uniform(tuple(shapes.items())),
        outputs=outputs,
        observed={} if observed is None else {observed: np.asarray(data[observed])},
    )
