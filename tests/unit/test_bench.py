"""The benchmarks' commands, on little."""

import json

import jax
import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from gadabout.algorithms import RECIPES
from gadabout.benchmarks import costs, processes, samplers
from gadabout.cli.app import app
from gadabout.target import Target


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


def test_costs_of_a_gradient_and_of_a_draw(tmp_path):
    """Rows hold together, and what stands alone is not optimised away: twice the count takes longer."""
    path = tmp_path / "rows.json"
    arguments = ["bench", "costs", "correlated-2d", "--draws", "100", "--repeats", "1", "--json", str(path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(path.read_text())
    assert row["gradient_ratio"] == pytest.approx(row["gradient_us"] / row["bare_us"])
    assert row["noise_ratio"] == pytest.approx(row["draw_us"] / row["noise_us"])
    assert row["move"] in result.output


def test_what_stands_alone_is_all_evaluated():
    """Where positions do move, each evaluation moves them; so many normals have that variance (8 standard errors)."""
    x = jnp.arange(6.0).reshape(2, 3)
    moved, logp = costs._moved(Target(lambda x: -0.5 * x @ x), x, jnp.asarray(0.1), 3)
    assert jnp.allclose(moved, 0.9**3 * x)
    assert jnp.allclose(logp, -0.5 * jnp.sum((0.9**2 * x) ** 2, 1))
    total = costs._noise(jax.random.key(0), (100, 100), 5)
    assert total.var() / 5 == pytest.approx(1, abs=8 * (2 / 10_000) ** 0.5)


def test_growth(monkeypatch):
    """Of what can be learned of any size, and of what is not tried above some."""
    low_rank = "gad, MALA with a low-rank factor"
    monkeypatch.setattr(costs, "SAMPLERS", {name: costs.SAMPLERS[name] for name in (low_rank, "gad-mala, dense")})
    for name, value in (("ITERATIONS", 40), ("LARGEST_DENSE", 4)):
        monkeypatch.setattr(costs, name, value)
    rows = list(costs.growth([3, 5], []))
    assert [(row["sampler"], row["n"]) for row in rows] == [(low_rank, 3), (low_rank, 5), ("gad-mala, dense", 3)]
    assert all(row["warmup_us"] > 0 and row["sampling_us"] > 0 for row in rows)


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
