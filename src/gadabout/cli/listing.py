"""`gadabout list`: the names of targets and samplers, and the settings of one sampler."""

import inspect
import textwrap
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from gadabout.cli.errors import CliError, did_you_mean

WIDTH = 100
KINDS = {bool: "true or false", int: "a whole number", float: "a number", None: "an object"}


def list_names(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A target, or a sampler: its settings.")] = None,
) -> None:
    """List targets and samplers, one line each; of one sampler its settings, their defaults and their meaning."""
    from gadabout.algorithms import PLANS, PYTHON_RECIPES, RECIPES
    from gadabout.targets import available
    from gadabout.targets.sets import SETS

    targets, recipes = available(), PLANS | RECIPES | PYTHON_RECIPES
    for each in SETS.values():
        targets |= each.available()
    if name is None:
        _list("targets", available())
        for each in SETS.values():
            _list(f"targets: {each.heading}", each.available())
        _list("samplers", {each: _head(recipe) for each, recipe in (PLANS | RECIPES).items()})
        of_objects = {each: _head(recipe) for each, recipe in PYTHON_RECIPES.items()}
        _list("samplers made of your own objects, in Python", of_objects)
    elif name in targets:
        print(f"{name}: {targets[name]}")
    elif (known := name.strip().lower().replace("_", "-")) in recipes:
        _show(known, recipes[known], in_python=known in PYTHON_RECIPES)
    else:
        remedy = did_you_mean(name, (*targets, *recipes))
        raise CliError(f"NAME: no target or sampler is called {name!r}; {remedy}")


def _list(heading: str, entries: dict[str, str]) -> None:
    width = max(map(len, entries))
    print(f"{heading}:")
    for name, description in entries.items():
        print(f"  {name:<{width}}  {description}")


def _head(recipe: Callable[..., Any]) -> str:
    return (recipe.__doc__ or "").strip().split("\n")[0]


def _show(name: str, recipe: Callable[..., Any], in_python: bool) -> None:
    """Prints the settings of a recipe, from its signature and its docstring."""
    from gadabout.cli.specs import choices

    parameters, hints, meaning = inspect.signature(recipe).parameters, get_type_hints(recipe), meanings(recipe)
    print(f"{name}: {_head(recipe)}")
    if parameters:
        print("settings, in Python:" if in_python else f"settings, written --sampler {name}:setting=value,…:")
    for setting, parameter in parameters.items():
        kind = choices(hints[setting])
        words = f"one of {', '.join(kind)}" if isinstance(kind, tuple) else KINDS[kind]
        words += ", in Python only" if kind is None and not in_python else ""
        default = parameter.default
        if default is parameter.empty:
            words += "; to be given"
        elif default is not None:
            words += f"; {str(default).lower() if kind is bool else default} by default"
        print(f"  {setting}: {words}")
        print(textwrap.fill(meaning.get(setting, ""), WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6))


def meanings(function: Callable[..., Any]) -> dict[str, str]:
    """The description of each argument, by name, from the section `Args:` of a docstring."""
    _, _, section = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    found: dict[str, str] = {}
    name = ""
    for line in section.split("\n"):
        if line and not line.startswith("    "):
            break
        if line.startswith("    ") and not line.startswith("     "):
            name, _, text = line.strip().partition(": ")
            found[name] = text
        elif line.strip() and name:
            found[name] += f" {line.strip()}"
    return found
