"""What an item of evidence is, and how what it finds is kept, so that a run that was stopped goes on."""

import hashlib
import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gadabout.files import PACKAGE, json_value, write_json

FALSE_ALARM = 1e-6
"""the chance that all figures of an item that are random raise one alarm that is false"""
LEFT_ASIDE = ("cli", "plotting.py", "verify")
"""parts of the package that no figure depends on, or only those of one item"""


@dataclass(frozen=True)
class Figure:
    """One figure of an item.

    Args:
        what: what it is.
        value: a number, or words.
        wanted: what it has to be, in words; empty where it is only reported.
        passed: whether it is so; None where it is only reported.
        by: by what it was found, where figures differ in that.
    """

    what: str
    value: Any
    wanted: str = ""
    passed: bool | None = None
    by: str = ""


@dataclass(frozen=True)
class Found:
    """What an item found: its figures, and what they come to in one line."""

    figures: list[Figure]
    told: str

    @property
    def passed(self) -> bool:
        """Whether no figure is other than it has to be."""
        return all(figure.passed is not False for figure in self.figures)


class Kept:
    """The parts of items, each of them kept as a small JSON file in a folder.

    The file's name has a hash of the part's settings and of the sources that it depends on (see `sources`): other
    settings or other sources are another file.

    Args:
        folder: where the files are.
        say: is told in one line of every part that is made.
    """

    def __init__(self, folder: Path, say: Callable[[str], object] = lambda line: None):
        self.folder, self.say = folder, say
        self.seconds = 0.0
        """what the parts took that were asked for, kept ones included"""

    def __call__(self, name: str, settings: Mapping[str, Any], make: Callable[[], Any]) -> Any:
        """What `make` returns, numbers, words, lists and dictionaries of them; made only where it is not kept."""
        code = sources(make.__module__)
        path = self.folder / f"{name}-{_digest(json.dumps([settings, code], sort_keys=True).encode())}.json"
        if not path.exists():
            began = time.perf_counter()
            found = make()
            document = {"name": name, "settings": settings, "version": version("gadabout"), "code": code}
            document |= {"commit": commit(), "date": datetime.now(UTC).isoformat(timespec="seconds")}
            write_json(path, document | {"seconds": time.perf_counter() - began, "found": json_value(found)})
            self.say(f"{name}: {time.perf_counter() - began:.0f} s")
        document = json.loads(path.read_text())
        self.seconds += document["seconds"]
        return document["found"]


@dataclass(frozen=True)
class Item:
    """A kind of evidence.

    Args:
        name: how the command line knows it.
        title: what the page calls it.
        catches: the class of mistakes that it would catch.
        run: of whether it is the full version, and of a `Kept`, to what was found.
    """

    name: str
    title: str
    catches: str
    run: Callable[[bool, Kept], Found]


@dataclass(frozen=True)
class Result:
    """What an item found, and the seconds that it took."""

    item: Item = field(repr=False)
    found: Found
    seconds: float

    def record(self) -> dict[str, Any]:
        """The result as JSON."""
        about = {"name": self.item.name, "catches": self.item.catches, "passed": self.found.passed}
        return json_value(about | asdict(self.found) | {"seconds": self.seconds})


def run(item: Item, full: bool, folder: Path, say: Callable[[str], object] = lambda line: None) -> Result:
    """An item's result; what of it is in the folder is not made again."""
    kept = Kept(folder, say)
    return Result(item, item.run(full, kept), kept.seconds)


def bound(figures: int, runs: int | None = None) -> float:
    """The bound of |z| that so many figures all keep but for a chance of `FALSE_ALARM`.

    Of |t|, where their errors are worked out from so many `runs`.
    """
    from scipy import stats  # takes a while to import

    law = stats.norm if runs is None else stats.t(runs - 1)
    return float(law.isf(FALSE_ALARM / (2 * figures)))


def sources(module: str) -> str:
    """A hash of the package, and of those modules of `gadabout.verify` that `module` is made of, if it is one of them.

    So a new item, or another page, makes nothing anew.
    """
    paths = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in LEFT_ASIDE]
    paths += [PACKAGE / "verify" / f"{name}.py" for name in _made_of(module.removeprefix("gadabout.verify."))]
    return _digest(b"\0".join(str(path.relative_to(PACKAGE)).encode() + path.read_bytes() for path in sorted(paths)))


def _made_of(name: str) -> set[str]:
    """A module of `gadabout.verify` and those that it imports, by name; none where it is no such module."""
    path = PACKAGE / "verify" / f"{name}.py"
    if not path.exists():
        return set()
    imported = re.findall(r"^from gadabout\.verify\.(\w+) import", path.read_text(), re.MULTILINE)
    return {name}.union(*map(_made_of, imported))


def commit() -> str:
    """The commit that the sources are of, with a + where they differ from it; empty where that is not known."""
    git = ["git", "-C", str(PACKAGE)]
    try:
        head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:12]
