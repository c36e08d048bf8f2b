"""Items of evidence, and storage of their parts, so that an interrupted run can resume."""

import hashlib
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gadabout.files import PACKAGE, json_value
from gadabout.lab.rows import Rows

FALSE_ALARM = 1e-6
"""probability that the random figures of an item, all together, raise a false alarm"""
LEFT_ASIDE = ("cli", "lab", "plotting.py")
"""parts of the package on which no figure depends, or only figures of one item"""


@dataclass(frozen=True)
class Figure:
    """One figure of an item.

    Args:
        what: description of the figure.
        value: a number, or text.
        wanted: the requirement, in words; empty if the figure is only reported.
        passed: whether the requirement is met; None if the figure is only reported.
        by: the check that found it, or details, if figures differ in that.
    """

    what: str
    value: Any
    wanted: str = ""
    passed: bool | None = None
    by: str = ""


@dataclass(frozen=True)
class Found:
    """Results of an item: its figures, and their summary in one line."""

    figures: list[Figure]
    told: str

    @property
    def passed(self) -> bool:
        """Whether no figure fails its requirement."""
        return all(figure.passed is not False for figure in self.figures)


class Parts:
    """The parts of items, stored as rows of one file.

    A row has the part's name, its settings and a hash of the sources that it depends on (see `sources`). A part with
    other settings or other sources is computed again.

    Args:
        folder: the folder of the file, `parts.jsonl`.
        say: called with one line for every part that is computed.

    Raises:
        ValueError: as `Rows` does.
    """

    def __init__(self, folder: Path, say: Callable[[str], object] = lambda line: None):
        self.rows, self.say = Rows(folder / "parts.jsonl"), say
        self.seconds = 0.0
        """seconds that the requested parts took, stored ones included"""

    def part(self, name: str, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """Returns the result of `make`: numbers, text, lists and dictionaries. Calls it if the part is not stored."""
        known = {"name": name, "settings": settings, "code": sources(make.__module__)}
        row = self.rows.row(known, lambda: self._made(name, make))
        self.seconds += row["seconds"]
        return row["found"]

    def _made(self, name: str, make: Callable[[], Any]) -> dict[str, Any]:
        began = time.perf_counter()
        found = json_value(make())
        seconds = time.perf_counter() - began
        self.say(f"{name}: {seconds:.0f} s")
        circumstances = {"commit": commit(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
        return {"version": version("gadabout"), **circumstances, "seconds": seconds, "found": found}


@dataclass(frozen=True)
class Item:
    """A kind of evidence.

    Args:
        name: name on the command line.
        title: heading on the page.
        catches: the class of mistakes that it would catch.
        run: function of (whether it is the full version, `Parts`) that returns `Found`.
    """

    name: str
    title: str
    catches: str
    run: Callable[[bool, Parts], Found]


@dataclass(frozen=True)
class Result:
    """Results of an item, and the seconds that it took."""

    item: Item = field(repr=False)
    found: Found
    seconds: float

    def record(self) -> dict[str, Any]:
        """The result as JSON."""
        about = {"name": self.item.name, "catches": self.item.catches, "passed": self.found.passed}
        return json_value(about | asdict(self.found) | {"seconds": self.seconds})


def run(item: Item, full: bool, parts: Parts) -> Result:
    """Runs an item and returns its result; stored parts are not computed again."""
    before = parts.seconds
    found = item.run(full, parts)
    return Result(item, found, parts.seconds - before)


def bound(figures: int, runs: int | None = None) -> float:
    """The bound of |z| that the given number of figures all keep, except with probability `FALSE_ALARM`.

    With `runs`, the bound of |t| for standard errors estimated from that many runs.
    """
    from scipy import stats  # slow to import

    law = stats.norm if runs is None else stats.t(runs - 1)
    return float(law.isf(FALSE_ALARM / (2 * figures)))


def sources(module: str) -> str:
    """A hash of the package and, if `module` is in `gadabout.lab.verify`, of it and the modules that it imports there.

    So a new item, or another page, invalidates no stored part.
    """
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in LEFT_ASIDE]
    paths += [
        PACKAGE / "lab" / "verify" / f"{name}.py" for name in _made_of(module.removeprefix("gadabout.lab.verify."))
    ]
    return _digest(b"\0".join(str(path.relative_to(PACKAGE)).encode() + path.read_bytes() for path in sorted(paths)))


def _made_of(name: str) -> set[str]:
    """Names of a module of `gadabout.lab.verify` and of those that it imports; none if there is no such module."""
    path = PACKAGE / "lab" / "verify" / f"{name}.py"
    if not path.exists():
        return set()
    imported = re.findall(r"^from gadabout\.lab\.verify\.(\w+) import", path.read_text(), re.MULTILINE)
    return {name}.union(*map(_made_of, imported))


def commit() -> str:
    """The commit of the sources, with a + if they differ from it; empty if it is unknown."""
    git = ["git", "-C", str(PACKAGE)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]
