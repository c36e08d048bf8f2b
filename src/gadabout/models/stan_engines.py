"""Engines that compute a Stan program's density: stanli, BridgeStan, or the services that come with PyStan."""

# pyright: reportMissingImports=false

import asyncio
import ctypes
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gadabout.models.missing import is_there

INSTALL = "pip install 'gadabout[stan]', which brings stanli and needs no compiler"
REMOVED = "_PyThreadState_UncheckedGet"
"""a function of CPython that the services of httpstan call; Python 3.13 and later do not have it"""
PYTHON = ".".join(map(str, sys.version_info[:2]))


class AbstractStan(ABC):
    """A compiled Stan program with its data; all positions are NumPy vectors in float64."""

    size: int
    """number of unconstrained coordinates"""
    names: list[str]
    """names of all values of the program, such as `theta.1`: parameters, transformed ones, generated quantities"""
    num_parameters: int
    """how many of `names` are those of parameters"""
    in_threads = False
    """whether densities may be evaluated in several threads at once"""

    @abstractmethod
    def density(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """log π with the Jacobian, and its gradient; raises an error if the program rejects x."""

    @abstractmethod
    def constrained(self, x: np.ndarray) -> np.ndarray:
        """All values, in the order of `names`.

        Generated quantities are drawn with a seed computed from x; PyStan's services draw those of any x with one seed.
        """

    @abstractmethod
    def unconstrained(self, values: Mapping[str, Any]) -> np.ndarray:
        """The unconstrained values, from the values of parameters by name."""


class AbstractInProcess(AbstractStan):
    """An engine with BridgeStan's functions in C (Roualdes, Ward, Carpenter, Seyboldt & Axen 2023)."""

    def __init__(self, code: str, data: Mapping[str, Any]):
        self._model = self._made(code, data)
        self.in_threads = "stan_threads=true" in self._model.model_info().lower()
        self.size = self._model.param_unc_num()
        self.names = self._model.param_names(include_tp=True, include_gq=True)
        self.num_parameters = len(self._model.param_names())

    @abstractmethod
    def _made(self, code: str, data: Mapping[str, Any]) -> Any:
        """A `bridgestan.StanModel`."""

    def density(self, x):
        return self._model.log_density_gradient(np.ascontiguousarray(x))

    def constrained(self, x):
        x = np.ascontiguousarray(x)
        rng = self._model.new_rng(zlib.crc32(x.tobytes()))
        return self._model.param_constrain(x, include_tp=True, include_gq=True, rng=rng)

    def unconstrained(self, values):
        return self._model.param_unconstrain_json(json.dumps(values))


class StanLI(AbstractInProcess):
    """The interpreter stanli: it needs no compiler, and gives a first gradient in less than a second."""

    @staticmethod
    def missing() -> str:
        """A message on requirements that are not installed; "" if there are none."""
        absent = [name for name in ("stanli", "bridgestan") if not is_there(name)]
        return f"stanli: {' and '.join(absent)} not installed" if absent else ""

    def _made(self, code, data):
        import stanli

        return stanli.bridgestan_model(mir=stan_to_mir(code), data=dict(data))


COMPILE = """import sys, stanli
try:
    sys.stdout.write(stanli.stan_to_mir(sys.stdin.read()))
except RuntimeError as error:
    sys.exit(str(error))"""


def stan_to_mir(code: str) -> str:
    """A program in stanli's form, by a process of its own. Raises RuntimeError if it is refused.

    The compiler is written in OCaml, whose runtime aborts in a process that may use AMX: its signal stacks are too
    small then. JAX asks for AMX with its first product of matrices.
    """
    command = [sys.executable, "-X", "utf8", "-c", COMPILE]
    done = subprocess.run(command, input=code.encode(), capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr.decode().strip())
    return done.stdout.decode()


class BridgeStan(AbstractInProcess):
    """A library that BridgeStan compiles from Stan's C++ code, in about a minute."""

    @staticmethod
    def missing() -> str:
        """A message on missing requirements, or ""; sources are not downloaded here, which is the user's decision."""
        if not is_there("bridgestan"):
            return "BridgeStan: not installed"
        from bridgestan.compile import get_bridgestan_path

        with redirect_stdout(io.StringIO()):  # it prints a message if it finds nothing
            path = get_bridgestan_path(download=False)
        if not path or not (Path(path) / "Makefile").exists():
            return (
                f"BridgeStan: no C++ sources in {path or '~/.bridgestan'} (bridgestan.compile.get_bridgestan_path() "
                "downloads them, once)"
            )
        if shutil.which(os.environ.get("MAKE", "make")) is None:
            return "BridgeStan: no make"
        return "" if _compiler() else "BridgeStan: no C++ compiler"

    def _made(self, code, data):
        import bridgestan

        file = Path(tempfile.mkdtemp(prefix="gadabout-stan-")) / f"program_{zlib.crc32(code.encode()):08x}.stan"
        file.write_text(code)
        return bridgestan.StanModel(str(file), json.dumps(data), make_args=["STAN_THREADS=True"], warn=False)


class PyStan(AbstractStan):
    """The module that PyStan's httpstan compiles, in a separate process; it reads the data in every evaluation."""

    @staticmethod
    def missing() -> str:
        """A message on missing requirements, before a minute of compilation; "" if there are none."""
        if not is_there("httpstan"):
            return "PyStan: not installed"
        if not _compiler():
            return "PyStan: no C++ compiler"
        spec = find_spec("httpstan")
        assert spec is not None
        assert spec.origin is not None
        services = Path(spec.origin).with_name("stan_services.o")
        old = services.exists() and REMOVED.encode() in services.read_bytes()
        if old and not hasattr(ctypes.pythonapi, REMOVED):
            return f"PyStan: its programs cannot be loaded by Python {PYTHON}, only by 3.12 or older"
        return ""

    def __init__(self, code: str, data: Mapping[str, Any]):
        from httpstan import models

        name = models.calculate_model_name(code)
        try:
            try:
                models.import_services_extension_module(name)
            except KeyError:
                asyncio.run(models.build_services_extension_module(code))
                models.import_services_extension_module(name)
        except ImportError as error:
            raise ImportError(f"PyStan cannot load what it has compiled ({error}). Remedy: {INSTALL}") from error
        if "_rng(" in code:
            warnings.warn(
                "program: PyStan draws the generated quantities of every draw with the same random numbers, so that "
                "they do not scatter as predictions do; use another engine, library='stanli' or 'bridgestan'",
                stacklevel=2,
            )
        worker = str(Path(__file__).with_name("stan_worker.py"))
        self._process = subprocess.Popen([sys.executable, worker, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._lock = threading.Lock()
        weakref.finalize(self, self._process.kill)
        self._ask("data", dict(data))
        self.names = self._ask("constrained_param_names")
        self.size, self.num_parameters = self._sizes()

    def _ask(self, method: str, *arguments: Any) -> Any:
        """The return value of the compiled module's method; raises RuntimeError if the method fails."""
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
        """Unconstrained size, the shortest that works as the services do not report it, and number of parameters."""
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


def _compiler() -> bool:
    """Whether there is a C++ compiler."""
    return any(map(shutil.which, filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++"))))


ENGINES: dict[str, type[StanLI] | type[BridgeStan] | type[PyStan]] = {
    "stanli": StanLI,
    "bridgestan": BridgeStan,
    "pystan": PyStan,
}
"""engines by name, in order of preference: those that are quicker to install and to evaluate come first"""


def engine(code: str, data: Mapping[str, Any], library: str | None) -> AbstractStan:
    """A program with its data, by the engine that is named, or else by the first one that is ready.

    If stanli cannot interpret a program, which may be valid Stan all the same, the next engine is used.

    Raises:
        ImportError: if no engine is ready; the message says what each lacks.
        RuntimeError: if the program or its data are refused.
    """
    lacks = {name: ENGINES[name].missing() for name in ENGINES if library in (None, name)}
    usable = [ENGINES[name] for name, lack in lacks.items() if not lack]
    if not usable:
        raise ImportError(f"gadabout.models.stan: no engine is ready. {'; '.join(lacks.values())}. Remedy: {INSTALL}")
    try:
        return usable[0](code, data)
    except RuntimeError as error:
        others = usable[1:] if usable[0] is StanLI and str(error).startswith("stanli compile:") else []
        if not others:
            raise
        return others[0](code, data)
