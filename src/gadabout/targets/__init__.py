"""Built-in target distributions: the posteriors of the paper's experiments, by name."""

import difflib
from pathlib import Path

from gadabout.targets import gaussian, logistic
from gadabout.targets.data import DataError, data_folder, fetch
from gadabout.targets.problem import Problem

__all__ = ["DataError", "Problem", "available", "data_folder", "fetch", "load"]


def available() -> dict[str, str]:
    """The names of the built-in targets, each with a description of one line. Reads no data."""
    return gaussian.DESCRIPTIONS | logistic.DESCRIPTIONS


def load(name: str, data_home: str | Path | None = None) -> Problem:
    """The built-in target called `name`; its data files come from `data_home` (see `gadabout.targets.data.fetch`).

    Raises ValueError for an unknown name, DataError where a data file is damaged or cannot be downloaded, ImportError
    where the extra `cli` is not installed and the target needs it.
    """
    if name in gaussian.DESCRIPTIONS:
        return gaussian.load(name)
    if name in logistic.DESCRIPTIONS:
        return logistic.load(name, data_home)
    near = difflib.get_close_matches(name, available(), n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"target {name!r} is not a built-in one; {hint}`gadabout list` shows them all")
