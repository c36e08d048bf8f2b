"""TARGET on the command line: a built-in target by its name, or `file.py:function`."""

import importlib.util
import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from gadabout.api.mistaken import check_data_is_taken
from gadabout.cli.errors import CliError, did_you_mean
from gadabout.model import AbstractModel, Model

Positions = Float[np.ndarray, "chains n"]


def resolve(
    target: str, dim: int | None, init: Path | None, num_chains: int, data_home: Path | None, data: Path | None = None
) -> tuple[AbstractModel, Positions | None]:
    """The model given by TARGET, --dim, --init, --data and --data-home, and one position for each chain, or None.

    Raises CliError if they do not fit together or cannot be read.
    """
    if ":" in target or target.endswith(".py"):
        return _from_file(target, dim, init, num_chains, data)
    if data is not None:
        raise CliError(f"--data is for targets of the form file.py:function; leave it out for {target!r}")
    if dim is not None or init is not None:
        option = "--dim" if dim is not None else "--init"
        raise CliError(f"{option} is for targets of the form file.py:function; leave it out for {target!r}")
    return _built_in(target, data_home), None


def _built_in(name: str, data_home: Path | None) -> AbstractModel:
    from gadabout.targets import DataError, available, data_folder, model
    from gadabout.targets.sets import NAMES

    known = [*available(), *NAMES]
    if name not in known:
        remedy = did_you_mean(name, known)
        raise CliError(f"TARGET: no target is called {name!r}; {remedy} (a log density of yours is file.py:function)")
    try:
        found = model(name, data_home)
        found.origin = {"target": name, "data_home": str(data_folder(data_home).resolve())}
        return found
    except (DataError, ImportError, OSError, ValueError) as error:
        raise CliError(f"TARGET {name}: {error}") from error


def _from_file(
    target: str, dim: int | None, init: Path | None, num_chains: int, data: Path | None
) -> tuple[AbstractModel, Positions | None]:
    filename, _, function = target.rpartition(":")
    if not filename or not function:
        raise CliError(f"TARGET: {target!r} names no function; write file.py:function")
    module = _module(Path(filename))
    log_density = vars(module).get(function)
    if isinstance(log_density, AbstractModel):
        if (dim, init, data) != (None, None, None):
            raise CliError(f"TARGET {target!r} is a model, which has its own position and data; leave out the options")
        log_density.name, log_density.origin = target, {"target": target}
        return log_density, None
    if (dim is None) == (init is None):
        got = "neither" if dim is None else "both"
        raise CliError(f"TARGET {target!r} needs one of --dim N and --init FILE.npy, got {got}; give exactly one")
    if log_density is None:
        functions = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise CliError(f"TARGET: {filename!r} has no function {function!r}; {did_you_mean(function, functions)}")
    if isinstance(log_density, type):
        raise CliError(f"TARGET: {function!r} in {filename!r} is a class; name a function, or a model made of it")
    if not callable(log_density):
        raise CliError(f"TARGET: {function!r} in {filename!r} is no function but of type {type(log_density).__name__}")
    positions = np.zeros(dim or 0) if init is None else _positions(init, num_chains)
    each = positions if positions.ndim == 2 else None
    start = partial(_near, positions if each is None else positions[0])
    model = Model(log_density, data=None if data is None else _data(data), start=start)
    kept = {} if data is None else {"data": str(data.resolve())}
    _check_data_option(target, log_density, data)
    model.name, model.origin = target, {"target": target, "dim": positions.shape[-1], **kept}
    return model, each


def _check_data_option(target: str, log_density: Callable, data: Path | None) -> None:
    """Raises CliError if a function takes data and --data is missing, or the reverse."""
    try:
        check_data_is_taken(log_density, data)
    except TypeError as error:
        remedy = "give them by --data FILE" if data is None else "leave --data out"
        raise CliError(f"TARGET {target!r}: {str(error).removeprefix('data: ').partition(';')[0]}; {remedy}") from error


def _near(centre: np.ndarray, key: Key[Array, ""]) -> Float[Array, " n"]:
    """A start drawn from N(centre, I)."""
    return jnp.asarray(centre, dtype=float) + jax.random.normal(key, centre.shape)


def _data(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name from a .npz or .json file; raises CliError for another file or values that are not numbers."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
        elif path.suffix == ".json":
            found = json.loads(path.read_text(encoding="utf-8"))
        else:
            raise CliError(f"--data: {str(path)!r} is neither a .npz nor a .json file; write it by numpy.savez or json")
        if not isinstance(found, dict):
            raise CliError(f"--data: {str(path)!r} must hold arrays by name, found a {type(found).__name__}")
        arrays = {name: np.asarray(values) for name, values in found.items()}
    except (OSError, ValueError, EOFError) as error:
        raise CliError(f"--data: {str(path)!r} cannot be read: {error}") from error
    for name, values in arrays.items():
        if isinstance(found[name], dict):
            raise CliError(
                f"--data: {name!r} in {str(path)!r} is an object within the object; write one object of arrays by name"
            )
        if values.dtype.kind not in "biuf":
            raise CliError(f"--data: {name!r} in {str(path)!r} has the type {values.dtype}; write real numbers")
    return arrays


def _module(path: Path) -> ModuleType:
    """The user's file as a module, which may import from its folder; raises CliError if it cannot be loaded.

    It is compiled anew: Python's bytecode files miss an edit within a second that leaves the file's size as it is.
    """
    if not path.is_file():
        raise CliError(f"TARGET: there is no file {str(path)!r}; check the path")
    spec = importlib.util.spec_from_file_location(f"gadabout_target_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CliError(f"TARGET: {str(path)!r} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        exec(compile(path.read_bytes(), spec.origin or str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        raise CliError(f"TARGET: {str(path)!r} fails{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: BaseException, path: Path) -> str:
    """The line of the user's file where an error arose, as " in line 3"; empty if it arose elsewhere."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    lines += [error.lineno] if isinstance(error, SyntaxError) else []
    return f" in line {lines[-1]}" if lines else ""


def _positions(path: Path, num_chains: int) -> np.ndarray:
    """One position (n,) or one per chain (num_chains, n) from a .npy file; raises CliError for anything else."""
    try:
        positions = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise CliError(
            f"--init: {str(path)!r} cannot be read as a .npy file: {error}; write it by numpy.save"
        ) from error
    if not isinstance(positions, np.ndarray) or positions.dtype.kind not in "fiu":
        found = getattr(positions, "dtype", "an archive of arrays")
        raise CliError(f"--init: {str(path)!r} must hold one array of real numbers, found {found}")
    if positions.ndim not in (1, 2) or positions.size == 0:
        raise CliError(
            f"--init: {str(path)!r} has the shape {positions.shape}; pass (n,), or (chains, n) with one row each"
        )
    if positions.ndim == 2 and len(positions) != num_chains:
        raise CliError(
            f"--init: {str(path)!r} has {len(positions)} rows for {num_chains} chains; pass --chains {len(positions)}"
        )
    if not np.isfinite(positions).all():
        raise CliError(f"--init: {str(path)!r} holds values that are NaN or infinite; replace them")
    return positions.astype(float)
