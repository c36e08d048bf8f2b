"""Arguments checked before anything runs: each error names the argument, its value and what it must be.

All checks take the argument's name and its value, and return the value. A value of the wrong type raises TypeError, one
out of range raises ValueError; NaN, and a fraction where a whole number is wanted, are out of range.
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np

LARGEST = 2**63 - 1
"""the largest whole number that an integer of a machine holds"""


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None, *, wanted: str | None = None) -> int:
    """The value as an int, if it is a whole number, Python's or NumPy's, from `least` to `most`.

    Args:
        name: the argument's name.
        value: what was passed; True and False are no numbers.
        least: the smallest value that is allowed.
        most: the largest value that is allowed; the largest of 64 bits by default.
        wanted: the range in words, to follow "a whole number"; made of `least` and `most` by default.

    Raises:
        TypeError: if the value is no number.
        ValueError: if it is a number out of range, or not a whole one.
    """
    highest = LARGEST if most is None else most
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    whole = number and isinstance(value, int | np.integer)
    if whole and least <= value <= highest:
        return int(value)
    if wanted is None:
        too_large = whole and value > highest
        wanted = f"of at least {least}" + (f" and below {highest + 1}" if too_large or most is not None else "")
    raise (ValueError if number else TypeError)(f"{name} must be a whole number {wanted}, got {value!r}")


def check_positive(name: str, value: Any) -> float:
    """The value as a float, if it is one finite number above 0; raises TypeError or ValueError."""
    wanted = "must be a finite number above 0"
    number = _number(name, value, wanted)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} {wanted}, got {value}")
    return number


def check_finite(name: str, value: Any) -> float:
    """The value as a float, if it is one finite number; raises TypeError or ValueError."""
    wanted = "must be a finite number"
    number = _number(name, value, wanted)
    if not math.isfinite(number):
        raise ValueError(f"{name} {wanted}, got {value}")
    return number


def check_probability(name: str, value: Any, remedy: str = "") -> float:
    """The value as a float, if it is one number strictly between 0 and 1; raises TypeError or ValueError.

    `remedy` ends the message, such as "0.5 is usual".
    """
    wanted = "must lie strictly between 0 and 1"
    number = _number(name, value, wanted)
    if not 0 < number < 1:
        raise ValueError(f"{name} {wanted}, got {value}{f'; {remedy}' if remedy else ''}")
    return number


def check_one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """The value, if it is one of the choices; raises TypeError for what is no string, ValueError for another one."""
    if isinstance(value, str) and value in choices:
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise kind(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")


def check_function(name: str, value: Any, arguments: str = "of a position") -> Any:
    """The value, if it can be called; otherwise a TypeError that says of what `arguments`."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {arguments}, got {value!r}")
    return value


def _number(name: str, value: Any, wanted: str) -> float:
    """One real number of Python, NumPy or JAX as a float, infinite where it is too large for one."""
    truth = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if not (truth or isinstance(value, str | bytes) or getattr(value, "ndim", 0)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} {wanted}, got {value!r}") from error
    raise TypeError(f"{name} {wanted}, got {value!r}")
