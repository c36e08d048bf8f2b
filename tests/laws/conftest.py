"""The precision of laws."""

import jax
import pytest


@pytest.fixture(autouse=True)
def precision(request):
    """The precision that a law runs in: double, or what it is parametrised with."""
    precision = getattr(request, "param", "float64")
    with jax.enable_x64(precision == "float64"):
        yield precision
