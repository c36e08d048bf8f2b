"""Every page of the documentation runs, as its build would run it.

A page whose cells take more than some ten seconds has the comment line `% long`, and runs with `pytest -m long`.
"""

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot
import pytest

import gadabout as gad
from gadabout.findings.run import BOUNDS, COUNTED

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "{code-cell}" in page.read_text())


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
    assert "matplotlib" not in page.read_text() or namespace["figure"].axes
    mpl.pyplot.close("all")


def test_every_public_name_stands_in_the_reference():
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    documented = set(re.findall(r"^\.\. auto\w+:: (?:gadabout\.)?(\w+)$", text, re.MULTILINE))
    assert documented == set(gad.__all__)


def test_every_kind_of_finding_stands_in_the_guide():
    package = Path(gad.__file__).parent
    source = "".join(path.read_text() for path in package.rglob("*.py"))
    kinds = (
        set(re.findall(r'Finding\("([a-z-]+)"', source)) | set(COUNTED) | {name.replace("_", "-") for name in BOUNDS}
    )
    told = set(re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "guides" / "warnings.md").read_text(), re.MULTILINE))
    assert kinds == told
