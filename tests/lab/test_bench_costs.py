"""What gradients cost: the commands, and that what is timed alone is all evaluated."""

import json

import jax
import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.lab.peers import costs
from gadabout.target import Target


def test_costs_of_a_gradient_and_of_a_draw(tmp_path):
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


@pytest.mark.long
def test_growth(monkeypatch):
    """Of what can be learned of any size, and of what is not tried above some."""
    low_rank = "gad, MALA with a low-rank factor"
    monkeypatch.setattr(costs, "SAMPLERS", {name: costs.SAMPLERS[name] for name in (low_rank, "gad-mala, dense")})
    for name, value in (("ITERATIONS", 40), ("LARGEST", {"gad-mala, dense": 4})):
        monkeypatch.setattr(costs, name, value)
    rows = list(costs.growth([3, 5], []))
    assert [(row["sampler"], row["n"]) for row in rows] == [(low_rank, 3), (low_rank, 5), ("gad-mala, dense", 3)]
    assert all(row["warmup_us"] > 0 and row["sampling_us"] > 0 for row in rows)
    assert [row["warmup_iterations"] for row in rows] == [40, 40, 40]


def test_the_table_of_growth(tmp_path, monkeypatch):
    """Also of a sampler whose warm-up ends by itself."""
    monkeypatch.setattr(costs, "SAMPLERS", {"split": costs.SAMPLERS["default, split HMC, diagonal"]})
    path = tmp_path / "rows.json"
    result = CliRunner().invoke(app, ["bench", "growth", "3", "--chains", "1", "--json", str(path)])
    assert result.exit_code == 0, result.output
    rows = json.loads(path.read_text())
    assert [row["chains"] for row in rows] == [4, 1]
    assert rows[0]["warmup_iterations"] < costs.ITERATIONS
