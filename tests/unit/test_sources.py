"""Every row of `docs/sources.md` names what exists, and the page is what its command prints."""

import pkgutil
from itertools import chain
from pathlib import Path

import pytest

from gadabout.lab.paper.sources import SOURCES, document

DOCS = Path(__file__).parents[2] / "docs"
ROWS = list(chain.from_iterable(SOURCES.values()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what)
def test_every_place_exists(row):
    pkgutil.resolve_name(row.where)
    headings = [line for line in (DOCS / row.page).read_text().splitlines() if line.startswith("#")]
    assert any(row.heading in heading for heading in headings)


def test_the_page_is_what_the_command_prints():
    assert (DOCS / "sources.md").read_text() == document() + "\n"
