"""Functions of the user's own within samplers or distributions, such as conditionals of `gibbs`, or a proposal."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from types import FunctionType
from typing import Any

import equinox as eqx

from gadabout.executables import edition, new_edition
from gadabout.target import Target

KNOWN = {"builtins", "equinox", "functools", "gadabout", "jax", "jaxlib", "numpy", "optax"}
"""packages whose functions stay what they are"""


def fresh_with(target: Target, parts: Any, call: Callable[..., Any], *arguments: Any) -> Target:
    """The target with an edition that stands for the user's functions among the parts too (see `target.fresh`).

    Where there are such functions `call(target, *arguments)`, which calls them, is traced anew.
    """
    if not own(parts):
        return target
    with suppress(Exception):  # of the user's functions: it is explained where the run calls them
        return replace(target, edition=edition(call, target, *arguments))
    return replace(target, edition=new_edition())


def own(part: Any) -> bool:
    """Whether a part is, or holds, an object or a function from outside of `KNOWN` packages."""
    return _own(part, set())


def _own(part: Any, known: set[int]) -> bool:
    if id(part) in known:  # functions may hold themselves
        return False
    known.add(id(part))
    held: list[Any] = []
    if isinstance(part, tuple | list):
        held = list(part)
    elif isinstance(part, dict):
        held = list(part.values())
    elif isinstance(part, partial):
        held = [part.func, part.args, part.keywords]
    else:
        module = getattr(part if callable(part) and hasattr(part, "__qualname__") else type(part), "__module__", None)
        if (module or "").partition(".")[0] not in KNOWN:
            return True
        if isinstance(part, eqx.Module):
            held = [getattr(part, each.name, None) for each in fields(part)]
        elif isinstance(part, FunctionType):
            held = [cell.cell_contents for cell in part.__closure__ or ()]
    return any(_own(each, known) for each in held)
