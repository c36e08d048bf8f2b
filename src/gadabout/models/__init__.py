"""Models written elsewhere, each with its own names, dims and coords: Bambi, NumPyro, PyMC, Stan, and plain Python.

And models whose rows are shared out over devices.

Each function makes a model that `gadabout.sample` takes. Their libraries are imported once they are asked for.
`NumPyroKernel` is for NumPyro's `MCMC`, `PyMCSampler` for PyMC's coming `pm.sample(sampler=...)`.
"""

from importlib import import_module
from typing import Any

from gadabout.models.from_bambi import bambi
from gadabout.models.from_numpyro import numpyro
from gadabout.models.from_pymc import pymc
from gadabout.models.from_python import python
from gadabout.models.from_stan import stan
from gadabout.models.missing import needs
from gadabout.models.sharded_rows import sharded
from gadabout.transforms import import_numpyro

__all__ = ["NumPyroKernel", "PyMCSampler", "bambi", "numpyro", "pymc", "python", "sharded", "stan"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """`NumPyroKernel` and `PyMCSampler`, classes that call `sample`, at their first use: nothing below needs them."""
    if name == "NumPyroKernel":
        needs("numpyro", "models", "gadabout.models.NumPyroKernel")
        import_numpyro()
        return import_module("gadabout.api.numpyro_kernel").NumPyroKernel
    if name == "PyMCSampler":
        needs("pymc", "pymc", "gadabout.models.PyMCSampler")
        return import_module("gadabout.api.pymc_sampler").PyMCSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
