"""Laws whose programs run for milliseconds and are compiled for every sampler."""

import jax
import pytest


@pytest.fixture(autouse=True)
def quick_to_compile(request):
    """Programs of laws about runs, devices and compositions are compiled without most optimisations, in half the time.

    The other laws, and all tests elsewhere, run what users run.
    """
    quick = request.module.__name__.rpartition(".")[2] in ("test_run_laws", "test_device_laws", "test_composition_laws")
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
