"""`gadabout.default()` beside today's samplers: effective draws per second, compilation told apart.

Every peer runs as `peer_samplers` says. The seconds of a run are those from the call to all draws in memory: starts,
warm-up and draws; what is said of the draws afterwards does not count. A run in which JAX compiles anything, as the
first one does, and one whose plan chooses what no run before it chose, is made again with the same seed, to the same
draws: the second time counts, and what the first took longer is compilation.
"""

import gc
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gadabout import targets
from gadabout.benchmarks.peer_samplers import PEERS, Run
from gadabout.benchmarks.samplers import quality
from gadabout.benchmarks.truth import Figures, flat, largest_difference, of_chains
from gadabout.model import AbstractModel
from gadabout.targets import wild

TARGETS = ("neal", "caravan", "heart", "australian", "german", "ripley", "pima")
OURS = "gadabout"
MOST_ERRORS = 5
"""combined standard errors by which a mean or a variance may miss its true value"""


def compare(
    name: str,
    peers: Sequence[str],
    draws: int,
    repeats: int,
    data_home: str | Path | None = None,
    chains: int | None = None,
) -> list[dict[str, Any]]:
    """A row for each peer on one target, the fastest first; repeats, one for each seed, are interleaved.

    `chains` takes the place of each peer's own number of chains.

    Raises as `targets.load` does.
    """
    with warnings.catch_warnings(), targets.precision(name):
        warnings.simplefilter("ignore")  # whether the draws are good is in the rows
        model = targets.model(name, data_home)
        numbers = {peer: chains or PEERS[peer].chains for peer in peers}
        runs = {peer: PEERS[peer].prepare(model, numbers[peer], draws) for peer in peers}
        found: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
        for seed in range(1, repeats + 1):
            for peer, run in runs.items():
                found[peer].append(_measured(model, run, seed))
    settings = {peer: {"target": name, "peer": peer, "chains": numbers[peer], "draws": draws} for peer in peers}
    return ranked([{**settings[peer], **summary(found[peer])} for peer in peers])


@cache
def compilations() -> list[str]:
    """A list that grows with each program that JAX compiles in this process, from the first call on."""
    seen = []

    def listen(event, duration_secs, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return seen


def _measured(model: AbstractModel, run: Run, seed: int) -> dict[str, Any]:
    gc.collect()  # each starts with the memory of earlier runs given back
    before = len(compilations())
    drawn, first = run(seed)
    seconds = first
    if len(compilations()) > before:
        drawn, seconds = run(seed)
    q, rhat_max = quality(drawn)
    q = q if np.isfinite(q) else 0.0
    return {
        "seed": seed,
        "seconds": seconds,
        "compile_seconds": max(0.0, first - seconds),
        "q": q,
        "q_per_second": q / seconds,
        "rhat_max": rhat_max,
        "right": right(model, drawn),
    }


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A peer's figures: medians over runs, the range of q per second, the worst R-hat, and the runs themselves.

    `compile_seconds` is the largest of any run; `right` is None where no truth is known.
    """
    seconds, q, speed, r_hat = ([run[key] for run in runs] for key in ("seconds", "q", "q_per_second", "rhat_max"))
    verdicts = [run["right"] for run in runs]
    return {
        "q": float(np.median(q)),
        "seconds": float(np.median(seconds)),
        "q_per_second": float(np.median(speed)),
        "q_per_second_range": [min(speed), max(speed)],
        "compile_seconds": max(run["compile_seconds"] for run in runs),
        "rhat_max": None if None in r_hat else float(np.max(r_hat)),
        "right": None if None in verdicts else all(verdicts),
        "runs": list(runs),
    }


def ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one target, the fastest first, with `ratio`: their q per second over that of the best other sampler.

    Others are those of other programs; one that is wrong is no measure. None where there is none.
    """
    others = [row["q_per_second"] for row in rows if not row["peer"].startswith(OURS) and row["right"] is not False]
    best = max(others, default=0.0)
    rows = [{**row, "ratio": row["q_per_second"] / best if best else None} for row in rows]
    return sorted(rows, key=lambda row: -row["q_per_second"])


def overall(rows: Sequence[Mapping[str, Any]]) -> tuple[float | None, int, list[str]]:
    """Of rows of all targets: the geometric mean of gadabout's ratios, of how many, and where gadabout is wrong.

    Targets where it is wrong are no part of the mean, which is None where nothing is.
    """
    ours = [row for row in rows if row["peer"] == OURS and row["ratio"] is not None]
    ratios = [row["ratio"] for row in ours if row["right"] is not False]
    wrong = [row["target"] for row in ours if row["right"] is False]
    with np.errstate(divide="ignore"):  # a ratio of nought makes a mean of nought
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else None, len(ratios), wrong


def right(model: AbstractModel, drawn: np.ndarray) -> bool | None:
    """Whether all means and variances are within 5 combined standard errors of the truth; None where none is known."""
    known = _truth(model)
    if known is None:
        return None
    return largest_difference(of_chains(drawn, quantiles=False), known) <= MOST_ERRORS


def _truth(model: AbstractModel) -> Figures | None:
    """Means and variances with their errors, arrays (n,); None where they are not known, or of no use."""
    if isinstance(model, targets.Problem):
        if model.covariance is None:
            return None
        nought = np.zeros(model.dim)
        return {"mean": nought, "mean_error": nought, "variance": np.diag(model.covariance), "variance_error": nought}
    assert model.layout is not None
    document = wild.truth(model.name)
    if document["judge"] != "moments":
        return None
    return flat(document, model.layout.names, ("mean", "variance"))
