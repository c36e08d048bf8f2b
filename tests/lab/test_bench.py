"""The benchmarks' commands, on little."""

import json

import jax
import pytest
from typer.testing import CliRunner

from gadabout.algorithms import RECIPES
from gadabout.cli.app import app
from gadabout.lab.peers import processes, samplers


def test_samplers_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(samplers, "RECIPES", {name: RECIPES[name] for name in ("rwm", "mala")})
    monkeypatch.setattr(samplers, "VARIANTS", {"hmc, 3 steps": lambda: RECIPES["hmc"](3)})
    arguments = ["bench", "samplers", "correlated-2d", "--draws", "500", "--json", str(tmp_path / "rows.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "hmc, 3 steps" in result.output
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["sampler"] for row in rows] == ["rwm", "mala", "hmc, 3 steps"]
    for row in rows:
        assert row["q_per_second"] == pytest.approx(row["q"] / row["seconds"])
    assert rows[0]["q_per_gradient"] is None
    assert rows[1]["gradient_evaluations"] == 4 * 5_500
    assert rows[2]["gradient_evaluations"] == 3 * 4 * 5_500
    result = CliRunner().invoke(app, [*arguments, "--sampler", "mala", "--warmup", "100"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert (row["sampler"], row["gradient_evaluations"]) == ("mala", 4 * 600)
    result = CliRunner().invoke(app, [*arguments, "--sampler", "malta"])
    assert result.exit_code == 2
    assert "malta" in result.stderr


def test_what_a_process_measures(monkeypatch):
    """The second run sums nothing over devices, and is compiled anew for that."""
    psum, summed = jax.lax.psum, []
    monkeypatch.setattr(jax.lax, "psum", lambda tree, axis: [summed.append(axis), psum(tree, axis)][1])
    monkeypatch.setattr(processes, "ITERATIONS", 20)
    compiled = []
    monkeypatch.setattr(jax, "clear_caches", lambda clear=jax.clear_caches: [compiled.append(len(summed)), clear()])
    told = processes._measure({"count": 1, "target": "correlated-2d", "data_home": None, "chains": 4, "seed": 0})
    assert set(told) == {"warmup", "sampling", "warmup_without_sums"}
    assert all(seconds > 0 for seconds in told.values())
    assert 0 < len(summed) == compiled[0]


@pytest.mark.parametrize("command", [["overhead"], ["samplers"]])
def test_unknown_target(command):
    result = CliRunner().invoke(app, ["bench", *command, "nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_memory_of_a_mapped_file(tmp_path):
    arguments = ["bench", "minibatch", "--rows", "2000", "--json", str(tmp_path / "memory.json")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "memory.json").read_text())
    assert row["rows"] == 2000
    assert row["private_bytes"] > row["private_bytes_before"] > 0


def test_too_few_rows():
    result = CliRunner().invoke(app, ["bench", "minibatch", "--rows", "10"])
    assert result.exit_code == 2
    assert "--rows" in result.stderr
