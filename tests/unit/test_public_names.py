"""The public name space: which names there are, and how they are called. A change here is a change for users."""

import inspect
import json
import subprocess
import sys
import typing
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import gadabout as gad
from gadabout import targets

SNAPSHOT = Path(__file__).with_name("public_names.json")
ROOMS = ("adaptations", "factors", "finite", "kernels", "minibatch", "models", "monte_carlo", "proposals")


def described(value) -> str:
    """A signature without its annotations, or the kind of a thing."""
    if inspect.ismodule(value):
        return "module"
    if typing.get_origin(value) or getattr(value, "_is_protocol", False):
        return "type"  # Python's versions differ in what they say of these
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return type(value).__name__
    simple = lambda default: default if isinstance(default, str | int | float | None) else type(default).__name__
    plain = [
        p.replace(annotation=p.empty, default=p.empty if p.default is p.empty else simple(p.default))
        for p in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty)).replace('"', "")


def names() -> dict:
    rooms = {"gadabout": gad} | {room: getattr(gad, room) for room in ROOMS if hasattr(getattr(gad, room), "__all__")}
    return {
        room: {name: described(getattr(module, name)) for name in sorted(module.__all__)}
        for room, module in rooms.items()
    }


def test_public_names_and_signatures_are_those_of_the_snapshot():
    """To change them on purpose: `python -m tests.unit.test_public_names`, and a line in the changelog."""
    assert names() == json.loads(SNAPSHOT.read_text())


def test_no_two_names_differ_by_a_capital_letter_only():
    lower = [name.lower().replace("_", "") for name in gad.__all__]
    assert len(set(lower)) == len(lower)


def test_dir_shows_public_names_alone_whatever_was_imported():
    code = "import gadabout, gadabout.cli.app, gadabout.api.sample; print(dir(gadabout) == sorted(gadabout.__all__))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "True\n"
    assert not [name for name in dir(gad) if name.startswith("_")]


def log_density(x):
    return -sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


@pytest.mark.parametrize(
    "thing",
    [
        gad.default(),
        gad.default(move="nuts"),
        gad.Model(log_density),
        gad.Model(log_density, position={f"v{i}": jnp.zeros((i, 50)) for i in range(1, 99)}, data={"y": jnp.ones(99)}),
        targets.load("neal"),
        targets.model("crossed-effects"),
    ],
    ids=lambda thing: thing.name,
)
def test_a_model_and_the_default_are_shown_in_ten_lines(thing):
    lines = repr(thing).splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 200
    assert thing.name in lines[0]
    if isinstance(thing, gad.Plan):
        assert all(type(stage).__name__ in line for stage, line in zip(thing.stages, lines[1:], strict=True))
    elif thing.layout is not None:
        assert f"{thing.layout.dim:,} coordinates" in lines[0]
        assert thing.layout.names[0] in lines[0]


@pytest.mark.parametrize("room", ROOMS)
def test_all_that_is_listed_is_there(room):
    module = getattr(gad, room)
    assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))


def test_a_recipe_imports_what_it_needs_and_a_function_is_not_the_module_of_its_name():
    """The default has nothing of the methods it does not use; `gad_mala` is a file, and the recipe in it."""
    code = (
        "import sys, gadabout as gad; from gadabout import algorithms\n"
        "gad.default(), gad.sample\n"
        "print(*sorted({each.rpartition('.')[2] for each in sys.modules if each.startswith('gadabout.')}))\n"
        "import gadabout.algorithms.gad_mala, gadabout.api.sample\n"
        "print(callable(algorithms.gad_mala), callable(gad.sample), sorted(algorithms.RECIPES) != [])\n"
        "from gadabout import *\n"
        "print(callable(mala), callable(sample))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    imported = set(out[0].split())
    assert {"default", "sample"} <= imported
    assert not imported & {"gibbs", "haario", "fisher", "flow", "stochastic_gradient", "monte_carlo", "smc", "tables"}
    assert out[1:] == ["True True True", "True True"]


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(names(), indent=1, sort_keys=True) + "\n")
