"""Calls of the user's functions: an error becomes one line with the function, its arguments and the place."""

import inspect
import re
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from gadabout.checks import shown
from gadabout.files import PACKAGE

LIBRARY = Path(sysconfig.get_path("stdlib"))
"""the folder of Python's own modules"""


def check_call(name: str, arguments: str, function: Callable[..., Any], *values: Any) -> None:
    """Raises TypeError if a function does not accept these values; `arguments` describes them in the message."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions that are not written in Python have no signature
        return
    try:
        signature.bind(*values)
    except TypeError as error:
        raise TypeError(f"{name} must be a function {arguments}, but its arguments are {signature}: {error}") from error


def called(name: str, arguments: str, function: Callable[..., Any], *values: Any) -> Any:
    """The value of a user's function.

    Raises TypeError if the function does not accept these values. If the function raises an error, raises TypeError for
    a TypeError and ValueError for any other, with the first line of the error's message and its place.
    """
    check_call(name, arguments, function, *values)
    try:
        return function(*values)
    except Exception as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        message = f"{name} failed: {first_line(error)}{place_of(error)}; it is called as a function {arguments}"
        raise kind(message) from error


def numbers_from(name: str, arguments: str, function: Callable[..., Any], *values: Any) -> Array:
    """The value of a user's function as an array of floating-point numbers; raises TypeError for anything else."""
    found = called(name, arguments, function, *values)
    try:
        return jnp.asarray(found, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must return a number or an array of numbers, got {shown(found)}") from error


def first_line(error: BaseException) -> str:
    """The type of an error from other code, and the first line of its message."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def last_line(error: BaseException) -> str:
    """The type and message of an error; where JAX passes on a callback's traceback, those at its end."""
    lines = [line for line in str(error).strip().split("\n") if line.strip()]
    told = [line.strip() for line in lines if re.match(r"[\w.]+: ", line)]
    return told[-1] if told and len(lines) > 1 else first_line(error)


def place_of(error: BaseException) -> str:
    """The last line of the user's own code where an error arose, such as " (model.py, line 3)"; "" if there is none."""
    lines = ((Path(frame.filename), frame.lineno) for frame in traceback.extract_tb(error.__traceback__))
    own = [line for line in lines if not _is_installed(line[0])]
    return f" ({own[-1][0].name}, line {own[-1][1]})" if own else ""


def _is_installed(path: Path) -> bool:
    return path.is_relative_to(PACKAGE) or path.is_relative_to(LIBRARY) or "site-packages" in path.parts
