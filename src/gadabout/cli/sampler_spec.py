"""`gad-mala:variant=exact,factor=diagonal` as a sampler, read by the recipe's own signature."""

import inspect
from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gadabout.algorithms import RECIPES
from gadabout.cli.errors import CliError, did_you_mean
from gadabout.driver import Sampler

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_sampler(spec: str) -> Sampler:
    """The sampler of a specification NAME[:setting=value,…].

    Raises CliError for an unknown name or setting, a value of the wrong type, and one that the recipe refuses.
    """
    written, colon, rest = spec.partition(":")
    name = written.strip().lower().replace("_", "-")
    if name not in RECIPES:
        raise CliError(f"--sampler: no sampler is called {written!r}; {did_you_mean(name, RECIPES)}")
    settings = _settings(name, RECIPES[name], rest) if colon else {}
    try:
        return RECIPES[name](**settings)
    except (ValueError, TypeError) as error:
        raise CliError(f"--sampler {name}: {error}") from error


def _settings(name: str, recipe: Callable[..., Sampler], text: str) -> dict[str, Any]:
    """The settings of a recipe from `setting=value,…`, each converted to the type that the recipe declares."""
    hints = get_type_hints(recipe)
    known = list(inspect.signature(recipe).parameters)
    settings: dict[str, Any] = {}
    for part in text.split(","):
        setting, equals, value = (piece.strip() for piece in part.partition("="))
        setting = setting.replace("-", "_")
        if not equals or not setting or not value:
            raise CliError(f"--sampler {name}: {part!r} is not a setting; write {name}:setting=value,setting=value")
        if setting not in known:
            raise CliError(f"--sampler {name}: no setting is called {setting!r}; {did_you_mean(setting, known)}")
        if setting in settings:
            raise CliError(f"--sampler {name}: {setting!r} is given twice; write it once")
        settings[setting] = _convert(f"--sampler {name}: {setting}", value, hints[setting])
    return settings


def _convert(what: str, value: str, hint: Any) -> Any:
    """A value as the type of its hint; `X | None` is read as X. Raises CliError where it is not one."""
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value not in choices:
            raise CliError(f"{what} must be one of {', '.join(choices)}, got {value!r}")
        return value
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if kinds == [bool]:
        if value.lower() not in _TRUTH:
            raise CliError(f"{what} must be true or false, got {value!r}")
        return _TRUTH[value.lower()]
    if kinds not in ([int], [float]):
        raise CliError(f"{what} is an object, which the command line cannot write; use it from Python")
    try:
        return kinds[0](value)
    except ValueError:
        needed = "a whole number" if kinds == [int] else "a number"
        raise CliError(f"{what} must be {needed}, got {value!r}") from None
