"""Write `docs/sources.md`: contents of the sources, their place in the library, and a page or command that shows them.

python -m gadabout.lab.paper.sources docs

The rows are in `rows/*.csv`, one file for each source. A row names import paths, and a page with a heading or a
`gadabout reproduce` command. Rows whose names or places do not exist raise ValueError.
"""

import csv
import pkgutil
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from gadabout.lab.paper.catalogue import EXPERIMENTS
from gadabout.lab.paper.published import PAPER, SLIDES, Published

SOURCES = {
    "paper": "The paper, with its supplement",
    "slides": "Slides on gradient-based adaptive MCMC",
    "notes": "Notes on Andrieu and Moulines",
    "scalable": "Slides on scalable MCMC",
    "lectures": "Lectures on Markov chain Monte Carlo",
}
"""Titles of the sources, by the name of their file."""

TABLE_1 = "Table 1 of the paper, and of the slides"
STATES = ("whole", "partly", "left out")


class Row(NamedTuple):
    """A section of a source, its content, the import paths that implement it, the evidence, and the missing part.

    `shown` is `page.md`, `page.md#Beginning of a heading` or a command in backquotes. `left` is empty if the library
    has the whole content, else "partly: why" or "out: why".
    """

    section: str
    what: str
    where: str
    shown: str
    left: str = ""

    @property
    def state(self) -> str:
        """One of `STATES`; for another `left`, its text before the colon."""
        word = self.left.partition(":")[0]
        return {"": "whole", "partly": "partly", "out": "left out"}.get(word, word)


def rows(source: str) -> list[Row]:
    """The rows of one of `SOURCES`, in its order."""
    text = files("gadabout.lab.paper").joinpath("rows", f"{source}.csv").read_text(encoding="utf-8")
    lines = csv.reader(text.splitlines()[1:], delimiter="|", quoting=csv.QUOTE_NONE)
    return [Row(*(cell.strip() for cell in line)) for line in lines]


def faults(row: Row, docs: Path) -> list[str]:
    """Faults of a row: names, pages, headings and commands that do not exist, a state without a reason."""
    found = []
    for name in row.where.split(", "):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError, ValueError) as error:
            found.append(f"{name}: {error}")
    if row.state not in STATES or (row.left and not row.left.partition(": ")[2]):
        found.append(f"left: {row.left!r} must be empty, 'partly: why' or 'out: why'")
    if row.shown.startswith("`"):
        if row.shown not in {f"`gadabout reproduce {name}`" for name in EXPERIMENTS}:
            found.append(f"shown: there is no command {row.shown}")
        return found
    page, _, heading = row.shown.partition("#")
    if not (docs / page).is_file():
        return [*found, f"shown: there is no page {page}"]
    if heading and not _heading(docs / page, heading):
        found.append(f"shown: {page} has no heading that begins with {heading!r}")
    return found


def _heading(page: Path, beginning: str) -> str:
    """The first heading of a page, outside code, that starts with `beginning`; empty if there is none."""
    if page.name == "sources.md" and TABLE_1.startswith(beginning):
        return TABLE_1
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#{1,3} (.*)$", text, re.MULTILINE)
    return next((heading for heading in headings if heading.startswith(beginning)), "")


def _link(shown: str, docs: Path) -> str:
    """Returns a command unchanged, and a page as a link to it or to a heading, by the anchor of GitHub and MyST."""
    page, _, beginning = shown.partition("#")
    if not beginning:
        return shown if shown.startswith("`") else f"[{page.removesuffix('.md')}]({page})"
    heading = _heading(docs / page, beginning)
    slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    return f"[{page.removesuffix('.md')}: {heading}]({page}#{slug})"


def document(docs: Path) -> str:
    """The page as Markdown; raises ValueError for rows with faults."""
    table = {source: rows(source) for source in SOURCES}
    wrong = [
        f"{source}, {row.what}: {fault}" for source in table for row in table[source] for fault in faults(row, docs)
    ]
    if wrong:
        raise ValueError("rows of the sources that do not hold:\n" + "\n".join(wrong))
    count = {state: sum(row.state == state for each in table.values() for row in each) for state in STATES}
    parts = [
        "# The sources, row by row",
        "**Read this** to find what a source describes: where it is in the library, and the page or command that shows "
        f"it. Of {sum(count.values())} rows {count['whole']} are whole, {count['partly']} partly here, and "
        f"{count['left out']} left out; the last column says why. `python -m gadabout.lab.paper.sources docs` writes "
        "this page and checks every name, page, heading and command.",
    ]
    for source, title in SOURCES.items():
        lines = ["| Section | What | In the library | Shown by | Missing |", "| --- | --- | --- | --- | --- |"]
        for row in table[source]:
            names = ", ".join(f"`{name}`" for name in row.where.split(", "))
            left = row.left.replace("out: ", "left out: ", 1) if row.state == "left out" else row.left
            lines.append(f"| {row.section} | {row.what} | {names} | {_link(row.shown, docs)} | {left} |")
        parts += [f"## {title}", "\n".join(lines)]
    return "\n\n".join([*parts, f"## {TABLE_1}", _tables()])


def _tables() -> str:
    """Table 1, each cell with the figure of the paper and that of the slides."""
    lines = [
        "Each cell has the paper's figure, then the slides'. Acceptance rates and ESS of AM, RWM, MALA, HMC and NUTS "
        "are of the same runs. `gadabout reproduce table1` prints ours with both.",
        "",
        "| Target | Method | Time (s) | Acceptance | ESS: smallest | median | largest | Min ESS/s | its sd |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for target in SLIDES:
        for method, paper in PAPER[target].items():
            cells = zip(_figures(paper), _figures(SLIDES[target][method]), strict=True)
            lines.append(f"| {target} | {method} | {' | '.join(f'{a:g}, {b:g}' for a, b in cells)} |")
    return "\n".join(lines)


def _figures(row: Published) -> tuple[float, ...]:
    return (row.seconds, row.acceptance_rate, *row.ess, row.min_ess_per_second, row.sd)


if __name__ == "__main__":
    docs = Path(sys.argv[1])
    (docs / "sources.md").write_text(document(docs) + "\n", encoding="utf-8")
