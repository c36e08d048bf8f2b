"""`sample()` with default arguments on built-in sets: which posteriors come out right, flagged, or silently wrong.

A coordinate is wrong if its mean or variance, or a quantile for heavy tails, is more than 5 combined standard errors
from the truth. A run is right if no coordinate is wrong and each R-hat is at most max(1.01, 1 + 3 · chains/ESS). If its
smallest ESS is below 400 (`ess_needed`), such a run has too few draws to be called right, as standard errors and R-hat
are then imprecise. Any other run is flagged if findings with a figure name every wrong coordinate; a list of
`MOST_NAMED` names, which gives the number of further names, counts as naming all.
"""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.api import sample
from gadabout.findings import MOST_NAMED
from gadabout.findings.draws import ess_needed, names_of
from gadabout.lab.peers.peers import MOST_ERRORS
from gadabout.lab.peers.truth import Figures, differences, flat, of_chains
from gadabout.lab.rows import Rows
from gadabout.model import Model
from gadabout.targets import sets

if TYPE_CHECKING:
    import xarray as xr

RIGHT, FEW, FLAGGED, WRONG, UNKNOWN = "right", "too few", "flagged", "wrong without a word", "no truth"
OUTCOMES = (RIGHT, FEW, FLAGGED, WRONG, UNKNOWN)


def runs(targets: Sequence[str], seeds: Sequence[int], file: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yields a row for each target and seed. Rows that `file` holds are reused, and new ones are added to it.

    Raises ValueError for an unknown target, and if `file` holds something else.
    """
    for name in targets:
        sets.set_of(name)
    stored = Rows(file)
    for name in targets:
        load = cache(partial(sets.load, name))  # seeds share compiled programs
        for seed in seeds:
            yield stored.row({"target": name, "seed": seed}, lambda load=load, seed=seed: run(load(), seed))


def run(model: Model, seed: int) -> dict[str, Any]:
    """Runs `sample` with default arguments and returns the row of its outcome."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the row has the findings
        tree = sample(model, seed=seed, progress=False)
    seconds = time.perf_counter() - began
    assert model.layout is not None
    row = {"target": model.name, "seed": seed, **judged(tree, model.layout.names, *known_truth(model))}
    row["seconds"] = round(seconds, 1)
    made = {"gradients": tree.attrs["gradient_evaluations"], "choice": tree.attrs["choice"]["why"]}
    return row | made | {"date": str(date.today()), "gadabout": version("gadabout"), "jax": version("jax")}


def judged(
    tree: "xr.DataTree", names: Sequence[str], known: Figures | None, keys: Sequence[str] = ("mean", "variance")
) -> dict[str, Any]:
    """The outcome of a result, and its worst R-hat, ESS and difference from the truth.

    Args:
        tree: a result of `sample`.
        names: variables of the model's position; no others are judged.
        known: true figures with their errors, (n,) or (5, n) each; None if there is no truth.
        keys: names of the figures that count.
    """
    own = lambda group: tree[group].to_dataset()[list(names)]
    x, r_hat = _flat(own("posterior")), _flat(own("diagnostics/rhat"), lead=0)
    ess = np.minimum(*(_flat(own(f"diagnostics/{kind}"), lead=0) for kind in ("ess_bulk", "ess_tail")))
    few = bool(np.min(ess) < ess_needed(len(x)))
    mixed = bool(np.all(r_hat <= np.maximum(1.01, 1 + 3 * len(x) / ess)))
    found = tree.attrs["findings"]
    row = {
        "rhat": float(r_hat.max()),
        "ess": float(ess.min()),
        "findings": sorted({each["kind"] for each in found}),
        "off": None,
        "wrong": [],
    }
    told = [each for each in found if each["variables"] and each["figure"] is not None]
    if known is None:
        return {"outcome": FEW if mixed and few else UNKNOWN if mixed else FLAGGED if told else WRONG, **row}
    off = differences(of_chains(x, "quantiles" in keys), known, keys)
    labels = names_of(own("posterior"))
    wrong = [labels[i] for i in np.flatnonzero(off > MOST_ERRORS)]
    row |= {"off": float(off.max()), "wrong": wrong}
    if mixed and not wrong:
        return {"outcome": FEW if few else RIGHT, **row}
    named = {name for each in told for name in each["variables"]}
    named_all = set(wrong) <= named or any(len(each["variables"]) == MOST_NAMED for each in told)
    return {"outcome": FLAGGED if told and named_all else WRONG, **row}


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each target: the number of runs with each outcome, worst figures over seeds, and median seconds."""
    found = []
    for name in dict.fromkeys(row["target"] for row in rows):
        own = [row for row in rows if row["target"] == name]
        off = [row["off"] for row in own if row["off"] is not None]
        outcomes = {outcome: sum(row["outcome"] == outcome for row in own) for outcome in OUTCOMES}
        found.append(
            {
                "target": name,
                "outcomes": {outcome: count for outcome, count in outcomes.items() if count},
                "off": max(off, default=None),
                "rhat": max(row["rhat"] for row in own),
                "ess": min(row["ess"] for row in own),
                "findings": sorted({kind for row in own for kind in row["findings"]}),
                "seconds": float(np.median([row["seconds"] for row in own])),
            }
        )
    return found


def known_truth(model: Model) -> tuple[Figures | None, Sequence[str]]:
    """The true figures of a model and the names of those that judge it; (None, ()) if there is no truth."""
    assert model.layout is not None
    try:
        document = sets.truth(model.name)
    except FileNotFoundError:
        return None, ()
    keys = ("quantiles",) if document["judge"] == "quantiles" else ("mean", "variance")
    return flat(document, model.layout.names, keys), keys


def _flat(variables: "xr.Dataset", lead: int = 2) -> np.ndarray:
    """All variables' values along one last axis, after `lead` axes that they share."""
    values = [each.values for each in variables.data_vars.values()]
    return np.concatenate([each.reshape(*each.shape[:lead], -1) for each in values], -1)
