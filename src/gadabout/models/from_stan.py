"""Stan programs with their data, evaluated on the host."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from gadabout.checks import check_one_of, shown
from gadabout.density import InThreads
from gadabout.models.base import AbstractForeign
from gadabout.models.callback import HostDensity, host_values
from gadabout.models.stan_engines import ENGINES, AbstractStan, engine
from gadabout.target import Target

LIKELIHOOD = "log_lik"
"""the name that Stan users give to the generated quantity that is stored in the group `log_likelihood`"""


def stan(
    program: str | os.PathLike,
    data: Mapping[str, Any] | None = None,
    *,
    observed: Sequence[str] = (),
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
    library: str | None = None,
) -> "StanModel":
    """A Stan program with its data, as a model that `sample` takes.

    The first of these engines that is ready is used. stanli interprets the program, in threads, without a compiler.
    BridgeStan compiles it in about a minute, and evaluates chains in threads. PyStan, for Python 3.12 at most, compiles
    it too, but reads the data anew in each evaluation and is far slower. Nothing is downloaded.

    Transformed parameters and generated quantities are stored beside the parameters; `log_lik`, and names that begin
    with `log_lik_`, in the group `log_likelihood`. Chains start uniformly on (−2, 2), as in Stan.

    Args:
        program: the code, or the path of a `.stan` file.
        data: numbers, lists and arrays by name.
        observed: names of data for the group `observed_data`.
        dims: names of the dimensions of variables and observed data.
        coords: coordinates along these dimensions.
        library: "stanli", "bridgestan" or "pystan"; the first one that is ready by default.

    Raises:
        ImportError: if no library is ready; the message says what each lacks and what to install.
        FileNotFoundError: if the file does not exist.
        TypeError, ValueError: if `data` is not a dict by name, or Stan refuses the program.
    """
    if library is not None:
        check_one_of("library", library, tuple(ENGINES))
    if not isinstance(program, str | os.PathLike):
        raise TypeError(f"program must be Stan code or the path of a .stan file, got {shown(program)}")
    is_file = isinstance(program, os.PathLike) or program.endswith(".stan")
    code, name = (Path(program).read_text(), Path(program).stem) if is_file else (str(program), "stan")
    data = {} if data is None else data
    if not isinstance(data, Mapping) or not all(isinstance(key, str) for key in data):
        raise TypeError(f"data must be a dict by name, got {shown(data)}")
    if missing := [key for key in observed if key not in data]:
        raise ValueError(f"observed: there are no data {missing[0]!r}; there are {', '.join(map(repr, data))}")
    for key, value in data.items():
        if np.asarray(value).dtype.kind == "f" and (bad := int(np.isnan(value).sum())):
            raise ValueError(f"data[{key!r}] holds {bad} values that are NaN; remove or impute them")
    plain = {key: np.asarray(value).tolist() for key, value in data.items()}
    try:
        made = engine(code, plain, library)
    except ImportError:
        raise
    except Exception as error:
        given = ", ".join(data) or "none"
        raise ValueError(f"program: Stan refuses it or its data (given: {given}): {_in_short(error)}") from error
    return StanModel(name, made, {key: np.asarray(data[key]) for key in observed}, dims, coords)


class StanModel(AbstractForeign):
    """The model that `gadabout.models.stan` returns."""

    def __init__(self, name: str, engine: AbstractStan, observed: Mapping[str, Any], dims: Any, coords: Any):
        self.engine, self._places = engine, _places(engine.names)
        self._own = [n for n, (first, _, _) in self._places.items() if first < engine.num_parameters]
        if not engine.size:
            raise ValueError("program: it has no parameters, and there is nothing to sample")
        shapes = {n: shape for n, (_, _, shape) in self._places.items()}
        likelihood = {n: n.removeprefix("log_lik_") for n in shapes if n == LIKELIHOOD or n.startswith("log_lik_")}
        self._likelihood = likelihood
        self._last: tuple[Any, Any] | None = None
        told = shapes | {likelihood[n]: shapes[n] for n in likelihood} | {n: np.shape(v) for n, v in observed.items()}
        super().__init__(name, _free(self, shapes), told, {}, {}, observed, (dims, coords))
        rows = InThreads(partial(_density, engine), None if engine.in_threads else 1)
        self.density = HostDensity(rows, names=tuple(self._own))

    @property
    def target(self):
        return Target(self.density, (), self.layout)

    def unconstrain(self, position):
        assert self.layout is not None
        shapes = [self.shapes[n] for n in self._own]
        flat = jnp.concatenate([jnp.ravel(position[n]) for n in self._own])
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

        def rows(x):
            split = (
                [part.reshape(s).tolist() for part, s in zip(np.split(row, ends[:-1]), shapes, strict=True)]
                for row in x
            )
            return np.stack([self.engine.unconstrained(dict(zip(self._own, parts, strict=True))) for parts in split])

        return self.layout.unravel(host_values(rows, flat, self.engine.size))

    def _values(self, x: Any) -> dict[str, Any]:
        rows = lambda x: np.stack([self.engine.constrained(row) for row in x])
        if self._last is None or self._last[0] is not x:  # called twice, for parameters and for all other values
            self._last = x, host_values(rows, x, len(self.engine.names))
        flat = self._last[1]
        found = {}
        for name, (first, last, shape) in self._places.items():  # Stan's first index runs fastest
            part = flat[..., first:last].reshape(*flat.shape[:-1], *shape[::-1])
            axes = (*range(flat.ndim - 1), *range(part.ndim - 1, flat.ndim - 2, -1))
            found[name] = part.transpose(axes)
        return found

    def impossible(self, x):
        try:
            self.engine.density(np.asarray(x, np.float64))
        except (RuntimeError, ValueError) as error:
            return f"Stan rejects it: {_in_short(error)}; check the data"
        return super().impossible(x)

    def constrain(self, x):
        values = self._values(x)
        return {name: values[name] for name in self._own}

    def outputs(self, x):
        values = self._values(x)
        more = {n: v for n, v in values.items() if n not in self._own and n not in self._likelihood}
        likelihood = {own: values[n] for n, own in self._likelihood.items()}
        groups = {"posterior": more, "log_likelihood": likelihood, "unconstrained_posterior": self.free(x)}
        return {name: group for name, group in groups.items() if group}


def _in_short(error: Exception) -> str:
    """The first and the last line of Stan's message: the place of the error and its reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines if len(lines) < 2 else [lines[0], lines[-1]])


