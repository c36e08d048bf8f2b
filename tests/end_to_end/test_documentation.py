"""Every page of the documentation runs, as its build would run it.

A page whose cells take more than some ten seconds has the comment line `% long`, and runs with `pytest -m long`.
"""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

PAGES = sorted(page for page in (Path(__file__).parents[2] / "docs").glob("*.md") if "{code-cell}" in page.read_text())


def case(page):
    long = re.search(r"^% long\b", page.read_text(), re.MULTILINE)
    return pytest.param(page, marks=pytest.mark.long if long else (), id=page.stem)


@pytest.mark.parametrize("page", [case(page) for page in PAGES])
def test_page_runs(page, monkeypatch):
    mpl.use("Agg")
    cells = re.findall(r"```\{code-cell\}[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)
    namespace: dict = {"__name__": page.stem}
    for cell in cells:
        exec(compile(cell, page.name, "exec"), namespace)
    assert namespace["figure"].axes
    mpl.pyplot.close("all")
