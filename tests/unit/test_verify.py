"""The frame of the evidence: what is kept, what is made anew, the page and the command."""

import json

import pytest
from typer.testing import CliRunner

from gadabout import verify
from gadabout.cli.app import app
from gadabout.verify import Figure, Found, Item, frame


@pytest.fixture
def made(monkeypatch):
    """The items "right" and "wrong", whose parts are noted when they are made."""
    made = []

    def run(full, kept, passed):
        part = lambda name: kept(name, {"full": full}, lambda: made.append(name) or 1.5)
        figures = [Figure("a", part("one"), "above 1", passed), Figure("b | c", part("two") + 2_000.0)]
        return Found(figures, "as it was wanted")

    items = [
        Item(name, name.title(), "nothing", lambda full, kept, passed=passed: run(full, kept, passed))
        for name, passed in (("right", True), ("wrong", False))
    ]
    monkeypatch.setattr(verify, "ITEMS", {item.name: item for item in items})
    return made


def test_finished_parts_are_kept_until_settings_or_sources_change(tmp_path, made, monkeypatch):
    for full, expected in ((False, ["one", "two"]), (False, []), (True, ["one", "two"])):
        made.clear()
        result = verify.run(verify.ITEMS["right"], full, tmp_path)
        assert made == expected
        assert result.found.passed
    next(tmp_path.glob("one-*.json")).unlink()
    made.clear()
    for full in (False, True):
        verify.run(verify.ITEMS["right"], full, tmp_path)
    assert made == ["one"]
    monkeypatch.setattr(frame, "sources", lambda: "other")
    verify.run(verify.ITEMS["right"], False, tmp_path)
    assert made == ["one", "one", "two"]


def invoke(*arguments):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def test_the_command_writes_the_page_and_the_figures(tmp_path, made):
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    result = invoke("right", "--folder", tmp_path / "kept", "--page", page, "--json", figures)
    assert result.exit_code == 0
    text = page.read_text()
    assert "1 of 1 items hold, 2 figures in all" in text
    assert "| a | 1.5 | above 1 | yes |" in text
    assert r"| b \| c | 2,002 |  |  |" in text
    document = json.loads(figures.read_text())
    assert document["items"][0]["figures"][0]["value"] == 1.5
    assert document["versions"]["gadabout"]
    result = invoke("--folder", tmp_path / "kept", "--page", page)
    assert result.exit_code == 1
    assert "**no**" in page.read_text()


def test_what_the_command_refuses(tmp_path, made):
    result = invoke("rigth", "--folder", tmp_path / "kept")
    assert result.exit_code == 2
    assert "did you mean right?" in result.stderr
    assert invoke("--page", tmp_path / "no" / "page.md").exit_code == 2
    (tmp_path / "file").touch()
    assert "--folder" in invoke("right", "--folder", tmp_path / "file").stderr
