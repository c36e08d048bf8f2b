"""Arguments in the style of other libraries: each is refused with a message that says what to write instead."""

import functools
import inspect
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import numpy as np

from gadabout.checks import shown

WORDS = {
    "draws": "num_draws=", "num_samples": "num_draws=", "samples": "num_draws=", "iter_sampling": "num_draws=",
    "chains": "num_chains=", "tune": "num_warmup=", "warmup": "num_warmup=", "iter_warmup": "num_warmup=",
    "random_seed": "seed=", "rng_key": "seed=", "key": "seed=", "thin": "thinning=", "initvals": "init=",
    "init_params": "init=", "progressbar": "progress=", "progress_bar": "progress=", "store": "out=",
    "transforms": "gadabout.Model(logdensity, transforms=...)", "start": "gadabout.Model(logdensity, start=...)",
    "target_accept": "sampler=gadabout.default(target_acceptance=...)",
}  # fmt: skip
"""argument name in other libraries, or elsewhere in this one → the equivalent for `sample`"""
LIBRARIES = {"pymc": "pymc", "cmdstanpy": "stan", "bridgestan": "stan", "stan": "stan"}
"""package whose objects are models → function of `gadabout.models` that takes them"""


def words_of_others[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """The function, wrapped to refuse unknown keywords; for those in `WORDS` the error names the right argument."""
    own = inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in own and name in WORDS:
                raise TypeError(f"sample has no argument {name!r}; write {WORDS[name]}")
            if name not in own:
                raise TypeError(f"sample has no argument {name!r}; it has {', '.join(own)}")
        return function(*args, **kwargs)

    return called


def refuse_foreign(model: Any) -> None:
    """Raises TypeError for a class and for a model of another library; the message says what to pass."""
    if isinstance(model, type):
        raise TypeError(
            f"logdensity must be a function of a position, or a gadabout.Model, got the class {model.__name__}; pass a "
            "function, such as a method of one of its objects"
        )
    for kind in type(model).__mro__:
        library = kind.__module__.partition(".")[0]
        if library in LIBRARIES and kind.__name__ != "function":
            raise TypeError(
                f"logdensity is a model of {library}; pass gadabout.models.{LIBRARIES[library]}(...) of it, as in "
                f"gad.sample(gad.models.{LIBRARIES[library]}(model))"
            )
    if draws_by_numpyro(model):
        raise TypeError(
            f"logdensity is a NumPyro model, {getattr(model, '__name__', 'a function')} with numpyro.sample sites; "
            "pass gadabout.models.numpyro(model, *its_arguments), as in gad.sample(gad.models.numpyro(model, x, y))"
        )


def draws_by_numpyro(function: Any) -> bool:
    """Whether a Python function calls `numpyro.sample`, judged by the names in its code."""
    function = inspect.unwrap(function.func if isinstance(function, functools.partial) else function)
    code, values = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None:
        return False
    closed = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    used = [closed.get(name, values.get(name)) for name in (*code.co_names, *code.co_freevars)]
    module = any(isinstance(value, ModuleType) and value.__name__ == "numpyro" for value in used)
    itself = any(getattr(value, "__module__", "") == "numpyro.primitives" for value in used if callable(value))
    module = module or "numpyro" in code.co_names  # imported inside the function
    return (module and "sample" in code.co_names) or itself


def check_data_is_taken(log_density: Callable, data: Any) -> None:
    """Raises TypeError if a log density takes data and `data` is None, or takes none and `data` is given."""
    try:
        signature = inspect.signature(log_density)
    except (TypeError, ValueError):  # some functions that are not written in Python have no signature
        return
    if data is None and not _takes(signature, 1) and _takes(signature, 2):
        raise TypeError(
            f"data: logdensity is a function of {_words(signature)}, and nothing is there for the argument "
            f"{list(signature.parameters)[1]!r}; pass data=, or write a function of the position alone"
        )
    if data is not None and not _takes(signature, 2) and _takes(signature, 1):
        raise TypeError(
            f"data: logdensity is a function of {_words(signature)} and takes no data; leave the argument data= out, "
            "or write a function of (position, data)"
        )


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def _words(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"


def refuse_list(argument: str, position: Any) -> None:
    """Raises TypeError for a list of numbers, also inside dicts: each number would become a variable of its own."""
    if isinstance(position, dict):
        for name, each in position.items():
            refuse_list(f"{argument}[{name!r}]", each)
    if isinstance(position, list) and position and all(isinstance(each, int | float | np.number) for each in position):
        raise TypeError(
            f"{argument} is a list of {len(position)} numbers, each of which would be a variable of its own; pass one "
            f"array, jnp.array({shown(position)})"
        )


def refuse_table(data: Any) -> None:
    """Raises TypeError for a data frame; a log density can take its columns as arrays."""
    if not isinstance(data, np.ndarray | jax.Array) and hasattr(data, "columns") and hasattr(data, "to_numpy"):
        raise TypeError(
            f"data is a {type(data).__name__}; pass its columns as arrays by name, "
            "data={name: frame[name].to_numpy() for name in frame.columns}"
        )


def refuse_place(out: os.PathLike | str) -> None:
    """Raises ValueError if `out` cannot be the path of a store, OSError if its folder is not writable."""
    if "\0" in os.fspath(out):
        raise ValueError(f"out: {shown(out)} holds the letter NUL, which no path may; choose another name")
    parent = os.path.dirname(os.path.abspath(out))
    virtual = os.path.realpath(parent).startswith(("/proc", "/sys", "/dev"))
    if os.path.isdir(parent) and (virtual or not os.access(parent, os.W_OK)):
        raise PermissionError(f"out: nothing can be written in the folder {parent!r}; choose another one")
