"""`gadabout bench constants`: what counts as a constant, how one is changed, and a small run."""

import json

from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.lab.peers.constants import changed, constants, summary


def test_constants_are_numbers_in_capital_letters_alone_or_in_a_row():
    known = {name: place.value for name, place in constants().items()}
    assert known["choose.LARGEST_PARETO_K"] == 0.7
    assert known["pilot.FEWEST"] == 800
    assert not any(name.startswith(("move.", "handover.")) for name in known)
    assert [changed(8, 0.5), changed(1, 0.5), changed(0.7, 2.0)] == [4, 1, 1.4]


def test_a_change_is_compared_with_runs_without_one():
    row, same = {"target": "t", "seed": 0, "outcome": "right"}, {"ess": 100.0, "rhat": 1.0, "gradients": 1_000}
    made = [
        row | {"constant": None, "factor": 1.0, "value": None} | same,
        row | {"constant": "m.SAME", "factor": 0.5, "value": 1} | same,
        row
        | {
            "constant": "m.OTHER",
            "factor": 2.0,
            "value": 4,
            "ess": 200.0,
            "rhat": 1.1,
            "gradients": 1_000,
            "outcome": "flagged",
        },
    ]
    same, other = summary(made)
    assert (same["other"], same["ratio"], same["not_right"]) == (0, None, [])
    assert (other["other"], other["ratio"], other["not_right"]) == (1, 2.0, ["t: flagged"])


def test_a_copy_of_the_package_runs_with_the_change(tmp_path):
    """A longer pilot run leads to other draws; how many coordinates an error names does not."""
    rows = tmp_path / "rows.jsonl"
    names = ["pilot.FEWEST", "growth.MOST_NAMED"]
    arguments = ["bench", "constants", *names, "--target", "meta-analysis", "--json", str(rows)]
    for _ in range(2):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
    made = [json.loads(line) for line in rows.read_text().splitlines()]
    changes = [("growth.MOST_NAMED", 0.5), ("growth.MOST_NAMED", 2.0), ("pilot.FEWEST", 0.5), ("pilot.FEWEST", 2.0)]
    assert [(row["constant"], row["factor"]) for row in made] == [(None, 1.0), *changes]
    draws = [(row["ess"], row["rhat"], row["gradients"]) for row in made]
    assert draws[1] == draws[2] == draws[0]
    assert draws[4] != draws[0]
    assert all(row["ess"] > 0 for row in made)


def test_an_unknown_name_is_one_line():
    result = CliRunner().invoke(app, ["bench", "constants", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.output
