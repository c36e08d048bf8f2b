"""`setting=value,…` on the command line, read by the signature of what takes the settings."""

import inspect
from collections.abc import Callable
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from gadabout.cli.errors import CliError, did_you_mean

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_settings(what: str, takes: Callable[..., Any], text: str, example: str) -> dict[str, Any]:
    """The arguments of a function or a class from `setting=value,…`, each of the type that its signature declares.

    Args:
        what: the option, to begin errors with.
        takes: the function or class.
        text: what was written.
        example: what to write, for errors.

    Raises CliError for what is no setting, or is given twice, and for a value of another type.
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
    """What a setting of this type may be: words to choose from, bool, int or float; None for any other object.

    `X | None` is read as X.
    """
    if get_origin(hint) is Literal:
        return get_args(hint)
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    return kinds[0] if kinds in ([bool], [int], [float]) else None


def _convert(what: str, value: str, hint: Any) -> Any:
    """A value as the type of its hint; raises CliError where it is not one."""
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
