"""Records of the calls that made samplers, so that a stored run can describe its sampler in JSON."""

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
"""name of the attribute that holds a result's call; copies with changed fields do not have it"""
_MADE: dict[str, Callable[..., Any]] = {}


def recipe[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a recipe: its results record the call that made them (see `call_of`)."""
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
    """The call that made a sampler, or a plan, in JSON types; None if it has no such form (a function, an array).

    `rebuilt` makes the same sampler from it.
    """
    try:
        return _plain(sampler)
    except TypeError:
        return None


def rebuilt(call: Any) -> Any:
    """The sampler, or plan, from the result of `call_of`; raises ValueError if no recipe of this version accepts it."""
    if isinstance(call, dict):
        import_module("gadabout.algorithms.tables")  # importing a recipe registers it
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
