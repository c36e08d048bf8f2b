"""What computes a Stan program's density: BridgeStan, or the services that PyStan brings with it."""

# pyright: reportMissingImports=false

import asyncio
import json
import pickle
import subprocess
import sys
import tempfile
import threading
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gadabout.models.missing import is_there

INSTALL = (
    "gadabout.models.stan needs BridgeStan, or PyStan, which is slower, and a C++ compiler: "
    "pip install 'gadabout[stan]', or pip install pystan"
)


class AbstractStan(ABC):
    """A compiled Stan program with its data; all positions are NumPy vectors in float64."""

    size: int
    """unconstrained numbers"""
    names: list[str]
    """of all numbers that the program knows, such as `theta.1`: parameters, transformed ones, generated quantities"""
    num_parameters: int
    """how many of them are parameters'"""
    in_threads = False
    """whether densities may be evaluated in several threads at once"""

    @abstractmethod
    def density(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """log π with the Jacobian, and its gradient; raises where the program rejects x."""

    @abstractmethod
    def constrained(self, x: np.ndarray) -> np.ndarray:
        """All numbers by `names`; generated quantities are drawn by a seed made of x."""

    @abstractmethod
    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """The unconstrained numbers of parameters by name."""


def engine(code: str, data: Mapping[str, Any], library: str | None) -> AbstractStan:
    """The faster engine that is there, or the one that is named; raises ImportError where there is none."""
    known = {"bridgestan": BridgeStan, "pystan": PyStan}
    there = [name for name, module in (("bridgestan", "bridgestan"), ("pystan", "httpstan")) if is_there(module)]
    wanted = [name for name in there if library in (None, name)]
    if not wanted:
        raise ImportError(INSTALL if library is None else f"library = {library!r} is not installed; {INSTALL}")
    try:
        return known[wanted[0]](code, data)
    except _NoSource as error:
        if len(wanted) == 1:
            raise ImportError(f"BridgeStan has no C++ sources to compile with ({error}); {INSTALL}") from error
        return known[wanted[1]](code, data)


class _NoSource(Exception):
    """BridgeStan is there without what it compiles programs with."""


class BridgeStan(AbstractStan):
    """In the process, by BridgeStan (Roualdes, Ward, Carpenter, Seyboldt & Axen 2023)."""

    def __init__(self, code: str, data: Mapping[str, Any]):
        import bridgestan
        from bridgestan.compile import get_bridgestan_path

        try:
            get_bridgestan_path()
        except Exception as error:  # it downloads its sources where they are not there
            raise _NoSource(str(error) or type(error).__name__) from error
        file = Path(tempfile.mkdtemp(prefix="gadabout-stan-")) / f"program_{zlib.crc32(code.encode()):08x}.stan"
        file.write_text(code)
        threads = ["STAN_THREADS=True"]
        self._model: Any = bridgestan.StanModel(str(file), json.dumps(data), make_args=threads, warn=False)
        self.in_threads = "stan_threads=true" in self._model.model_info().lower()
        self.size = self._model.param_unc_num()
        self.names = self._model.param_names(include_tp=True, include_gq=True)
        self.num_parameters = len(self._model.param_names())

    def density(self, x):
        return self._model.log_density_gradient(x)

    def constrained(self, x):
        rng = self._model.new_rng(zlib.crc32(x.tobytes()))
        return self._model.param_constrain(x, include_tp=True, include_gq=True, rng=rng)

    def unconstrained(self, values):
        return self._model.param_unconstrain_json(json.dumps(values))


class PyStan(AbstractStan):
    """By the module that PyStan's httpstan compiles, in a process of its own; it reads the data in every evaluation."""

    def __init__(self, code: str, data: Mapping[str, Any]):
        from httpstan import models

        name = models.calculate_model_name(code)
        try:
            try:
                models.import_services_extension_module(name)
            except KeyError:
                asyncio.run(models.build_services_extension_module(code))
                models.import_services_extension_module(name)
        except ImportError as error:  # of wheels that were made for another version of Python
            raise ImportError(f"PyStan cannot load what it has compiled ({error}); {INSTALL}") from error
        worker = str(Path(__file__).with_name("stan_worker.py"))
        self._process = subprocess.Popen([sys.executable, worker, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()
        weakref.finalize(self, self._process.kill)
        self._ask("data", dict(data))
        self.names = self._ask("constrained_param_names")
        self.size, self.num_parameters = self._sizes()

    def _ask(self, method: str, *arguments: Any) -> Any:
        """What the compiled module's method returns; raises RuntimeError where it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            pickle.dump((method, arguments), self._process.stdin)
            self._process.stdin.flush()
            worked, value = pickle.load(self._process.stdout)
        if not worked:
            raise RuntimeError(value)
        return value

    def _sizes(self) -> tuple[int, int]:
        """Unconstrained numbers, which the services do not tell: the fewest that a position can be written from."""
        last: Exception | None = None
        for size in range(len(self.names) + 1):
            try:
                return size, len(self._ask("write_array", [0.1] * size, False, False))
            except RuntimeError as error:
                last = error
        raise ValueError(f"program: it cannot be evaluated at 0.1 in all coordinates: {last}")

    def density(self, x):
        value, gradient = self._ask("density", x.tolist())
        return value, np.asarray(gradient)

    def constrained(self, x):
        return np.asarray(self._ask("write_array", x.tolist(), True, True))

    def unconstrained(self, values):
        return np.asarray(self._ask("transform_inits", dict(values)))
