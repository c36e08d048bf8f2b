"""`gadabout.default()` beside today's samplers: effective draws per second, compilation told apart.

Every peer runs as `peer_samplers` says. Runs with a seed of their own pick its number of chains, 4 or 64 where its
users may choose, and how many draws of each make q between 4,000 and 8,000 (1,000 and 2,000 where gradients are dear),
in two minutes at most. Then gadabout and the two best others run with fresh seeds, which are interleaved.

The seconds of a run are those from the call to all draws in memory: starts, warm-up and draws; what is said of the
draws afterwards does not count. A run in which JAX compiles anything, as the first one does, and one whose plan chooses
what no run before it chose, is made again with the same seed, to the same draws: the second time counts, and what the
first took longer is compilation. So is a run of less than `BRIEF` seconds, since memory that a process did not touch
while others ran may come back slowly (by 20 to 35 ms on a virtual machine that takes idle pages). A run that failed
counts for nothing: its R-hat is above max(1.01, 1 + 3 · chains/q), or a mean or a variance that is known is missed by 5
combined standard errors. One with q below `FEWEST` says little of its own speed: no more than `FEWEST` draws in its
seconds, as which it counts.
"""

import gc
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gadabout import targets
from gadabout.lab.peers import OURS
from gadabout.lab.peers.peer_samplers import PEERS
from gadabout.lab.peers.samplers import quality
from gadabout.lab.peers.truth import Figures, flat, largest_difference, of_chains
from gadabout.lab.rows import Rows
from gadabout.model import AbstractModel
from gadabout.targets import wild

TARGETS = ("neal", "caravan", "heart", "australian", "german", "ripley", "pima")
MOST_ERRORS = 5
"""combined standard errors by which a mean or a variance may miss its true value"""
AIM = 5_657.0
"""of q, for all alike, since a longer run pays the less for its warm-up"""
NEAR = 1.2
"""the factor within which the last tuning run has to come, so that fresh seeds come within √2"""
AIMS = {"caravan": 1_414.0, "mnist-56": 1_414.0}
FEWEST = 100.0
MOST_SECONDS = 120.0
"""of a run"""
BRIEF = 2.0
"""seconds of a run that is made twice"""
TRIALS = 4
TUNING_SEED = 0
FIRST_DRAWS = 250
RIVALS = 2


def compare(
    name: str,
    peers: Sequence[str],
    repeats: int,
    data_home: str | Path | None = None,
    *,
    chains: int | None = None,
    draws: int | None = None,
    file: Path | None = None,
) -> list[dict[str, Any]]:
    """A row for each peer on one target, the fastest first.

    Args:
        name: of the target.
        peers: names of `PEERS`.
        repeats: seeds, from 1 on, of gadabout and of the two others that were best in tuning; what tuning found stands
            in the rows of the rest, whose `repeats` is 0.
        data_home: the folder of data files.
        chains: of every peer; nothing is tried but that.
        draws: of each chain of every peer. Nothing is tuned then, and all peers run with all seeds.
        file: of rows, as `Rows` writes it; runs that it holds are not made again.

    Raises as `targets.load` does, and ValueError if `file` holds something else.
    """
    stored = Rows(file)
    with warnings.catch_warnings(), targets.precision(name):
        warnings.simplefilter("ignore")  # whether the draws are good is in the rows
        model = targets.model(name, data_home)
        prepare = cache(lambda peer, chains, draws: PEERS[peer].prepare(model, chains, draws))

        def measure(peer, chains, draws, seed=TUNING_SEED):
            known = {"target": name, "peer": peer, "chains": chains, "draws": draws, "seed": seed, "start": None}
            return stored.row(known, lambda: _measured(model, prepare(peer, chains, draws), seed))

        settings = {peer: (chains or PEERS[peer].usual, draws) for peer in peers}
        rows, trials = {}, {peer: [] for peer in peers}
        if draws is None:
            aim = AIMS.get(name, AIM)
            for peer in peers:
                for each in [chains] if chains else PEERS[peer].chains:
                    trials[peer] += tuned(partial(measure, peer, each), aim)
                good = lambda run, aim=aim: near(run, aim) and run["q_per_second"] > 0
                best = max(trials[peer], key=lambda run: (good(run), run["q_per_second"]))
                rows[peer] = summary([best]) | {"repeats": 0}
                settings[peer] = best["chains"], best["draws"]
        scored = {peer: [] for peer in _best(rows) or peers}
        for seed in range(1, repeats + 1):
            for peer, runs in scored.items():
                runs.append(measure(peer, *settings[peer], seed))
    rows |= {peer: summary(runs) | {"repeats": repeats} for peer, runs in scored.items()}
    told = lambda peer: {"chains": settings[peer][0], "draws": settings[peer][1], "trials": trials[peer], **rows[peer]}
    return ranked([{"target": name, "peer": peer, **told(peer)} for peer in peers])


