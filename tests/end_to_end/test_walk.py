"""The newcomer's walks of CONTRIBUTING: a run enters the files of each in their order."""

import functools
import re
import sys
from itertools import groupby
from pathlib import Path

import jax.numpy as jnp
import pytest

import gadabout as gad

PACKAGE = Path(gad.__file__).parent
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
MOST_FILES = 12


def walks():
    """The files of each walk, by its title."""
    text = CONTRIBUTING.read_text()
    sections = re.findall(r"^### (.+?)\n(.*?)(?=^##)", text[text.index("## Four walks") :], re.MULTILINE | re.DOTALL)
    return {title: re.findall(r"^\d+\. `(\S+?)`", body, re.MULTILINE) for title, body in sections}


@functools.cache
def entered(run):
    """The package's files in which a run calls functions, one after another."""
    calls, folder = [], str(PACKAGE)

    def on_call(frame, event, _):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(folder) and frame.f_code.co_name != "<module>":
            calls.append(name)

    sys.setprofile(on_call)
    try:
        run()
    finally:
        sys.setprofile(None)
    return [Path(name).relative_to(PACKAGE).as_posix() for name, _ in groupby(calls)]


def missing(walk, calls):
    """The files of a walk from the first on that no call enters after those before it."""
    left = list(walk)
    for name in calls:
        if left and name == left[0]:
            left.pop(0)
    return left


def by_default():
    gad.sample(lambda x: -0.5 * jnp.sum(x**2) / 1.7, jnp.zeros(3), num_draws=20, progress=False)


def centred(position):
    log_sd, effect = position["log_sd"], position["effect"]
    prior = -0.5 * (log_sd + 1) ** 2 - 0.5 * jnp.sum((effect / jnp.exp(log_sd)) ** 2) - effect.size * log_sd
    return prior - 0.5 * jnp.sum((jnp.linspace(-1.5, 1.5, 8) - effect) ** 2)


def of_groups():
    gad.sample(centred, {"log_sd": 0.0, "effect": jnp.zeros(8)}, num_draws=20, progress=False)


def by_gad_mala():
    log_density = lambda x: -0.5 * jnp.sum(x**2) / 1.9
    length = {"num_warmup": 40, "num_draws": 20, "progress": False}
    tree = gad.sample(log_density, jnp.zeros(7), sampler=gad.gad_mala(), **length)
    gad.sample(log_density, sampler=gad.gad_mala(), warm_start=tree, **length)


RUNS = {
    "A draw of the default": by_default,
    "A draw of `gad_mala()`": by_gad_mala,
    "θ of the default": of_groups,
    "θ of `gad_mala()`": by_gad_mala,
    "A key": by_gad_mala,
}


def test_walks_are_short_and_pass_no_file_twice():
    found = walks()
    assert set(found) == set(RUNS)
    for title, walk in found.items():
        assert 2 <= len(walk) <= MOST_FILES, title
        assert len(set(walk)) == len(walk), title


@pytest.mark.parametrize("title", RUNS)
def test_a_run_enters_the_files_of_a_walk_in_order(title):
    assert missing(walks()[title], entered(RUNS[title])) == []
