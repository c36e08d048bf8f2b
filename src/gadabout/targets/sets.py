"""The sets of built-in posteriors, by name, with their builders and the folders of their truth files."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gadabout.model import Model
from gadabout.targets import curved, hierarchical, modes, wild


class TargetSet(NamedTuple):
    """A set of posteriors: its heading in `gadabout list`, builders by name, and the folder of its truth files."""

    heading: str
    builders: Mapping[str, Callable[[], Model]]
    folder: Path

    def available(self) -> dict[str, str]:
        """The names of the set, each with a description of one line. Simulates no data."""
        return {
            name: (builder.__doc__ or "").split("\n")[0].removesuffix(".") for name, builder in self.builders.items()
        }


SETS = {
    "wild": TargetSet("everyday posteriors and awkward shapes", wild.BUILDERS, wild.TRUTH),
    "hierarchical": TargetSet("hierarchical models", hierarchical.BUILDERS, hierarchical.TRUTH),
    "modes": TargetSet("several modes", modes.BUILDERS, modes.TRUTH),
    "curved": TargetSet("curved ridges", curved.BUILDERS, curved.TRUTH),
}
NAMES = [name for each in SETS.values() for name in each.builders]
"""Names of all posteriors of all sets."""


def set_of(name: str) -> TargetSet:
    """The set that contains the target called `name`; raises ValueError if there is none."""
    for each in SETS.values():
        if name in each.builders:
            return each
    raise ValueError(f"target {name!r} is in none of the sets ({', '.join(SETS)}): {', '.join(NAMES)}")


def load(name: str) -> Model:
    """The model called `name`, of any set; raises ValueError for an unknown name."""
    model = set_of(name).builders[name]()
    model.name = name
    return model


def truth(name: str) -> dict[str, Any]:
    """The true moments and quantiles of the target called `name`, of any set; see `wild.truth`.

    Raises ValueError for an unknown name, FileNotFoundError if it has no truth file.
    """
    return json.loads((set_of(name).folder / f"{name}.json").read_text())
