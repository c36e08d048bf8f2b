"""The default on the posteriors of a checkout of posteriordb, compared with their reference draws.

These files of a checkout are read: `posterior_database/posteriors/NAME.json`, which names a model, data and reference
draws; `data/data/*.json.zip`; `reference_posteriors/draws/draws/*.json.zip`; and `models/info/*.info.json`, with the
Stan programs and PyMC files that it names. A model is made of the first of these that is available:

- `MODEL.py` in a folder of the user, whose function `model(data)` returns a model that `gadabout.sample` accepts;
- the Stan program, if an engine can evaluate it (`gadabout.models.stan`);
- the PyMC file, if PyMC is installed: `model(data)` returns a `pymc.Model`.

If no model can be made, the row gives the reason. A run is judged like those of the wild set (`lab.peers.wild`), by all
numbers that have reference draws.
"""

import hashlib
import io
import json
import re
import runpy
import time
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout import models
from gadabout.api import sample
from gadabout.lab.peers.samplers import quality
from gadabout.lab.peers.truth import of_chains
from gadabout.lab.peers.wild import judged
from gadabout.lab.rows import Rows

if TYPE_CHECKING:
    import xarray as xr

NOT_RUN = "not run"


def runs(
    folder: Path, names: Sequence[str] = (), own: Path | None = None, seed: int = 0, file: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a row for each posterior that has reference draws, or each of `names`; rows that `file` holds are reused.

    A posterior is run again if it could not be run before, or if its data, model or reference draws have changed.

    Args:
        folder: a checkout of posteriordb, or its `posterior_database`.
        names: the posteriors to run; all if none.
        own: a folder with `MODEL.py` files.
        seed: seed of every run.
        file: file that stores the rows.

    Raises:
        FileNotFoundError: if the folder is no such checkout.
        ValueError: for a name without a posterior or without reference draws, or if `file` holds something else.
    """
    root = folder / "posterior_database" if (folder / "posterior_database").is_dir() else folder
    known = {path.stem: path for path in sorted((root / "posteriors").glob("*.json"))}
    if not known:
        raise FileNotFoundError(f"{folder} has no posterior_database/posteriors; name a checkout of posteriordb")
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"there is no posterior {missing[0]!r} in {folder}; there are {', '.join(known)}")
    stored = Rows(file)
    for name in names or known:
        posterior = json.loads(known[name].read_text())
        if posterior.get("reference_posterior_name") is None:
            if names:
                raise ValueError(f"{name} has no reference draws; name another posterior")
            continue
        yield _row(root, name, posterior, own, seed, stored)


def _row(root: Path, name: str, posterior: Mapping[str, Any], own: Path | None, seed: int, stored: Rows) -> dict:
    key = {"posterior": name, "seed": seed, "files": _digest(root, posterior, own)}
    if (found := stored.find(key)) is not None:
        return found
    try:
        return stored.add(key | _run(root, posterior, own, seed))
    except Exception as error:  # files of others may raise anything
        return key | {"outcome": NOT_RUN, "why": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}


def _digest(root: Path, posterior: Mapping[str, Any], own: Path | None) -> str:
    """SHA-256 of the files of a posterior that exist: data, reference draws and models."""
    model = posterior["model_name"]
    draws = f"reference_posteriors/draws/draws/{posterior['reference_posterior_name']}.json.zip"
    paths = [root / f"data/data/{posterior['data_name']}.json.zip", root / draws]
    paths += [] if own is None else [own / f"{model}.py"]
    paths += sorted((root / "models").glob(f"*/{model}.*"))
    found = hashlib.sha256()
    for path in filter(Path.is_file, paths):
        found.update(f"{path.name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _run(root: Path, posterior: Mapping[str, Any], own: Path | None, seed: int) -> dict[str, Any]:
    model, by = _model(root, posterior, own)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row has the findings
        tree = sample(model, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    draws = read_zip(root / "reference_posteriors/draws/draws" / f"{posterior['reference_posterior_name']}.json.zip")
    return {"by": by} | compared(tree, draws) | {"seconds": round(seconds, 2)}


def compared(tree: "xr.DataTree", reference: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    """The outcome of a result, judged by reference draws: for each chain a dict from names like "theta[1]" to draws.

    Raises ValueError if no variable of the result has reference draws.
    """
    by_name = {_plain(name): np.array([chain[name] for chain in reference], float) for name in reference[0]}
    columns, variables = [], []
    for name, values in tree["posterior"].data_vars.items():
        places = [(name, *(i + 1 for i in place)) for place in np.ndindex(values.shape[2:])]
        if all(place in by_name for place in places):
            variables.append(str(name))
            columns += [by_name.pop(place) for place in places]
    if not columns:
        raise ValueError(f"no variable of the model has reference draws; these have: {', '.join(reference[0])}")
    row = judged(tree, variables, of_chains(np.stack(columns, -1), quantiles=False))
    own = [np.asarray(tree["posterior"][name]) for name in variables]
    x = np.concatenate([values.reshape(*values.shape[:2], -1) for values in own], -1)
    missing = sorted({str(place[0]) for place in by_name})
    return {"n": len(columns), "outcome": row.pop("outcome"), "q": quality(x)[0], "missing": missing, **row}


def read_zip(path: Path) -> Any:
    """The content of the JSON file in a zip file."""
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return json.load(io.TextIOWrapper(file, "utf-8"))


def _model(root: Path, posterior: Mapping[str, Any], own: Path | None) -> tuple[Any, str]:
    """The model of a posterior, and its origin: "yours", "stan" or "pymc". Raises RuntimeError if no maker succeeds."""
    name = posterior["model_name"]
    data = read_zip(root / "data/data" / f"{posterior['data_name']}.json.zip")
    if own is not None and (own / f"{name}.py").exists():
        return runpy.run_path(str(own / f"{name}.py"))["model"](data), "yours"
    info = json.loads((root / "models/info" / f"{name}.info.json").read_text())
    codes = {kind: root / made["model_code"] for kind, made in info["model_implementations"].items()}
    makers = {
        "stan": lambda path: models.stan(path, data),
        "pymc": lambda path: models.pymc(runpy.run_path(str(path))["model"](data)),
    }
    reasons = []
    for kind in (kind for kind in makers if kind in codes):
        try:
            return makers[kind](codes[kind]), kind
        except Exception as error:
            reasons.append(f"{kind}: {error}")
    raise RuntimeError("; ".join(reasons) or f"there is neither a Stan program nor a PyMC file of {name}")


def _plain(name: str) -> tuple[Any, ...]:
    """The name and the indices, from 1 on, in a string such as "theta[1,2]"."""
    found = re.fullmatch(r"(.*?)\[([\d,]+)\]", name)
    return (name,) if found is None else (found[1], *map(int, found[2].split(",")))
