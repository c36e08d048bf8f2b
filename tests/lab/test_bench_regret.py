"""`gadabout bench regret`: what a choice is compared with, and a small run."""

import json

import pytest
from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.lab.peers.regret import MOVES, regrets


def row(forced, worth, rhat_max=1.0, move=None, target="t", seed=0):
    named = {"target": target, "seed": seed, "forced": forced, "move": move or forced}
    return named | {"worth": worth, "rhat_max": rhat_max}


def test_a_choice_is_compared_with_moves_that_mixed():
    made = [row("auto", 0.1, move="nuts"), row("split-hmc", 0.4), row("independence", 9.0, 1.5), row("nuts", 0.1)]
    (found,) = regrets(made)
    assert (found["chosen"], found["best"]) == ("nuts", "split-hmc")
    assert found["share"] == pytest.approx(0.25)
    made = [row("auto", 0.5, move="mixture"), row("split-hmc", 0.4, 2.0), row("nuts", 0.1)]
    (found,) = regrets(made)
    assert (found["best"], found["share"]) == ("mixture", 1)
    both = regrets([*made, *(row(move, 1.0, target="u") for move in MOVES)])
    assert [each["target"] for each in both] == ["t", "u"]


def test_each_move_is_forced_and_rows_are_kept(tmp_path):
    arguments = ["bench", "regret", "banana", "--draws", "100", "--json", str(tmp_path / "rows.jsonl")]
    for _ in range(2):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        assert "geometric mean" in result.output
    made = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [each["forced"] for each in made] == list(MOVES)
    assert all(each["move"].startswith(each["forced"]) for each in made[1:])
    assert all(each["q"] > 0 and each["cost"] > 0 for each in made)
    by_move = {each["forced"]: each for each in made}
    assert by_move["independence"]["cost"] < by_move["split-hmc"]["cost"]


def test_an_unknown_target_is_one_line():
    result = CliRunner().invoke(app, ["bench", "regret", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.output
