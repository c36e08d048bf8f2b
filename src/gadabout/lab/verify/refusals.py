"""Malformed calls are refused in one line that names the argument and the value."""

import inspect
import math
import traceback
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from gadabout.algorithms import RECIPES, default, rwm
from gadabout.api import sample
from gadabout.files import PACKAGE
from gadabout.lab.verify.frame import Figure, Found, Item, Parts

SHORTEST, LONGEST = 20, 600
"""`SHORTEST`, `LONGEST`: accepted lengths of a message in characters."""
FEWEST = 60
"""required number of malformed calls"""

VALUES = {
    "nan": math.nan,
    "-1": -1,
    "inf": math.inf,
    "-inf": -math.inf,
    "1j": 1j,
    "b'x'": b"x",
    "{'value': 0.5}": {"value": 0.5},
}
"""values that no setting of a recipe may have, by their form in a message"""

ARRAYS = ("inverse_mass_matrix", "means")
"""settings for which a message shows the shape"""


def _normal(x):
    return -0.5 * jnp.sum(x**2)


def _run(model: Any = _normal, init: Any = np.zeros(2), **arguments: Any) -> Any:  # noqa: B008 never written to
    least: dict[str, Any] = {"sampler": rwm(), "num_warmup": 0, "num_draws": 10, "num_chains": 2, "progress": False}
    return sample(model, init, **(least | arguments))


ARGUMENTS: list[tuple[str, Any]] = [
    *[("seed", value) for value in ("x", -1, 2**32, 1.5, None)],
    *[("num_chains", value) for value in (0, 2.0, True, "4", math.nan)],
    *[("num_draws", value) for value in (0, None, -5, math.nan, math.inf, [10])],
    *[("num_warmup", value) for value in (-1, 0.5, "auto")],
    *[("thinning", value) for value in (0, None, "x")],
    *[("adapt", value) for value in ("both", True, 3)],
    *[("record", value) for value in (3, "lq")],
    *[("until", value) for value in (400, {"ess": 3})],
    *[("out", value) for value in (3, "run.nc", b"run.zarr")],
    *[("callback", value) for value in (3, "print")],
    *[("progress", value) for value in ("yes", 1)],
    *[("sampler", value) for value in ("nuts", 3)],
    *[("dims", value) for value in (3, "i", {"x": 3})],
    *[("coords", value) for value in (3, {"chain": [0, 1]})],
    *[("init", value) for value in ("x", [], {})],
]
"""arguments of `sample`, and values that they may not have"""

DENSITIES: dict[str, tuple[Callable, str]] = {
    "a tuple": (lambda x: (_normal(x), 0), "a tuple"),
    "a word": (lambda x: "x", "a str"),
    "nothing": (lambda x: None, "None"),
    "a complex number": (lambda x: _normal(x) + 1j, "complex"),
    "a truth value": (lambda x: _normal(x) > 0, "bool"),
    "a vector": (lambda x: -(x**2), "(2,)"),
    "no number": (lambda x: _normal(x) * jnp.nan, "nan"),
    "minus infinity": (lambda x: _normal(x) - jnp.inf, "-inf"),
    "a branch in Python": (lambda x: _normal(x) if x[0] > 0 else 0.0, "jnp.where"),
    "a call of NumPy": (lambda x: float(np.sum(np.asarray(x))), "jax.numpy"),
    "two arguments": (lambda x, data: 0.0, "data"),
    "an error": (lambda x: x["a"], "init"),
}
"""invalid log densities by description, and the text that the message must contain"""


def cases() -> Iterator[tuple[str, Callable[[], Any], list[str]]]:
    """Yields every malformed call: its description, the call, and the words that its message must contain."""
    for name, recipe in {**RECIPES, "default": default}.items():
        for setting in inspect.signature(recipe).parameters:
            for shown, value in VALUES.items():
                words = [setting, "()" if setting in ARRAYS and value == -1 else shown]
                yield f"{name}({setting}={shown})", partial(recipe, **{setting: value}), words
    for argument, value in ARGUMENTS:
        words = [argument, repr(value)] if not isinstance(value, dict) else [argument]
        yield f"sample({argument}={value!r})", partial(_run, **{argument: value}), words
    for what, (density, said) in DENSITIES.items():
        yield f"a log density: {what}", partial(_run, density), ["logdensity", said]


def refused(call: Callable[[], Any], words: list[str]) -> str:
    """The reason why a call is not refused correctly; empty if it is.

    The library itself must raise a TypeError or a ValueError, with a message of one line that contains `words`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            message, last = str(error), traceback.extract_tb(error.__traceback__)[-1]
            told, ours = f"{type(error).__name__}: {message}", isinstance(error, TypeError | ValueError)
        else:
            return "it is taken"
    ours &= Path(last.filename).is_relative_to(PACKAGE) and (last.line or "").startswith("raise ")
    if not ours:
        return f"not the library's own: {told}"
    if "\n" in message or not SHORTEST <= len(message) <= LONGEST:
        return f"not one line: {told}"
    missing = [word for word in words if word not in message]
    return f"does not name {missing}: {told}" if missing else ""


def tried() -> dict[str, Any]:
    """The number of malformed calls, and the reasons for those that are not refused correctly."""
    every = list(cases())
    wrong = {what: why for what, call, words in every if (why := refused(call, words))}
    return {"calls": len(every), "wrong": wrong}


def run(full: bool, store: Parts) -> Found:
    """All malformed calls, in both versions."""
    found = store.part("refusals", {}, tried)
    count, wrong = found["calls"], found["wrong"]
    figures = [
        Figure("malformed calls", count, f"at least {FEWEST}", count >= FEWEST),
        Figure("refused in one line that names argument and value", count - len(wrong), f"{count:,}", not wrong),
        *[Figure(what, why, "refused", False) for what, why in wrong.items()],
    ]
    return Found(figures, f"{count - len(wrong):,} of {count:,} malformed calls refused in one line")


REFUSALS = Item(
    "refusals",
    "Malformed input is refused in one line",
    "a setting that is taken in silence, an error from the depths of another library",
    run,
)
