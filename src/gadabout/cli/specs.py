"""Parses samplers, `gad-mala:variant=exact,factor=diagonal`, and rules that end a run, `ess=1000,rhat=1.01`."""

import inspect
from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gadabout.algorithms import PLANS
from gadabout.cli.errors import CliError, did_you_mean
from gadabout.driver import Until
from gadabout.sampler import Sampler
from gadabout.schedule import Plan

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def parse_sampler(spec: str) -> Sampler | Plan:
    """The sampler, or plan, of a specification NAME[:setting=value,…].

    Raises CliError for an unknown name or setting, a value of the wrong type, and a value that the recipe refuses.
    """
    written, colon, rest = spec.partition(":")
    name = written.strip().lower().replace("_", "-")
    recipe = PLANS.get(name) or _recipe(written, name)
    example = f"{name}:setting=value,setting=value"
    settings = read_settings(f"--sampler {name}", recipe, rest, example) if colon else {}
    try:
        return recipe(**settings)
    except (ValueError, TypeError) as error:
        raise CliError(f"--sampler {name}: {error}") from error


def _recipe(written: str, name: str) -> Callable[..., Any]:
    """The recipe called `name`, which the user wrote as `written`; imports all recipes."""
    from gadabout.algorithms import PYTHON_RECIPES, RECIPES

    if name in PYTHON_RECIPES:
        raise CliError(
            f"--sampler: {written!r} is made of your own objects, which a command cannot name; use it from Python"
        )
    if name not in RECIPES:
        raise CliError(f"--sampler: no sampler is called {written!r}; {did_you_mean(name, PLANS | RECIPES)}")
    return RECIPES[name]


def parse_until(spec: str | None) -> Until | None:
    """The rule of a specification such as ess=1000,rhat=1.01,seconds=60; None for None.

    Raises CliError for an unknown condition, a value of the wrong type, and a value that the rule refuses.
    """
    if spec is None:
        return None
    settings = read_settings("--until", Until, spec, "ess=1000,rhat=1.01,seconds=60, or one of them")
    try:
        return Until(**settings)
    except (ValueError, TypeError) as error:
        raise CliError(f"--{error}") from error


def read_settings(what: str, takes: Callable[..., Any], text: str, example: str) -> dict[str, Any]:
    """The arguments of a function or a class from `setting=value,…`, each of the type that its signature declares.

    Args:
        what: the option, with which error messages begin.
        takes: the function or class.
        text: the text to parse.
        example: a valid text, for error messages.

    Raises CliError for an unknown or repeated setting, and for a value of the wrong type.
    """
    hints, known = get_type_hints(takes), list(inspect.signature(takes).parameters)
    settings: dict[str, Any] = {}
    for part in text.split(","):
        setting, equals, value = (piece.strip() for piece in part.partition("="))
        setting = setting.replace("-", "_")
        if not equals or not setting or not value:
            raise CliError(f"{what}: {part!r} is not a setting; write {example}")
        if setting not in known:
            raise CliError(f"{what}: no setting is called {setting!r}; {did_you_mean(setting, known)}")
        if setting in settings:
            raise CliError(f"{what}: {setting!r} is given twice; write it once")
        settings[setting] = _convert(f"{what}: {setting}", value, hints[setting])
    return settings


def choices(hint: Any) -> tuple[str, ...] | type | None:
    """Allowed values of a setting of type `hint`: a tuple of words, or bool, int or float; None for any other object.

    `X | None` is read as X.
    """
    if get_origin(hint) is Literal:
        return get_args(hint)
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    return kinds[0] if kinds in ([bool], [int], [float]) else None


def _convert(what: str, value: str, hint: Any) -> Any:
    """A text converted to the type of its hint; raises CliError if it cannot be converted."""
    kind = choices(hint)
    if kind is None:
        raise CliError(f"{what} is an object, which the command line cannot write; use it from Python")
    if isinstance(kind, tuple):
        if value not in kind:
            raise CliError(f"{what} must be one of {', '.join(kind)}, got {value!r}")
        return value
    if kind is bool:
        if value.lower() not in _TRUTH:
            raise CliError(f"{what} must be true or false, got {value!r}")
        return _TRUTH[value.lower()]
    try:
        return kind(value)
    except ValueError:
        needed = "a whole number" if kind is int else "a number"
        raise CliError(f"{what} must be {needed}, got {value!r}") from None
