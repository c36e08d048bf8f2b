"""`gadabout resume` and `gadabout status`: from another process, of built-in targets and of the user's own files."""

import json
import os
import sys
from pathlib import Path

import jax
import pytest
import xarray as xr
from typer.testing import CliRunner

from gadabout.cli.app import app

SHORT = ["--warmup", "60", "--draws", "50", "--chains", "2", "--sampler", "gad-mala", "--no-progress"]


@pytest.fixture(autouse=True)
def _own_precision():
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def refused(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr
    return True


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "run.zarr"
    done = run("sample", "correlated-2d", *SHORT, "--float32", "--out", path)
    assert done.exit_code == 0, done.output
    assert f"draws stored in {path}" in done.stdout
    return path


def test_a_built_in_target_is_found_again_with_its_float_type(store):
    longer = run("resume", store, "--draws", 90, "--no-progress", "--json", store.with_suffix(".json"))
    assert longer.exit_code == 0, longer.output
    draws = xr.open_datatree(store, engine="zarr")["posterior"]["x"]
    assert (draws.shape, draws.dtype) == ((2, 90, 2), "float32")
    assert json.loads(store.with_suffix(".json").read_text())["num_draws"] == 90


def test_status_tells_how_far_a_run_is(store):
    told = run("status", store)
    assert told.exit_code == 0, told.output
    assert f"{store}: correlated-2d, gad-mala, 2 chains, seed 0: completed" in told.stdout
    assert "50 of 50 draws of each chain are stored" in told.stdout
    assert "max R-hat" in told.stdout
    found = json.loads(run("status", store, "--json", "-").stdout)
    assert (found["draws"], found["running"], found["stage"], found["done"]) == (50, False, "sampling", 50)


def test_a_file_is_run_only_if_it_is_named_again(tmp_path, monkeypatch):
    """As it is then: the last edit is within a second, of the same size, which Python's bytecode files would miss."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file, path = tmp_path / "mine.py", tmp_path / "run.zarr"

    def write(text):
        file.write_text(text)
        os.utime(file, (1e9, 1e9))

    write("def f(x):\n    return -0.5 * (x**2).sum()\n")
    assert run("sample", f"{file}:f", "--dim", 3, *SHORT, "--out", path).exit_code == 0
    write("raise SystemExit('nobody named this file')\n")
    assert refused(run("resume", path, "--draws", 60), f"--target {file}:f")
    write("def f(x):\n    return -0.5 * (x**2).sum()\n")
    assert run("resume", path, "--draws", 60, "--target", f"{file}:f", "-q").exit_code == 0
    assert xr.open_datatree(path, engine="zarr")["posterior"].sizes["draw"] == 60
    write("def f(x):\n    return -0.6 * (x**2).sum()\n")
    again = run("resume", path, "--draws", 70, "--target", f"{file}:f", "-q")
    assert refused(again, "logdensity: it is", "pass the same log density again")


@pytest.mark.parametrize("command", ["resume", "status"])
def test_what_is_no_store_is_refused(tmp_path, command):
    assert refused(run(command, tmp_path / "none.zarr"), "there is no store", "none.zarr")
    (tmp_path / "a.zarr").mkdir()
    assert refused(run(command, tmp_path / "a.zarr"), "is no stored run of gadabout")


@pytest.mark.parametrize("quiet", [["-q"], []])
def test_a_full_disk_is_one_line_of_error(tmp_path, monkeypatch, quiet):
    """Room for 60 files of the run, by the disk's own error."""
    path, write, room = tmp_path / "run.zarr", Path.open, [60]

    def full(self, mode="r", *args, **kwargs):
        if "w" in mode and str(self).startswith(str(path)):
            room[0] -= 1
            if room[0] < 0:
                raise OSError(28, "No space left on device")
        return write(self, mode, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        ended = run("sample", "correlated-2d", *SHORT, "--out", path, *quiet)
    assert ended.exit_code == 1, ended.output
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("gadabout: error: the run stopped early: the records could not be written: ")
    assert "No space left" in ended.stderr
    assert bool(ended.stdout) is not bool(quiet)
    assert run("resume", path, "-q").exit_code == 0
    assert xr.open_datatree(path, engine="zarr")["posterior"].sizes["draw"] == 50


@pytest.mark.parametrize("command", ["resume", "status", "report"])
def test_damaged_draws_are_one_line_of_error(store, command):
    chunk = next((store / "posterior" / "x" / "c").rglob("0"))
    while chunk.is_dir():
        chunk = next(chunk.rglob("0"))
    content = chunk.read_bytes()
    chunk.write_bytes(content[:50] + bytes([content[50] ^ 16]) + content[51:])
    arguments = [command, store, *(["--no-progress"] if command == "resume" else [])]
    assert refused(run(*arguments), "posterior/x does not match its checksum", "put a copy of the store in its place")
    chunk.unlink()
    assert refused(run(*arguments), "posterior/x lacks 1 of its chunks")
    assert sorted(file.name for file in store.parent.iterdir()) == ["run.zarr"]
