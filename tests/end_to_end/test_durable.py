"""Processes that are really killed, stopped and watched: their runs go on elsewhere to the same draws."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from tests.conftest import CACHE

GERMAN = ["german", "--sampler", "gad-mala", "--chains", "2", "--warmup", "2000", "--draws", "20000", "--seed", "5"]
OTHER_CHUNKS = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
import gadabout as gad
from gadabout import targets
from gadabout.driver.chunk import ChunkLength
ChunkLength.SECONDS = 0.013
gad.resume(sys.argv[1], targets.load("german"), progress=False)
"""


@pytest.fixture(scope="module")
def environment(data_home):
    return {**os.environ, "GADABOUT_DATA": str(data_home), "JAX_COMPILATION_CACHE_DIR": os.environ[CACHE]}


def command(*arguments):
    return [sys.executable, "-m", "gadabout.cli", *map(str, arguments), "--no-progress"]


def begun(path: Path, environment, group: str, least: int, *more: str) -> subprocess.Popen:
    """A run that has stored some draws of a group by now."""
    process = subprocess.Popen(
        command("sample", *GERMAN, *more, "--out", path),
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(1_200):
        if (path / "zarr.json").exists():
            tree = xr.open_datatree(path, engine="zarr")
            if group in tree.children and tree[group].sizes["draw"] >= least:
                return process
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("the run stores nothing")


def draws(path):
    return xr.open_datatree(path, engine="zarr")["posterior"]["x"].values


@pytest.fixture(scope="module")
def expected(tmp_path_factory, environment):
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    subprocess.run(command("sample", *GERMAN, "--out", path), env=environment, check=True, capture_output=True)
    return draws(path)


WARMUP = pytest.param("warmup_posterior", 100, marks=pytest.mark.long)  # and at each file in `test_store`


@pytest.mark.parametrize(("group", "least"), [WARMUP, ("posterior", 1_000)])
def test_a_killed_run_goes_on_in_another_process_in_other_chunks(tmp_path, environment, expected, group, least):
    path = tmp_path / "run.zarr"
    process = begun(path, environment, group, least)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    told = subprocess.run(command("status", path)[:-1], env=environment, capture_output=True, text=True, check=True)
    assert "its process is gone" in told.stdout
    assert f"gadabout resume {path}" in told.stdout
    if group == "posterior":
        seen = draws(path)
        assert 0 < seen.shape[1] < 20_000
        np.testing.assert_array_equal(seen, expected[:, : seen.shape[1]])
    again = [sys.executable, "-c", OTHER_CHUNKS, str(path)] if group == "posterior" else command("resume", path)
    subprocess.run(again, env=environment, check=True, capture_output=True)
    np.testing.assert_array_equal(draws(path), expected)


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.long)]
)
def test_a_stopped_run_keeps_its_draws_and_says_how_to_go_on(tmp_path, environment, expected, signum, status):
    path = tmp_path / "run.zarr"
    process = begun(path, environment, "posterior", 500, "--draws", "10000000")
    running = subprocess.run(command("status", path)[:-1], env=environment, capture_output=True, text=True, check=True)
    os.kill(process.pid, signum)
    out, error = process.communicate(timeout=120)
    assert ": running" in running.stdout
    assert "so far: max R-hat" in running.stdout
    assert process.returncode == status, (out, error)
    if signum == signal.SIGINT:
        assert f"gadabout resume {path}" in out
    tree = xr.open_datatree(path, engine="zarr")
    assert tree.attrs["ending"] == "interrupted"
    kept = tree["posterior"].sizes["draw"]
    assert kept >= 500
    np.testing.assert_array_equal(draws(path)[:, :20_000], expected[:, :kept])
    finished = tree["diagnostics/rhat/x"]
    assert finished.shape == (25,)
