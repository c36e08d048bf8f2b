"""Functions of the user's own within samplers, such as conditionals of `gibbs` or a proposal of the user's."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import Any

import equinox as eqx

from gadabout.adaptations import Pool
from gadabout.driver import loop
from gadabout.executables import edition, new_edition
from gadabout.sampler import Sampler
from gadabout.target import Target

KNOWN = {"builtins", "equinox", "functools", "gadabout", "jax", "jaxlib", "numpy", "optax"}
"""packages whose functions stay what they are"""


def fresh_for(samplers: Sequence[Sampler], form: Callable[[Sampler], loop.Run], target: Target) -> Target:
    """The target with an edition that stands for the user's own functions within samplers too (see `target.fresh`).

    One iteration of each sampler is traced anew, where there are such functions; `form` returns the shapes of its run.
    """

    def iterations(samplers, forms, target):
        return [
            loop.iteration(sampler, target, form, adapt, Pool())
            for sampler, form in zip(samplers, forms, strict=True)
            for adapt in (True, False)
        ]

    with suppress(Exception):  # of the user's functions: it is explained where the run calls them
        forms = tuple(map(form, samplers))
        if not own([(one.adaptation, run.pools.kernel) for one, run in zip(samplers, forms, strict=True)]):
            return target
        return replace(target, edition=edition(iterations, tuple(samplers), forms, target))
    return replace(target, edition=new_edition())


def own(part: Any) -> bool:
    """Whether a part of a sampler is, or holds, a class or function from outside of `KNOWN` packages."""
    if isinstance(part, tuple | list):
        return any(map(own, part))
    if isinstance(part, dict):
        return any(map(own, part.values()))
    if isinstance(part, partial):
        return own((part.func, part.args, part.keywords))
    module = getattr(part if callable(part) and hasattr(part, "__qualname__") else type(part), "__module__", "")
    if (callable(part) or isinstance(part, eqx.Module)) and module.partition(".")[0] not in KNOWN:
        return True
    return isinstance(part, eqx.Module) and any(own(getattr(part, each.name, None)) for each in fields(part))
