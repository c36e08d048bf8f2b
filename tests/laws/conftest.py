"""Precision and compilation of laws, whose programs run for milliseconds and are compiled for every sampler."""

import jax
import pytest

OPTIMISED = ("test_invariance",)


@pytest.fixture(autouse=True)
def precision(request):
    """The precision that a law runs in: double, or what it is parametrised with."""
    precision = getattr(request, "param", "float64")
    with jax.enable_x64(precision == "float64"):
        yield precision


@pytest.fixture(autouse=True)
def quick_to_compile(request):
    """Programs are compiled without most optimisations, which halves the time of a law.

    Those of invariance, which runs long, and of all tests elsewhere are what users run.
    """
    optimised = request.module.__name__.rpartition(".")[2] in OPTIMISED
    jax.config.update("jax_disable_most_optimizations", not optimised)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
