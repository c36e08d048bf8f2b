"""How an everyday posterior becomes a model, with the start of a user who knows nothing."""

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
        start=Uniform(tuple(shapes.items())),
        outputs=outputs,
        observed={} if observed is None else {observed: np.asarray(data[observed])},
    )
