"""Built-in target distributions, by name: the posteriors of the paper's experiments, and four sets of others."""

import difflib
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import jax

from gadabout.model import AbstractModel
from gadabout.targets import curved, gaussian, hierarchical, logistic, modes, sets, wild
from gadabout.targets.data import DataError, data_folder, fetch
from gadabout.targets.problem import Problem

__all__ = [
    "DataError",
    "Problem",
    "available",
    "curved",
    "data_folder",
    "fetch",
    "hierarchical",
    "load",
    "model",
    "modes",
    "precision",
    "sets",
    "wild",
]


def available() -> dict[str, str]:
    """The names of the paper's targets, each with a description of one line. Reads no data. See `sets.SETS`."""
    return gaussian.DESCRIPTIONS | logistic.DESCRIPTIONS


def model(name: str, data_home: str | Path | None = None) -> AbstractModel:
    """The built-in model called `name`, of the paper or of a set; raises as `load` does."""
    return sets.load(name) if name in sets.NAMES else load(name, data_home)


def precision(name: str) -> AbstractContextManager:
    """The context for runs on a target: single precision for MNIST, the precision of the process for all others."""
    return jax.enable_x64(False) if name.startswith("mnist") else nullcontext()


def load(name: str, data_home: str | Path | None = None) -> Problem:
    """The paper's target called `name`; its data files come from `data_home` (see `gadabout.targets.data.fetch`).

    Raises ValueError for an unknown name, DataError if a data file is damaged or cannot be downloaded, ImportError
    if the extra `cli` is not installed and the target needs it.
    """
    if name in gaussian.DESCRIPTIONS:
        return gaussian.load(name)
    if name in logistic.DESCRIPTIONS:
        return logistic.load(name, data_home)
    for each, found in sets.SETS.items():
        if name in found.builders:
            paper = ", ".join(available())
            raise ValueError(f"target {name!r} is one of the {each} set; name one of the paper's: {paper}")
    near = difflib.get_close_matches(name, [*available(), *sets.NAMES], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"target {name!r} is not a built-in one; {hint}`gadabout list` shows them all")
