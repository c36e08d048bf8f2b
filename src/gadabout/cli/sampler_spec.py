"""`gad-mala:variant=exact,factor=diagonal` as a sampler, and `ess=1000,rhat=1.01` as a rule that ends a run."""

from gadabout.algorithms import PLANS, PYTHON_RECIPES, RECIPES
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
    if name in PYTHON_RECIPES:
        raise CliError(
            f"--sampler: {written!r} is made of your own objects, which a command cannot name; use it from Python"
        )
    offered = PLANS | RECIPES
    if name not in offered:
        raise CliError(f"--sampler: no sampler is called {written!r}; {did_you_mean(name, offered)}")
    example = f"{name}:setting=value,setting=value"
    settings = read_settings(f"--sampler {name}", offered[name], rest, example) if colon else {}
    try:
        return offered[name](**settings)
    except (ValueError, TypeError) as error:
        raise CliError(f"--sampler {name}: {error}") from error


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
