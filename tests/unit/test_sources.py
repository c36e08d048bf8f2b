"""Every row of `docs/sources.md` names what exists, and the page is what its command writes."""

from pathlib import Path

import pytest

from gadabout.lab.paper.sources import SOURCES, Row, document, faults, rows

DOCS = Path(__file__).parents[2] / "docs"
GOOD = Row("1", "a row", "gadabout.rwm, gadabout.mala", "integrators.md#Euler")


@pytest.mark.parametrize("source", SOURCES)
def test_every_row_holds(source):
    found = {row.what: wrong for row in rows(source) if (wrong := faults(row, DOCS))}
    assert not found
    assert len({(row.section, row.what) for row in rows(source)}) == len(rows(source))


def test_at_least_170_rows_are_whole():
    assert sum(row.state == "whole" for source in SOURCES for row in rows(source)) >= 170


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"where": "gadabout.rvm"}, "gadabout.rvm"),
        ({"where": "gadabout.rwm, gadabout.no.such"}, "gadabout.no"),
        ({"where": ""}, "invalid format"),
        ({"shown": "integrator.md"}, "no page integrator.md"),
        ({"shown": "integrators.md#Midpoint"}, "no heading that begins with 'Midpoint'"),
        ({"shown": "integrators.md#target"}, "no heading"),
        ({"shown": "`gadabout reproduce table8`"}, "no command"),
        ({"left": "partly"}, "'partly: why'"),
        ({"left": "later: no time"}, "'partly: why'"),
    ],
)
def test_a_planted_bad_row_is_found(change, fault):
    assert faults(GOOD, DOCS) == []
    assert any(fault in found for found in faults(GOOD._replace(**change), DOCS))


def test_the_page_is_what_the_command_writes():
    assert (DOCS / "sources.md").read_text() == document(DOCS) + "\n"
