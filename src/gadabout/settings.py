"""A sampler's settings as plain numbers, strings and lists, for JSON, Zarr stores, programs and notebooks."""

import functools
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LONGEST = 16
"""most numbers of an array that are shown; a longer one appears as type and shape, such as `float64[100, 100]`"""

LENSES = "where"
"""the field that says where in a kernel something is: code, not a setting"""


def settings_of(sampler: Any) -> dict[str, Any]:
    """All settings by their path, such as `adaptation.target_acceptance`: numbers, strings, lists of them, and None.

    Paths in `kernel` hold the arguments that the kernel is built from; None stands for a default that depends on n. A
    path with further settings below it has the name of their class as its value. Paths of stages begin with their
    classes.
    """
    found: dict[str, Any] = {}
    if isinstance(sampler, tuple):
        for stage in sampler:
            _collect(type(stage).__name__, stage, found)
        return found
    _collect("kernel", sampler.make_kernel, found)
    _collect("adaptation", sampler.adaptation, found)
    return found


def _collect(path: str, value: Any, found: dict[str, Any]) -> None:
    """Adds a setting and all its parts to `found`."""
    if isinstance(value, functools.partial):  # also those of JAX
        parts = dict(enumerate(value.args)) | value.keywords
    elif is_dataclass(value) and not isinstance(value, type):
        found[path] = type(value).__name__
        parts = {field.name: getattr(value, field.name) for field in fields(value) if field.name != LENSES}
    elif isinstance(value, dict):
        parts = value
    elif isinstance(value, list | tuple):
        plain = [_plain(part) for part in value]
        parts = {} if all(_is_number_or_word(part) for part in value) else dict(enumerate(value))
        if not parts:
            found[path] = plain
    else:
        found[path], parts = _plain(value), {}
    for name, part in parts.items():
        _collect(f"{path}.{name}", part, found)


def _is_number_or_word(value: Any) -> bool:
    return isinstance(value, str | int | float | np.generic) or value is None


def _plain(value: Any) -> Any:
    """One value as a number, a string, a list of these, or None; numbers that are not finite become strings."""
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        if (not jnp.issubdtype(value.dtype, np.number) and value.dtype != bool) or value.size > LONGEST:
            return f"{value.dtype}{list(value.shape)}"
        value = np.asarray(value)
        value = value.astype(str).astype(float) if value.dtype == np.float32 else value  # 0.1, not 0.10000000149
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if _is_number_or_word(value):
        return value
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{getattr(value, '__module__', type(value).__module__)}.{name}"


def as_table(title: str, settings: Mapping[str, Any]) -> str:
    """Settings as an HTML table that can be folded; settings left to a default (None) are omitted."""
    told = {escape(str(name)): escape(str(value)) for name, value in settings.items() if value is not None}
    left = "<td style='text-align:left'>"
    rows = "".join(f"<tr>{left}{name}</td>{left}{value}</td></tr>" for name, value in told.items())
    return f"<details open><summary><b>{escape(title)}</b></summary><table>{rows}</table></details>"
