"""Models of other libraries, with their names, dims and coords: Bambi, NumPyro, PyMC, Stan, and plain Python.

Also models whose rows are divided among devices.

Each function returns a model that `gadabout.sample` takes. The libraries are imported when they are first needed.
`NumPyroKernel` is for NumPyro's `MCMC`, `PyMCSampler` for PyMC's planned `pm.sample(sampler=...)`.
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
    """`NumPyroKernel` or `PyMCSampler`, imported at first use: both call `sample`, which no module here needs."""
    if name == "NumPyroKernel":
        needs("numpyro", "models", "gadabout.models.NumPyroKernel")
        import_numpyro()
        return import_module("gadabout.api.numpyro_kernel").NumPyroKernel
    if name == "PyMCSampler":
        needs("pymc", "pymc", "gadabout.models.PyMCSampler")
        return import_module("gadabout.api.pymc_sampler").PyMCSampler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
