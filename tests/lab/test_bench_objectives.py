"""Algorithm 1 carried further, side by side: the command, its rows, and that it goes on where it stopped."""

import json

import pytest
from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.lab.peers import objectives


def test_rows_are_made_once_and_shown(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    some = ("walk at 3 scales, score function", "independence, Gaussian, log-ratio")
    monkeypatch.setattr(objectives, "METHODS", {name: objectives.METHODS[name] for name in some})
    sizes = ["--chains", "4", "--warmup", "200", "--draws", "100", "--seeds", "1", "--json", str(path)]
    result = CliRunner().invoke(app, ["bench", "objectives", "correlated-2d", "banana", *sizes])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["target"], row["method"]) for row in rows] == [
        (target, name) for target in ("correlated-2d", "banana") for name in some
    ]
    for row in rows:
        assert row["q_per_1000_evaluations"] == 1_000 * row["q"] / 400  # no move of these asks for a gradient
        assert 0 < row["with_warmup"] < row["q_per_1000_evaluations"]
        assert 0 < row["acceptance_rate"] <= 1
    monkeypatch.setattr(objectives, "sample", pytest.fail)  # nothing is made again
    assert CliRunner().invoke(app, ["bench", "objectives", "correlated-2d", "banana", *sizes]).exit_code == 0


def test_an_unknown_target_is_named():
    result = CliRunner().invoke(app, ["bench", "objectives", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.output


def test_medians_over_seeds():
    figures = {"q": 1.0, "acceptance_rate": 0.5, "q_per_1000_evaluations": 2.0, "with_warmup": 1.0, "seconds": 0.1}
    rows = [{"target": "a", "method": "b", "rhat": 1 + k / 10, **figures, "q": float(k)} for k in (1, 2, 9)]
    (row,) = objectives.summary(rows)
    assert row["q"] == 2
    assert row["rhat"] == 1.9
