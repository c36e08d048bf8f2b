"""Each page of the gallery is short, and has a model, a call, a summary and a picture; the index names all of them."""

import re
from pathlib import Path

import pytest

from gadabout.lab.peers.gallery import cells

FOLDER = Path(__file__).parents[2] / "docs" / "gallery"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.name != "index.md")
LONGEST = 60


def lacking(text: str, code: list[str]) -> list[str]:
    """What a page of the gallery does not have."""
    pieces = {
        "at most 60 lines": len(text.splitlines()) <= LONGEST,
        "the marker": "\n% long\n" in text,
        "a model": bool(code) and bool(re.search(r"^model = gad\.(Model|models\.\w+)\(", code[0], re.MULTILINE)),
        "a call": len(code) > 1 and "tree = gad.sample(model, progress=False)\n" in code[1],
        "a summary": len(code) > 1 and "arviz_stats.summary(tree" in code[1],
        "a picture": len(code) > 2 and "figure, " in code[-1] and "plt.show()" in code[-1],
        "a sentence that reads it": bool(text.rpartition("```")[2].strip()),
    }
    return [name for name, there in pieces.items() if not there]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_whole(page):
    assert lacking(page.read_text(), cells(page)) == []


def test_there_are_ten_pages_and_the_index_has_them():
    index = (FOLDER / "index.md").read_text()
    assert len(PAGES) == 10
    for page in PAGES:
        assert f"({page.name})" in index
        assert re.search(rf"^{page.stem}$", index, re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("plt.show()\n", "", "a picture"),
        ("tree = gad.sample(model, progress=False)\n", "", "a call"),
        ("model = gad.", "other = gad.", "a model"),
        ("\n% long\n", "\n", "the marker"),
        ("# Eight schools\n", "# Eight schools\n" + "\n" * LONGEST, "at most 60 lines"),
    ],
)
def test_a_page_that_lacks_something_is_found(tmp_path, old, new, found):
    page = tmp_path / "eight_schools.md"
    page.write_text((FOLDER / "eight_schools.md").read_text().replace(old, new))
    assert found in lacking(page.read_text(), cells(page))
