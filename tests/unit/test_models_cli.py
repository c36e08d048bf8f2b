"""`gadabout sample file.py:function --data FILE`, and models that a file holds."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gadabout.cli.app import app

FILE = """
import jax.numpy as jnp
import gadabout as gad

def scaled(x, data):
    return -0.5 * jnp.sum(((x - data["mean"]) / data["sd"]) ** 2)

model = gad.Model(lambda v: -v["tau"], {"tau": 1.0}, start=lambda key: {"tau": jnp.ones(())})
"""
DATA = {"mean": np.array([100.0, -50.0]), "sd": np.array([1.0, 2.0])}


@pytest.fixture
def run(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)

    def run(name, *arguments):
        options = ["--sampler", "mala", "--warmup", "500", "--draws", "500", "--chains", "2", "--no-progress"]
        command = ["sample", f"{tmp_path / 'mine.py'}:{name}", *options, *map(str, arguments)]
        return CliRunner().invoke(app, command)

    return run


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_data_reach_the_density(run, tmp_path, suffix):
    file = tmp_path / f"data{suffix}"
    if suffix == ".npz":
        np.savez(file, **DATA)
    else:
        file.write_text(json.dumps({name: values.tolist() for name, values in DATA.items()}))
    np.save(tmp_path / "init.npy", DATA["mean"])
    figures = tmp_path / "figures.json"
    result = run("scaled", "--data", file, "--init", tmp_path / "init.npy", "--json", figures)
    assert result.exit_code == 0, result.output
    text = result.output
    assert "x[0]" in text
    assert "100" in text


def test_a_stored_run_finds_its_data_again(run, tmp_path):
    """And a model in a file, which has its own position and data, is found again too."""
    np.savez(tmp_path / "data.npz", **DATA)
    np.savez(tmp_path / "other.npz", mean=DATA["sd"], sd=DATA["sd"])
    file, resumed = tmp_path / "mine.py", ["resume", "--draws", "510", "--no-progress", "--target"]
    assert run("scaled", "--data", tmp_path / "data.npz", "--dim", 2, "--out", tmp_path / "a.zarr").exit_code == 0
    result = CliRunner().invoke(app, [*resumed, f"{file}:scaled", str(tmp_path / "a.zarr")])
    assert result.exit_code == 0, result.output
    more = [*resumed[:2], "520", *resumed[3:], f"{file}:scaled", "--data", str(tmp_path / "other.npz")]
    result = CliRunner().invoke(app, [*more, str(tmp_path / "a.zarr")])
    assert result.exit_code == 2
    assert "data" in result.output
    assert run("model", "--out", tmp_path / "b.zarr").exit_code == 0
    result = CliRunner().invoke(app, [*resumed, f"{file}:model", str(tmp_path / "b.zarr")])
    assert result.exit_code == 0, result.output


def test_what_are_no_data_is_told(run, tmp_path):
    (tmp_path / "data.json").write_text('["a"]')
    (tmp_path / "words.json").write_text('{"mean": ["a"]}')
    (tmp_path / "data.csv").write_text("1,2")
    for name, message in (
        ("data.json", "must hold arrays by name"),
        ("words.json", "has the type"),
        ("data.csv", "is neither a .npz nor a .json file"),
        ("nothing.npz", "cannot be read"),
    ):
        result = run("scaled", "--dim", 2, "--data", tmp_path / name)
        assert result.exit_code != 0
        assert message in " ".join(result.output.split()), result.output


def test_a_file_may_hold_a_model(run):
    result = run("model")
    assert result.exit_code == 0, result.output
    assert "tau" in result.output
    assert run("model", "--dim", 2).exit_code != 0
