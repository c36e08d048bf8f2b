"""Checks of arguments before anything runs: each error names the argument, its value and the permitted values.

All checks take the argument's name and its value, and return the value. A wrong type raises TypeError, a value out of
range ValueError. NaN is out of range, and so is a fraction where a whole number is required.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

LARGEST = 2**63 - 1
"""the largest 64-bit signed integer"""
LONGEST_SHOWN = 100
"""most characters of a value that an error shows"""


def check_whole(name: str, value: Any, least: int = 1, most: int | None = None, *, wanted: str | None = None) -> int:
    """The value as an int, if it is a whole number, Python's or NumPy's, from `least` to `most`.

    Args:
        name: the argument's name.
        value: the argument; True and False do not count as numbers.
        least: the smallest value that is allowed.
        most: the largest value that is allowed; `LARGEST` by default.
        wanted: the range in words, placed after "a whole number"; made from `least` and `most` by default.

    Raises:
        TypeError: if the value is not a number.
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
    raise (ValueError if number else TypeError)(f"{name} must be a whole number {wanted}, got {shown(value)}")


def check_positive(name: str, value: Any) -> float:
    """The value as a float, if it is one finite number above 0; raises TypeError or ValueError."""
    wanted = "must be a finite number above 0"
    number = _number(name, value, wanted)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} {wanted}, got {shown(value, str)}")
    return number


def check_non_negative(name: str, value: Any) -> float:
    """The value as a float, if it is one finite number of at least 0; raises TypeError or ValueError."""
    wanted = "must be a finite number of at least 0"
    number = _number(name, value, wanted)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} {wanted}, got {shown(value, str)}")
    return number


def check_finite(name: str, value: Any, remedy: str = "") -> float:
    """The value as a float, if it is one finite number; raises TypeError, or ValueError that ends with `remedy`."""
    wanted = "must be a finite number"
    number = _number(name, value, wanted)
    if not math.isfinite(number):
        raise ValueError(f"{name} {wanted}, got {shown(value, str)}{f'; {remedy}' if remedy else ''}")
    return number


def check_probability(name: str, value: Any, remedy: str = "") -> float:
    """The value as a float, if it is one number strictly between 0 and 1; raises TypeError or ValueError.

    `remedy`, such as "0.5 is usual", is the end of the ValueError's message.
    """
    wanted = "must lie strictly between 0 and 1"
    number = _number(name, value, wanted)
    if not 0 < number < 1:
        raise ValueError(f"{name} {wanted}, got {shown(value, str)}{f'; {remedy}' if remedy else ''}")
    return number


def check_one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """The value, if it is one of the choices; raises TypeError if it is no string, ValueError for another string."""
    if isinstance(value, str) and value in choices:
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise kind(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}")


def check_truth(name: str, value: Any) -> bool:
    """The value as a bool, if it is True or False, Python's or NumPy's; raises TypeError for anything else."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {shown(value)}")


def check_array(name: str, value: Any, wanted: str, *, finite: bool = True) -> np.ndarray:
    """The value as an array of floating-point numbers, if it consists of real numbers; the shape is not checked.

    Args:
        name: the argument's name.
        value: the argument: an array, a number, or lists of them.
        wanted: the required value in words, placed after "must be", such as "an array of shape (n,)".
        finite: whether all numbers must be finite.

    Raises TypeError for a value that does not consist of numbers, ValueError for rows of different lengths and for
    numbers that are not finite.
    """
    try:
        array = np.asarray(value)
    except Exception as error:
        raise ValueError(f"{name} must be {wanted}, got {shown(value)}") from error
    if array.dtype.kind not in "biuf" and not np.issubdtype(array.dtype, np.floating):
        raise TypeError(f"{name} must be {wanted}, made of real numbers, got {shown(value)}")
    array = array.astype(float)
    if finite and not np.isfinite(array).all():
        raise ValueError(f"{name} must be {wanted}, made of finite numbers, got {shown(value)}")
    return array


def shown(value: Any, form: Callable[[Any], str] = repr) -> str:
    """A value as one line of an error: its text by `form`, or its type and shape if the text is too long."""
    try:
        text = " ".join(form(value).split())
    except Exception:  # an integer with too many digits, or a user's class whose text cannot be made
        text = ""
    if 0 < len(text) <= LONGEST_SHOWN:
        return text
    shape = getattr(value, "shape", None)
    return f"a {type(value).__name__}" + (f" of shape {tuple(shape)}" if isinstance(shape, tuple) else "")


def check_function(name: str, value: Any, arguments: str = "of a position") -> Any:
    """The value, if it can be called; otherwise raises TypeError that names the required `arguments`."""
    if not callable(value):
        raise TypeError(f"{name} must be a function {arguments}, got {shown(value)}")
    return value


def _number(name: str, value: Any, wanted: str) -> float:
    """One real number of Python, NumPy or JAX as a float; infinity if it is too large for a float."""
    truth = isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if not (truth or isinstance(value, str | bytes) or getattr(value, "ndim", 0)):
        try:
            return float(value)
        except OverflowError:
            return math.inf
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} {wanted}, got {shown(value)}") from error
    raise TypeError(f"{name} {wanted}, got {shown(value)}")


def check_devices(value: Any) -> Sequence[Any]:
    """The JAX devices for their number or a list of them; raises TypeError or ValueError for anything else."""
    import jax

    if not isinstance(value, Sequence):
        there, count = jax.devices(), check_whole("devices", value)
        if count > len(there):
            raise ValueError(
                f"devices={count}, and JAX has {len(there)}; on a CPU it makes more of them with "
                f"jax.config.update('jax_num_cpu_devices', {count}) before it is used"
            )
        return there[:count]
    if not (len(value) and all(isinstance(one, jax.Device) for one in value)):
        raise TypeError(f"devices must be their number or a list from jax.devices(), got {shown(value)}")
    return value
