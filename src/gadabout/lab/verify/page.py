"""The page of evidence, in Markdown."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import jax

from gadabout.lab.verify.frame import Figure, Result, commit

PACKAGES = ("gadabout", "jax", "equinox", "numpy", "arviz-stats")


def circumstances(full: bool) -> dict[str, Any]:
    """Version (full or quick), date, commit, machine and package versions of the figures."""
    return {
        "full": full,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "versions": {package: version(package) for package in PACKAGES},
    }


def page(results: Sequence[Result], about: dict[str, Any]) -> str:
    """The page: the circumstances, a line for each item, and all figures."""
    passed, figures = sum(result.found.passed for result in results), sum(len(r.found.figures) for r in results)
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    lines = [
        "# Evidence",
        "",
        f"{passed} of {len(results)} items hold, {figures} figures in all, in the {_size(about)} version:",
        f"{about['date']}; commit {about['commit'] or 'unknown'}; {about['machine']}; {versions}.",
        "",
        "This page is written by",
        "",
        "```sh",
        f"gadabout verify{' --full' if about['full'] else ''} --page docs/verification.md",
        "```",
        "",
        "which keeps finished parts in a folder and goes on there after it was stopped. Each item names the class of",
        "mistake that it would catch. A figure passes or fails by what is wanted of it; others are only reported.",
        "",
        "| Item | Holds | What was found | Would catch | Minutes |",
        "| --- | --- | --- | --- | ---: |",
    ]
    for result in results:
        found, item = result.found, result.item
        cells = [item.name, _yes(found.passed), found.told, item.catches, f"{result.seconds / 60:.1f}"]
        lines.append(_row(cells))
    for result in results:
        lines += ["", f"## {result.item.title}", "", f"Would catch: {result.item.catches}.", ""]
        lines += _table(result.found.figures)
    return "\n".join(lines) + "\n"


def _table(figures: Sequence[Figure]) -> list[str]:
    by = any(figure.by for figure in figures)
    headings = ["Figure", "Value", "Wanted", "Passed", *(["By"] if by else [])]
    lines = [_row(headings), _row(["---", "---:", "---", "---", *(["---"] if by else [])])]
    for figure in figures:
        cells = [figure.what, shown(figure.value), figure.wanted, "" if figure.passed is None else _yes(figure.passed)]
        lines.append(_row([*cells, *([figure.by] if by else [])]))
    return lines


def shown(value: Any) -> str:
    """A figure in few digits."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _yes(passed: bool) -> str:
    return "yes" if passed else "**no**"


def _size(about: dict[str, Any]) -> str:
    return "full" if about["full"] else "quick"
