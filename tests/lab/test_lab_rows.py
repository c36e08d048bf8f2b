"""The rows of a measurement, stored in a file."""

import json

import pytest

from gadabout.lab.rows import Rows


def test_a_row_is_made_once(tmp_path):
    path, made = tmp_path / "rows.jsonl", []

    def make(value):
        made.append(value)
        return {"figure": value}

    for _ in range(2):
        rows = Rows(path)
        assert rows.row({"target": "a", "seed": 0}, lambda: make(1.5)) == {"target": "a", "seed": 0, "figure": 1.5}
        assert rows.row({"target": "a", "seed": 1}, lambda: make(2.5))["figure"] == 2.5
        assert rows.row({"target": "a", "seed": 0}, lambda: make(3.5))["figure"] == 1.5
    assert made == [1.5, 2.5]
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [0, 1]
    assert Rows().row({"target": "a", "seed": 0}, lambda: make(4.5))["figure"] == 4.5


def test_a_row_that_was_made_equals_the_row_that_is_read(tmp_path):
    known = {"targets": ("a", "b"), "sizes": {"x": (1, 2)}}
    made = Rows(tmp_path / "new" / "rows.jsonl").row(known, lambda: {"by_count": {3: (0.5, None)}})
    read = Rows(tmp_path / "new" / "rows.jsonl").row(known, lambda: pytest.fail("it is there"))
    assert made == read == {"targets": ["a", "b"], "sizes": {"x": [1, 2]}, "by_count": {"3": [0.5, None]}}


def test_a_row_is_found_by_all_entries_that_are_known():
    rows = Rows()
    rows.add({"target": "a", "seed": 0})
    rows.add({"target": "a", "seed": 1, "start": None})
    rows.add({"target": "a", "seed": 2, "start": "process"})
    rows.add({"target": "a", "seed": 2})
    assert rows.find({"seed": 1, "target": "a"}) == rows.rows[1]
    assert rows.find({"target": "a"}) == rows.rows[0]
    assert rows.find({"target": "a", "start": None}) == rows.rows[0]
    assert rows.find({"seed": 2, "start": None}) == rows.rows[3]
    assert rows.find({"target": "b"}) is None


def test_what_cannot_be_written_leaves_no_row(tmp_path):
    rows = Rows(tmp_path / "rows.jsonl")
    with pytest.raises(TypeError, match="set"):
        rows.row({"seed": 0}, lambda: {"figure": {1, 2}})
    assert rows.rows == []
    assert not rows.path.exists()


@pytest.mark.parametrize("line", ["[1]", '{"target": ', "no"])
def test_what_is_not_a_row_is_refused(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"target": "a"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"line 2 of .*rows.jsonl is not a row; remove the line"):
        Rows(path)