def _density(engine: AbstractStan, x: np.ndarray) -> tuple[float, np.ndarray | None]:
    """log π and its gradient; −∞ and None if the program rejects x."""
    try:
        return engine.density(x)
    except (RuntimeError, ValueError):
        return -np.inf, None


def _places(names: Sequence[str]) -> dict[str, tuple[int, int, tuple[int, ...]]]:
    """Start, end (exclusive) and shape of each variable in a list of flat names such as `L.2.1`."""
    found: dict[str, tuple[int, int, tuple[int, ...]]] = {}
    for i, name in enumerate(names):
        stem, *index = name.split(".")
        first = found.get(stem, (i, 0, ()))[0]
        found[stem] = first, i + 1, tuple(map(int, index))
    return found


def _free(model: StanModel, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shape of each parameter's unconstrained values: a coordinate belongs to the first parameter it changes."""
    engine = model.engine
    random = np.random.default_rng(0)
    x = random.uniform(-0.5, 0.5, engine.size)
    here, owners = engine.constrained(x), []
    for i in range(engine.size):
        changed = engine.constrained(x + 0.3 * np.eye(engine.size)[i]) != here
        owners.append(next(n for n in model._own if changed[slice(*model._places[n][:2])].any()))
    counts = {n: owners.count(n) for n in model._own}
    flat = lambda n: len(shapes[n]) <= 1 and counts[n] == int(np.prod(shapes[n]))
    return {n: shapes[n] if flat(n) else (counts[n],) for n in model._own}
