"""The suite runs in float64; a test that wants float32 says so. Data sets are read through the project's loader."""

import gc
import os
import tempfile
from pathlib import Path

import jax
import pytest

from gadabout.programs import forget

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)  # for laws of chains laid over devices, and as docs/guides/many_devices.md

CACHE = "GADABOUT_TEST_PROGRAMS"
"""the variable that names the folder of compiled programs"""


def pytest_configure(config):
    """Workers of one run share what they compile: most of the suite's time is compilation.

    The folder is new for every run, unless the variable names one to keep. Each has one thread of linear algebra: those
    of several workers wait for each other, a hundred times as long as small matrices take.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if CACHE not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="gadabout-programs-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ[CACHE] = folder.name
    jax.config.update("jax_compilation_cache_dir", os.environ[CACHE])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def by_name(names, quick):
    """A test's parameter `name`: those in `quick` run in the checks, all others have the marker."""
    marks = lambda name: () if name in quick else pytest.mark.long
    return pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in names])


COMPILATION = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compilations():
    """A list that has an entry for each program that was compiled, or read from a cache of files."""
    events = []

    def listen(name, seconds, **more):
        if name == COMPILATION:
            events.append(more)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_home() -> Path:
    """The folder of the paper's data sets; tests that need it skip where it is absent."""
    folder = Path(os.environ.get("GADABOUT_DATA", SHARED))
    if not folder.is_dir():
        pytest.skip(f"no data sets: set GADABOUT_DATA to their folder, or put them at {SHARED}")
    return folder


QUICK = ("unit", "laws", "lab")
OPTIMISED = ("test_invariance", "test_bench", "test_devices")


@pytest.fixture(autouse=True)
def quick_to_compile(request):
    """Programs of unit tests and laws run for milliseconds: without most optimisations they compile in half the time.

    So do the laboratory's. Those that run long, or are timed, and all statistical and end-to-end tests run what users
    run.
    """
    quick = request.path.parent.name in QUICK and request.path.stem not in OPTIMISED
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


MAPPINGS = Path("/proc/self/maps")
MOST_MAPPINGS = 45_000
OFTEN = 100
"""programs, after which mappings are counted again: reading 20,000 takes as long as a quick test"""

_new_programs = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **more: name == COMPILATION and _new_programs.append(name)
)


@pytest.fixture(autouse=True)
def _compiled_programs_fit():
    """Forgets compiled programs before the process has too many memory mappings.

    Every `sample()` of a new shape leaves some 500, Linux allows 65,530, and beyond that compilation crashes.
    """
    yield
    if len(_new_programs) < OFTEN or not MAPPINGS.exists():
        return
    _new_programs.clear()
    if MAPPINGS.read_bytes().count(b"\n") > MOST_MAPPINGS:
        forget()
        gc.collect()
