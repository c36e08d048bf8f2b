"""Runs in processes of their own, which store their draws and may be killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

LENGTHS = {"gad-mala": (20_000, 150_000), "default:move=nuts": (2_000, 2_000)}
"""iterations of warm-up and draws, by sampler"""
SEED = 20191208


@contextmanager
def programs() -> Iterator[dict[str, str]]:
    """Yields the environment of processes that share their compiled programs."""
    with tempfile.TemporaryDirectory(prefix="gadabout-programs-", ignore_cleanup_errors=True) as folder:
        cache = {"JAX_COMPILATION_CACHE_DIR": folder, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        yield {**os.environ, **cache}


def command(*arguments: object) -> list[str]:
    """The arguments of a command of the library."""
    return [sys.executable, "-m", "gadabout.cli", *map(str, arguments)]


def sampling(sampler: str, path: Path) -> list[str]:
    """The command of a run that stores its draws at `path`."""
    warmup, draws = LENGTHS[sampler]
    lengths = "--chains", 2, "--warmup", warmup, "--draws", draws
    return command("sample", "correlated-2d", "--sampler", sampler, *lengths, "--seed", SEED, "--out", path, "--quiet")


def draws(path: Path) -> np.ndarray:
    """The draws in a store, shape (chain, draw, n); empty before the first is stored.

    A run that was stopped before its first iteration has no store.
    """
    import xarray as xr

    if not path.exists():
        return np.empty((2, 0, 2))
    tree = xr.open_datatree(path, engine="zarr", cache=False)
    return np.asarray(tree["posterior"]["x"]) if "posterior" in tree.children else np.empty((2, 0, 2))


def stopped(
    sampler: str, path: Path, environment: dict[str, str], after: float, signum: signal.Signals
) -> tuple[bool, int]:
    """Starts the run and sends it a signal `after` seconds after its store can be resumed.

    Returns whether the signal came before the end of the run, and the exit status.
    """
    process = begun(sampler, path, environment)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signum)
    return process.wait() != 0, process.returncode


def begun(sampler: str, path: Path, environment: dict[str, str]) -> subprocess.Popen:
    """Starts the run and returns its process once its store can be resumed, or once it has ended."""
    process = subprocess.Popen(
        sampling(sampler, path), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (path / ".gadabout" / "start.npz").exists() and process.poll() is None:
        time.sleep(0.002)
    return process


def lasting(sampler: str, path: Path, environment: dict[str, str]) -> float:
    """The seconds from the moment when the run's store can be resumed to its end; raises RuntimeError if it fails."""
    process = begun(sampler, path, environment)
    began = time.perf_counter()
    if process.wait():
        raise RuntimeError(f"`{' '.join(sampling(sampler, path))}` failed")
    return time.perf_counter() - began
