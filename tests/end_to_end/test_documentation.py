"""Every page of the documentation runs, as its build would run it."""

import re
from pathlib import Path

import matplotlib as mpl
import pytest

PAGES = sorted(page for page in (Path(__file__).parents[2] / "docs").glob("*.md") if "{code-cell}" in page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_runs(page, monkeypatch):
    mpl.use("Agg")
    cells = re.findall(r"```\{code-cell\}[^\n]*\n(.*?)```", page.read_text(), re.DOTALL)
    namespace: dict = {"__name__": page.stem}
    for cell in cells:
        exec(compile(cell, page.name, "exec"), namespace)
    assert namespace["figure"].axes
    mpl.pyplot.close("all")
