"""`gadabout.default()` compared with current samplers: effective draws per second, compilation reported separately.

Every peer runs as `peer_samplers` describes. Tuning runs, with a seed of their own, choose its number of chains if its
users may choose, and the number of draws per chain for which q is between 4,000 and 8,000 (1,000 and 2,000 if gradients
are expensive), in two minutes at most. Then gadabout and the two best others run with fresh, interleaved seeds.

The seconds of a run last from the call until all draws are in memory: starts, warm-up and draws, without diagnostics.
A run in which JAX compiles is repeated with the same seed, to the same draws: the first run, and any whose plan makes a
choice that no run before it made. The second time counts, and the excess of the first is compilation. A run of less
than `BRIEF` seconds is repeated too, since memory that a process did not touch while others ran may come back slowly
(by 20 to 35 ms on a virtual machine that takes idle pages). A run fails if its R-hat is above max(1.01, 1 + 3 ·
chains/q), or if a known mean or variance is missed by more than 5 combined standard errors; its speed is then 0. The
speed of a run with q below `FEWEST` is imprecise; it counts as if q were `FEWEST`.
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
"""largest accepted error of a mean or a variance, in combined standard errors"""
AIM = 5_657.0
"""target of q, the same for all peers, since a longer run spends a smaller share of its time in warm-up"""
NEAR = 1.2
"""factor within which q of the last tuning run must meet the target, so that fresh seeds meet it within √2"""
AIMS = {"caravan": 1_414.0, "mnist-56": 1_414.0}
FEWEST = 100.0
MOST_SECONDS = 120.0
"""largest planned seconds of a run"""
BRIEF = 2.0
"""seconds below which a run is repeated"""
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
    """Returns a row for each peer on one target, the fastest first.

    Args:
        name: name of the target.
        peers: names of `PEERS`.
        repeats: number of seeds, from 1 on, of gadabout and of the two others that were best in tuning. The rows of
            the rest have the figures of tuning, and `repeats` 0.
        data_home: the folder of data files.
        chains: number of chains of every peer; None to tune it.
        draws: draws per chain of every peer; None to tune them. If given, all peers run with all seeds.
        file: file of rows, as `Rows` writes it; runs that it holds are not made again.

    Raises as `targets.load` does, and ValueError if `file` holds something else.
    """
    stored = Rows(file)
    with warnings.catch_warnings(), targets.precision(name):
        warnings.simplefilter("ignore")  # the rows have the quality of draws
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
    """Tuning runs, `TRIALS` at most; the number of draws is adjusted until q is near `aim` or cannot come nearer."""
    rows = [measure(FIRST_DRAWS)]
    while len(rows) < TRIALS and (draws := next_draws(rows, aim)) not in [row["draws"] for row in rows]:
        rows.append(measure(draws))
    return rows


def near(run: Mapping[str, Any], aim: float) -> bool:
    """Whether q is within a factor of `NEAR` of the aim."""
    return aim / NEAR <= run["q"] <= aim * NEAR


def next_draws(rows: Sequence[Mapping[str, Any]], aim: float) -> int:
    """Draws per chain to try after the runs `rows`, in at most `MOST_SECONDS`; unchanged if the last q is near `aim`.

    q is assumed to be proportional to the number of draws, and seconds to be linear in it through the last two runs.
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
    """The names of gadabout and of the `RIVALS` best others, among tuned peers."""
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
    gc.collect()  # frees the memory of earlier runs
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
    """Whether the draws of a run must not be used: R-hat is too large, or a known figure is missed."""
    differ = run["rhat_max"] is not None and run["rhat_max"] > max(1.01, 1 + 3 * chains / max(run["q"], 1e-9))
    return bool(differ or run["right"] is False)


def summary(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A peer's figures: medians over runs, the range of q per second, the worst R-hat, and the runs themselves.

    `compile_seconds` is the largest of any run; `right` is None if no truth is known; `failures` is the number of runs
    that failed.
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
    """Rows of one target, the fastest first, with `ratio`: q per second divided by that of the best other sampler.

    Other samplers are those of other programs that ran with fresh seeds. `ratio` is None if none of them succeeded.
    """
    others = [row["q_per_second"] for row in rows if not row["peer"].startswith(OURS) and row["repeats"]]
    best = max(others, default=0.0)
    rows = [{**row, "ratio": row["q_per_second"] / best if best else None} for row in rows]
    return sorted(rows, key=lambda row: -row["q_per_second"])


def overall(rows: Sequence[Mapping[str, Any]]) -> tuple[float | None, int, list[str]]:
    """The geometric mean of gadabout's ratios over all targets, their number, and targets where a run of it failed."""
    ours = [row for row in rows if row["peer"] == OURS and row["ratio"] is not None]
    ratios, failing = [row["ratio"] for row in ours], [row["target"] for row in ours if row["failures"]]
    with np.errstate(divide="ignore"):  # a ratio of 0 makes the mean 0
        return float(np.exp(np.mean(np.log(ratios)))) if ratios else None, len(ratios), failing


def right(model: AbstractModel, drawn: np.ndarray) -> bool | None:
    """Whether all means and variances are within 5 combined standard errors of the truth; None if none is known."""
    known = _truth(model)
    if known is None:
        return None
    return largest_difference(of_chains(drawn, quantiles=False), known) <= MOST_ERRORS


def _truth(model: AbstractModel) -> Figures | None:
    """Means and variances with their errors, arrays (n,); None if unknown, or if the target is judged by quantiles."""
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
