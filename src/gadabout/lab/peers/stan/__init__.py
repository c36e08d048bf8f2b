"""Stan's own NUTS: programs of log densities in the same coordinates, and functions that compile and run them.

Each program has the name of the log density that it computes, up to a constant. Data have the names that the model
gives them; `rows` and `n` are their sizes. The wheel of `httpstan`, on which PyStan is built, contains Stan's headers
and translator. A C++ compiler makes one executable for each program, in a minute, which stays in the user's cache.
`run.cpp` replaces PyStan's own services: the draws of all chains stay in memory until the clock has stopped.
"""

import hashlib
import inspect
import json
import os
import subprocess
from collections.abc import Sequence
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from jaxtyping import Float

from gadabout.model import AbstractModel
from gadabout.targets.data import optional_import

HERE = files(__package__)
FLAGS = [
    "-O3",
    "-std=c++17",
    "-w",
    "-DNDEBUG",
    "-DBOOST_DISABLE_ASSERTS",
    "-DSTAN_THREADS",
    "-D_REENTRANT",
    "-D_GLIBCXX_USE_CXX11_ABI=0",
]
"""compiler flags of httpstan; the last one matches the build of its libraries"""


def program(model: AbstractModel) -> str:
    """The Stan program of a model's log density; raises ValueError if there is none."""
    name = model.target.function.__name__.lstrip("_")
    known = sorted(each.name.removesuffix(".stan") for each in HERE.iterdir() if each.name.endswith(".stan"))
    if name not in known:
        raise ValueError(
            f"--peer stan: there is no Stan program of {name!r}, only of {', '.join(known)}: leave out the target, or "
            "the peer"
        )
    return (HERE / f"{name}.stan").read_text()


def data_of(model: AbstractModel) -> dict[str, Any]:
    """The data of a model in the form of its program; the longest array gives `rows` and `n`."""
    target = model.target
    data = target.data
    if not isinstance(data, dict):
        data = {list(inspect.signature(target.function).parameters)[1]: data}
    arrays = {name: np.asarray(values, float) for name, values in data.items()}
    rows, n = max(values.shape + (1,) * (2 - values.ndim) for values in arrays.values())
    return {"rows": rows, "n": n} | {name: values.tolist() for name, values in arrays.items()}


def compiled(code: str) -> Path:
    """The executable of a program, compiled if it does not exist yet. Linux only, by the names of its libraries.

    Raises RuntimeError with the message of the translator or the compiler if one of them fails.
    """
    spec = find_spec("httpstan")
    assert spec is not None
    assert spec.submodule_search_locations
    stan = Path(spec.submodule_search_locations[0])
    parts = [code, (HERE / "run.cpp").read_text(), str(stan), *FLAGS]
    known_by = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    path = Path(optional_import("pooch").os_cache("gadabout")) / "stan" / known_by
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder, as_file(HERE / "run.cpp") as run:
            model, made = Path(folder) / "model.stan", Path(folder) / "made"
            model.write_text(code)
            model.with_suffix(".cpp").write_text(_said([stan / "stanc", "--name", "model", "--print-cpp", model]))
            libraries = ["-L", stan / "lib", "-l:libtbb.so.2", f"-Wl,-rpath,{stan / 'lib'}"]
            sources = ["-I", stan / "include", model.with_suffix(".cpp"), run]
            _said([os.environ.get("CXX", "g++"), *FLAGS, *sources, *libraries, "-o", made])
            made.replace(path)
    return path


def run(
    executable: Path, data: dict[str, Any], starts: Sequence[dict[str, Any]], draws: int, seed: int
) -> tuple[Float[np.ndarray, "chains draws n"], float]:
    """Draws of one chain from each of `starts`, with parameters in their order there, and the seconds."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("data", "starts", "out")]
        paths[0].write_text(json.dumps(data))
        for chain, start in enumerate(starts):
            Path(f"{paths[1]}.{chain}").write_text(json.dumps(start))
        numbers = [len(starts), draws, seed]
        threads = {"STAN_NUM_THREADS": str(os.cpu_count())}
        told = _said([executable, paths[0], paths[1], *numbers, paths[2]], env=os.environ | threads)
        seconds, *columns = told.split()
        drawn = np.fromfile(paths[2]).reshape(len(starts), draws, len(columns))
    own = [i for name in starts[0] for i, column in enumerate(columns) if column.partition(".")[0] == name]
    return drawn[..., own], float(seconds)


def _said(command: Sequence[Any], **settings: Any) -> str:
    """The output of a command; raises RuntimeError with its error message if it fails, or if it does not exist."""
    try:
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False, **settings)
    except FileNotFoundError as error:
        raise RuntimeError(
            f"--peer stan needs a C++ compiler, and {command[0]} is not there: install g++, or name one in CXX"
        ) from error
    if done.returncode:
        raise RuntimeError(f"{Path(str(command[0])).name} failed with {done.returncode}: {done.stderr[-2_000:]}")
    return done.stdout