def tuned(measure: Callable[[int], dict[str, Any]], aim: float) -> list[dict[str, Any]]:
    """Runs of so many draws of each chain, `TRIALS` at most, the last of which has q near the aim if it can be had."""
    rows = [measure(FIRST_DRAWS)]
    while len(rows) < TRIALS and (draws := next_draws(rows, aim)) not in [row["draws"] for row in rows]:
        rows.append(measure(draws))
    return rows


def near(run: Mapping[str, Any], aim: float) -> bool:
    """Whether q is within a factor of `NEAR` of the aim."""
    return aim / NEAR <= run["q"] <= aim * NEAR


def next_draws(rows: Sequence[Mapping[str, Any]], aim: float) -> int:
    """Draws to try after runs that are `rows`, in `MOST_SECONDS` at most: those of the last run where its q is near.

    q is taken to grow as the number of draws, and seconds to grow evenly with it from what the last two runs took.
    """
    last = rows[-1]
    if near(last, aim):
        return last["draws"]
    draws = last["draws"] * aim / max(last["q"], 1.0)
    slope = last["seconds"] / last["draws"]
    if len(rows) > 1 and rows[-2]["draws"] != last["draws"]:
        slope = max((last["seconds"] - rows[-2]["seconds"]) / (last["draws"] - rows[-2]["draws"]), 0.1 * slope)
    affordable = last["draws"] + (MOST_SECONDS - last["seconds"]) / slope
    return max(round(min(draws, affordable)), 10)


def _best(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of tuned peers: gadabout, and the best others."""
    others = sorted((peer for peer in rows if peer != OURS), key=lambda peer: -rows[peer]["q_per_second"])
    return [peer for peer in rows if peer == OURS or peer in others[:RIVALS]]


@cache
def compilations() -> list[str]:
    """A list that grows with each program that JAX compiles in this process, from the first call on."""
    seen = []

    def listen(event, duration_secs, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    return seen


def _measured(model: AbstractModel, run: Any, seed: int) -> dict[str, Any]:
    gc.collect()  # each starts with the memory of earlier runs given back
    before = len(compilations())
    drawn, first = run(seed)
    seconds, compiled = first, len(compilations()) > before
    if compiled or first < BRIEF:
        drawn, seconds = run(seed)
    q, rhat_max = quality(drawn)
    q = q if np.isfinite(q) else 0.0
    figures = {"q": q, "rhat_max": rhat_max, "right": right(model, drawn)}
    return {
        "seconds": seconds,
        "compile_seconds": max(0.0, first - seconds) if compiled else 0.0,
        **figures,
        "q_per_second": 0.0 if failed(figures, len(drawn)) else max(q, FEWEST) / seconds,
    }


def failed(run: Mapping[str, Any], chains: int) -> bool:
    """Whether the draws of a run are not to be used: chains differ, or a known figure is missed."""
    differ = run["rhat_max"] is not None and run["rhat_max"] > max(1.01, 1 + 3 * chains / max(run["q"], 1e-9))
    return bool(differ or run["right"] is False)


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A peer's figures: medians over runs, the range of q per second, the worst R-hat, and the runs themselves.

    `compile_seconds` is the largest of any run; `right` is None where no truth is known; `failures` are the runs that
    count for nothing.
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
        "failures": sum(each == 0 for each in speed),
        "runs": list(runs),
    }


def ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of one target, the fastest first, with `ratio`: their q per second over that of the best other sampler.

    Others are those of other programs that ran with fresh seeds. None where there is none.
    """
    others = [row["q_per_second"] for row in rows if not row["peer"].startswith(OURS) and row["repeats"]]
    best = max(others, default=0.0)
    rows = [{**row, "ratio": row["q_per_second"] / best if best else None} for row in rows]
    return sorted(rows, key=lambda row: -row["q_per_second"])


def overall(rows: Sequence[Mapping[str, Any]]) -> tuple[float | None, int, list[str]]:
    """Of rows of all targets: the geometric mean of gadabout's ratios, of how many, and where a run of it failed."""
    ours = [row for row in rows if row["peer"] == OURS and row["ratio"] is not None]
    ratios, failing = [row["ratio"] for row in ours], [row["target"] for row in ours if row["failures"]]
    with np.errstate(divide="ignore"):  # a ratio of nought makes a mean of nought
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else None, len(ratios), failing


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
