"""The harness: finds the repeats that an experiment lacks, runs them in turn, and stores them."""

import dataclasses
import gc
import hashlib
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gadabout import targets
from gadabout.driver import Progress
from gadabout.files import whole_file
from gadabout.lab.paper import repeats as repeating
from gadabout.lab.paper.methods import Method, methods
from gadabout.lab.paper.repeats import Repeat
from gadabout.lab.rows import Rows

TIMINGS = 3
"""largest number of timings of one chain alone, for a method whose repeats run together"""

QUICK = 300
"""iterations of each phase of the quick version"""


class Unit(NamedTuple):
    """One run: repeats of a method, or the timing of one chain alone."""

    target: str
    method: Method
    indices: tuple[int, ...]
    timing: bool = False

    def __str__(self):
        first, last = self.indices[0] + 1, self.indices[-1] + 1
        which = f"repeat {first}" if first == last else f"repeats {first} to {last} together"
        return f"{self.target} · {self.method.label} · {f'timing {first}' if self.timing else which}"


class Watcher:
    """Receives the progress of an experiment's runs. This base class does nothing."""

    def begin(self, name: str, total: int, there: int) -> None:
        """Called before an experiment called `name`: it needs `total` runs, of which `there` are stored already."""

    def unit(self, unit: Unit) -> None:
        """Called when a run begins."""

    def progress(self, progress: Progress) -> None:
        """Called as the run proceeds."""

    def done(self, unit: Unit) -> None:
        """Called when the run is stored."""


@dataclasses.dataclass
class Session:
    """The output folder, number of repeats and watcher of experiments, with their stored repeats.

    Each repeat is a row of the file `rows.jsonl` in `folder`. Its arrays are beside it, in a file that the row names.

    Raises:
        ValueError: as `Rows` does.
    """

    out: Path
    repeats: int | None = None
    """number of repeats in place of the paper's; None for the paper's"""
    data_home: Path | None = None
    quick: bool = False
    watcher: Watcher = dataclasses.field(default_factory=Watcher)
    problems: dict[str, targets.Problem] = dataclasses.field(default_factory=dict)
    folder: Path = dataclasses.field(init=False)
    rows: Rows = dataclasses.field(init=False)

    def __post_init__(self):
        self.folder = self.out / ("runs-quick" if self.quick else "runs")
        self.rows = Rows(self.folder / "rows.jsonl")

    def methods(self, target: str) -> list[Method]:
        """The rows of a target's table; in the quick version all for Neal's Gaussian, and only gadMALAf elsewhere."""
        rows = methods(target)
        if not self.quick:
            return rows
        rows = rows if target == "neal" else rows[:1]
        return [self.shortened(row) for row in rows]

    def shortened(self, method: Method) -> Method:
        """The method; in the quick version with `QUICK` iterations of each phase."""
        return dataclasses.replace(method, num_warmup=QUICK, num_draws=QUICK) if self.quick else method

    def complete(self, name: str, wanted: Iterable[tuple[str, Method]], num_repeats: int) -> None:
        """Runs the missing repeats: methods in turn, repeats interleaved."""
        needed = list(self._units(list(wanted), 1 if self.quick else num_repeats))
        missing = list(self._missing(needed))
        self.watcher.begin(name, len(needed), len(needed) - len(missing))
        for unit in missing:
            self.watcher.unit(unit)
            with targets.precision(unit.target):
                self._make(unit)
            self.watcher.done(unit)

    def found(self, target: str, method: Method, num_repeats: int) -> list[Repeat]:
        """The first `num_repeats` stored repeats, each with its seconds."""
        found = list(islice(self._stored(target, method, "repeat"), num_repeats))
        if method.together and found:
            timings = [timing.account for timing in islice(self._stored(target, method, "timing"), TIMINGS)]
            for repeat in found:
                repeat.account["seconds"] = float(np.median([timing["seconds"] for timing in timings]))
                repeat.account["compile_seconds"] = max(timing["compile_seconds"] for timing in timings)
        return found

    def problem(self, target: str) -> targets.Problem:
        """The target, loaded once."""
        if target not in self.problems:
            self.problems[target] = targets.load(target, self.data_home)
        return self.problems[target]

    def _units(self, wanted: list[tuple[str, Method]], num_repeats: int) -> Iterator[Unit]:
        for r in range(num_repeats):
            for target, method in wanted:
                count = min(num_repeats, method.num_repeats or num_repeats)
                if not method.together and r < count:
                    yield Unit(target, method, (r,))
                if method.together and r == 0:
                    yield Unit(target, method, tuple(range(count)))
                if method.together and r < min(TIMINGS, count):
                    yield Unit(target, method, (r,), timing=True)

    def _missing(self, units: list[Unit]) -> Iterator[Unit]:
        for unit in units:
            known = {i: _known(unit.target, unit.method, _kind(unit), i) for i in unit.indices}
            if rest := tuple(i for i in unit.indices if self.rows.find(known[i]) is None):
                yield unit._replace(indices=rest)

    def _make(self, unit: Unit) -> None:
        problem = self.problem(unit.target)
        gc.collect()  # frees the memory of earlier runs
        if unit.timing:
            made = [repeating.time_alone(problem, unit.method, unit.indices[0], self.watcher.progress)]
        else:
            made = repeating.run(problem, unit.method, list(unit.indices), self.watcher.progress)
        for i, repeat in zip(unit.indices, made, strict=True):
            self._store(_known(unit.target, unit.method, _kind(unit), i), repeat)

    def _store(self, known: dict[str, Any], repeat: Repeat) -> None:
        """Writes the arrays and then the row, so that a stored repeat is always complete."""
        name = None
        if repeat.series:
            name = f"{hashlib.sha256(json.dumps(known).encode()).hexdigest()[:16]}.npz"
            self.folder.mkdir(parents=True, exist_ok=True)
            with whole_file(self.folder / name) as partial:
                np.savez(partial, **repeat.series)  # pyright: ignore[reportArgumentType]
        self.rows.add(known | {"series": name} | repeat.account)

    def _stored(self, target: str, method: Method, kind: str) -> Iterator[Repeat]:
        i = 0
        while (row := self.rows.find(_known(target, method, kind, i))) is not None:
            yield Repeat(dict(row), self._series(row["series"]))
            i += 1

    def _series(self, name: str | None) -> dict[str, np.ndarray]:
        if name is None:
            return {}
        with np.load(self.folder / name) as file:
            return dict(file)


def _known(target: str, method: Method, kind: str, i: int) -> dict[str, Any]:
    """Returns the entries that identify a stored repeat; with other settings of the method it is run again."""
    with targets.precision(target):
        made_by = repeating.made_by(method)
    return {"target": target, "method": method.label, "kind": kind, "index": i, "made_by": made_by}


def _kind(unit: Unit) -> str:
    return "timing" if unit.timing else "repeat"
