"""Constraints of variables, by NumPyro's bijections from all real numbers to the permitted values."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gadabout.checks import check_finite, shown

NAMES = {
    "positive": "positive",
    "unit_interval": "unit_interval",
    "simplex": "simplex",
    "ordered": "ordered_vector",
    "positive_ordered": "positive_ordered_vector",
    "corr_cholesky": "corr_cholesky",
    "corr_matrix": "corr_matrix",
    "lower_cholesky": "lower_cholesky",
    "positive_definite": "positive_definite",
}
"""constraints without parameters, and NumPyro's names for them"""
WANTED = f"one of {', '.join(map(repr, NAMES))}, bounds (low, high) of which one may be None, or a NumPyro constraint"


def transforms_of(given: Any) -> dict[str, Any]:
    """NumPyro transforms by variable.

    A constraint is one of NAMES, a pair of bounds (low, high), of which one may be None, or an object of
    `numpyro.distributions.constraints` or `numpyro.distributions.transforms`. A transform maps all real numbers to
    values that satisfy the constraint; `inv` maps back, and `log_abs_det_jacobian` is the logarithm of the change of
    volume.

    Raises:
        ImportError: if NumPyro is not installed.
        TypeError, ValueError: for anything that is not a constraint.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise TypeError(f"transforms must be a dict by variable, such as {{'tau': 'positive'}}, got {shown(given)}")
    return {name: _transform(f"transforms[{name!r}]", constraint) for name, constraint in given.items()}


def flat_shape(name: str, transform: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a variable's free coordinates; raises ValueError for a shape that the variable cannot have."""
    if transform is None:
        return tuple(shape)
    like = jax.ShapeDtypeStruct(tuple(shape), jnp.result_type(float))
    try:
        flat = tuple(transform.inverse_shape(tuple(shape)))
        there = jax.eval_shape(transform, jax.ShapeDtypeStruct(flat, like.dtype)).shape
    except Exception as error:
        raise ValueError(f"transforms[{name!r}] does not fit the shape {tuple(shape)}: {error}") from error
    if there != like.shape:
        raise ValueError(f"transforms[{name!r}] does not fit the shape {tuple(shape)}, it gives {there}")
    return flat


def import_numpyro() -> None:
    """Imports NumPyro completely: arviz_base leaves it half imported, and its parts would be imported twice."""
    import numpyro

    numpyro.__version__  # noqa: B018


def _transform(argument: str, constraint: Any) -> Any:
    try:
        import_numpyro()
        from numpyro.distributions import biject_to, constraints, transforms
    except ImportError as error:
        remedy = "install it: pip install 'gadabout[models]'"
        raise ImportError(f"transforms: constraints come from NumPyro, which is not there; {remedy}") from error
    if isinstance(constraint, str):
        if constraint not in NAMES:
            raise ValueError(f"{argument} must be {WANTED}, got {shown(constraint)}")
        constraint = getattr(constraints, NAMES[constraint])
    elif isinstance(constraint, tuple | list):
        constraint = _between(argument, constraint, constraints)
    if isinstance(constraint, transforms.Transform):
        return _with_arrays(constraint)
    if not isinstance(constraint, constraints.Constraint):
        raise TypeError(f"{argument} must be {WANTED}, got {shown(constraint)}")
    try:
        return _with_arrays(biject_to(constraint))
    except NotImplementedError as error:
        raise ValueError(f"{argument}: NumPyro has no bijection to {shown(constraint)}; choose {WANTED}") from error


def _between(argument: str, bounds: Any, constraints: Any) -> Any:
    if len(bounds) != 2 or (bounds[0] is None and bounds[1] is None):
        raise ValueError(f"{argument} must be {WANTED}, got {shown(bounds)}")
    low, high = (None if bound is None else check_finite(argument, bound) for bound in bounds)
    if low is None:
        return constraints.less_than(high)
    if high is None:
        return constraints.greater_than(low)
    if not low < high:
        raise ValueError(f"{argument} must be bounds (low, high) with low < high, got {shown(bounds)}")
    return constraints.interval(low, high)


def _with_arrays(transform: Any) -> Any:
    """The transform with those bounds that are NumPy arrays as JAX arrays."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf, transform)
