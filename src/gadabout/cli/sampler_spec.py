"""`gad-mala:variant=exact,factor=diagonal` as a sampler, and `ess=1000,rhat=1.01` as a rule that ends a run."""

from collections.abc import Callable
from typing import Any

from gadabout.algorithms import PLANS
from gadabout.cli.errors import CliError, did_you_mean
from gadabout.cli.settings import read_settings
from gadabout.driver import Until
from gadabout.sampler import Sampler
from gadabout.schedule import Plan


def parse_sampler(spec: str) -> Sampler | Plan:
    """The sampler, or plan, of a specification NAME[:setting=value,…].

    Raises CliError for an unknown name or setting, a value of the wrong type, and one that the recipe refuses.
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
    """The recipe of a name that somebody wrote; all of them are imported."""
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

    Raises CliError for what is no condition, a value of the wrong type, and one that the rule refuses.
    """
    if spec is None:
        return None
    settings = read_settings("--until", Until, spec, "ess=1000,rhat=1.01,seconds=60, or one of them")
    try:
        return Until(**settings)
    except (ValueError, TypeError) as error:
        raise CliError(f"--{error}") from error
