"""The suite runs in float64; a test that wants float32 says so. Data sets are read through the project's loader."""

import gc
import os
from pathlib import Path

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)  # for the laws of chains laid over devices; all else runs on the first

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of the paper's data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("GADABOUT_DATA", SHARED))
    if not folder.is_dir():
        pytest.skip(f"no data sets: set GADABOUT_DATA to their folder, or put them at {SHARED}")
    return folder


MAPPINGS = Path("/proc/self/maps")
MOST_MAPPINGS = 30_000


@pytest.fixture(autouse=True)
def _compiled_programs_fit():
    """Forgets compiled programs before the process has too many memory mappings.

    Every `sample()` of a new shape leaves some 500, Linux allows 65,530, and beyond that compilation crashes.
    """
    yield
    if MAPPINGS.exists() and MAPPINGS.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()
