"""Rows of a benchmark that are kept in a file."""

import json

import pytest

from gadabout.benchmarks.kept import Kept


def test_a_row_is_made_once(tmp_path):
    path, made = tmp_path / "rows.jsonl", []

    def make(value):
        made.append(value)
        return {"figure": value}

    for _ in range(2):
        kept = Kept(path)
        assert kept.row({"target": "a", "seed": 0}, lambda: make(1.5)) == {"target": "a", "seed": 0, "figure": 1.5}
        assert kept.row({"target": "a", "seed": 1}, lambda: make(2.5))["figure"] == 2.5
        assert kept.row({"target": "a", "seed": 0}, lambda: make(3.5))["figure"] == 1.5
    assert made == [1.5, 2.5]
    assert [json.loads(line)["seed"] for line in path.read_text().splitlines()] == [0, 1]
    assert Kept().row({"target": "a", "seed": 0}, lambda: make(4.5))["figure"] == 4.5


@pytest.mark.parametrize("line", ["[1]", '{"target": ', "no"])
def test_what_is_not_a_row_is_refused(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"target": "a"}}\n{line}\n')
    with pytest.raises(ValueError, match=r"line 2 of .*rows.jsonl is not a row of a benchmark"):
        Kept(path)
