"""Models written elsewhere, each with its own names, dims and coords: NumPyro, PyMC, Stan, and plain Python.

And models whose rows are shared out over devices.

Each function makes a model that `gadabout.sample` takes. Their libraries are imported once they are asked for.
"""

from gadabout.models.from_numpyro import numpyro
from gadabout.models.from_pymc import pymc
from gadabout.models.from_python import python
from gadabout.models.from_stan import stan
from gadabout.models.sharded_rows import sharded

__all__ = ["numpyro", "pymc", "python", "sharded", "stan"]
