"""What a recipe was called with, kept beside its result, so that a stored run can name its sampler in JSON."""

import functools
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import numpy as np

from gadabout.sampler import Sampler
from gadabout.schedule import Plan

RECORD = "_call"
"""the attribute that a result has while nobody changed it: copies with other fields do not have it"""
_MADE: dict[str, Callable[..., Any]] = {}


def recipe[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """A recipe whose results know how they were made (`call_of`)."""
    _MADE[function.__name__] = function

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        bound = inspect.signature(function).bind(*args, **kwargs)
        call = {"recipe": function.__name__, "args": list(bound.args), "kwargs": bound.kwargs}
        object.__setattr__(result, RECORD, call)
        return result

    return made


def call_of(sampler: Any) -> dict[str, Any] | None:
    """The call that made a sampler, or a plan, as JSON has it; None where it cannot be said so (a function, an array).

    `rebuilt` makes the same sampler of it.
    """
    try:
        return _plain(sampler)
    except TypeError:
        return None


def rebuilt(call: Any) -> Any:
    """The sampler, or plan, that `call_of` told of; raises ValueError for what no recipe of this version takes."""
    if isinstance(call, dict):
        import_module("gadabout.algorithms.tables")  # each recipe is known once it is imported
        if call.get("recipe") not in _MADE:
            raise ValueError(f"no recipe is called {call.get('recipe')!r}")
        args, kwargs = [rebuilt(part) for part in call["args"]], call["kwargs"]
        try:
            return recipe(_MADE[call["recipe"]])(*args, **{name: rebuilt(part) for name, part in kwargs.items()})
        except TypeError as error:
            raise ValueError(f"the recipe {call['recipe']} of this version takes other settings: {error}") from error
    return [rebuilt(part) for part in call] if isinstance(call, list) else call


def _plain(value: Any) -> Any:
    if isinstance(value, Sampler | Plan):
        call = vars(value).get(RECORD)
        if call is None:
            raise TypeError("made by hand")
        args, kwargs = [_plain(part) for part in call["args"]], call["kwargs"]
        return {"recipe": call["recipe"], "args": args, "kwargs": {name: _plain(part) for name, part in kwargs.items()}}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, np.generic | jax.Array) and np.ndim(value) == 0 and np.asarray(value).dtype.kind in "biuf":
        return value.item()
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"{value!r} has no form in JSON")
