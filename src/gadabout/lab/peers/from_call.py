"""Seconds from the call to q = 1,000, including compilation: the default compared with NUTS of current programs.

q is the smallest ESS of a coordinate or its square. Each run is a process of its own, without a cache of programs. The
clock starts after imports and data, where a user calls, and stops when all draws are in memory. A first run of `FIRST`
draws per chain, with a seed of its own, gives the number of draws for q = 1,000 with a fifth to spare. Every peer then
makes that many with a fresh seed; the default and the quickest other peer repeat this with more seeds. The seconds of a
run with a smaller q are scaled as if q grew with them, up to `MOST_SECONDS`, after which runs are stopped. `good` is
the number of runs whose draws may be used by R-hat and the truth; the seconds of other runs count as well.
"""

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gadabout.lab.json_process import answer
from gadabout.lab.peers import OURS
from gadabout.lab.peers.peer_cold import WANTED, enough
from gadabout.lab.peers.peer_samplers import PEERS
from gadabout.lab.peers.peers import MOST_ERRORS, failed
from gadabout.lab.peers.samplers import quality
from gadabout.lab.peers.truth import differences, of_chains
from gadabout.lab.peers.wild import known_truth
from gadabout.lab.rows import Rows
from gadabout.model import Model
from gadabout.targets import sets

NUTS = (OURS, "numpyro", "blackjax", "nutpie")
FIRST, TUNING_SEED = 1_000, 0
MOST_SECONDS = 60.0
"""seconds after which a process is stopped"""
GIVEN_UP = {"seconds": MOST_SECONDS, "q": 0.0, "good": False}


def process(known: Mapping[str, Any], module: str = __name__, limit: float = MOST_SECONDS) -> dict[str, Any]:
    """Runs `module` as a process and returns its JSON; `GIVEN_UP` after `limit` seconds, RuntimeError if it fails."""
    what = f"{known['peer']} on {known['target']}"
    try:
        return answer(what, module, known, {"JAX_ENABLE_X64": "1", "JAX_ENABLE_COMPILATION_CACHE": "false"}, limit)
    except subprocess.TimeoutExpired:
        return GIVEN_UP | {"seconds": limit}


def compare(
    names: Sequence[str],
    peers: Sequence[str],
    seeds: Sequence[int],
    file: Path | None = None,
    run: Callable[[Mapping[str, Any]], Mapping[str, Any]] = process,
) -> list[dict[str, Any]]:
    """Returns a row for each target and peer: medians of seconds and q over its seeds, and the number of good runs.

    All peers run with the first seed; only the default and the quickest other peer run with the rest.

    Runs that `file` holds are not made again. Raises ValueError for an unknown target, RuntimeError if a process
    fails.
    """
    stored, rows = Rows(file), []
    made_once = lambda known: stored.row({**known, "start": "call"}, lambda: run(known))
    for name in names:
        sets.set_of(name)
        known = {peer: {"target": name, "peer": peer, "chains": PEERS[peer].usual} for peer in peers}
        first = {peer: made_once(each | {"draws": FIRST, "seed": TUNING_SEED}) for peer, each in known.items()}
        made: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
        racing = list(peers)
        for seed in seeds:
            for peer in racing:
                draws = enough(first[peer])
                asked = known[peer] | {"draws": draws, "seed": seed}
                made[peer].append(GIVEN_UP if draws is None else made_once(asked))
            others = sorted(set(racing) - {OURS}, key=lambda peer, made=made: to_wanted(made[peer][0]))
            racing = [OURS, *others[:1]]
        for peer, runs in made.items():
            figures = {"seconds": median(map(to_wanted, runs)), "q": median([run["q"] for run in runs])}
            rows.append(known[peer] | figures | {"good": sum(run["good"] for run in runs), "runs": runs})
    return rows


def to_wanted(run: Mapping[str, Any], limit: float = MOST_SECONDS) -> float:
    """Seconds of a run to q = 1,000, at most `limit`; scaled as if q grew with them if the run falls short."""
    return min(run["seconds"] * max(1.0, WANTED / max(run["q"], 1.0)), limit)


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """By target: the seconds of the quickest other peer divided by those of the default. Empty without another peer."""
    found = {}
    for name in dict.fromkeys(row["target"] for row in rows):
        seconds = {row["peer"]: row["seconds"] for row in rows if row["target"] == name}
        if len(seconds) > 1:
            found[name] = min(each for peer, each in seconds.items() if peer != OURS) / seconds[OURS]
    return found


def main(known: dict[str, Any]) -> None:
    """Entry point of a process: samples, and prints a line of JSON: seconds, q, R-hat and whether draws are good."""
    warnings.simplefilter("ignore")
    model, asked = sets.load(known["target"]), (known["chains"], known["draws"])
    prepare = PEERS[known["peer"]].prepare
    prepare(model, *asked)  # imports the peer's program
    began = time.perf_counter()
    drawn, _ = prepare(model, *asked)(known["seed"])
    seconds = time.perf_counter() - began
    q, rhat_max = quality(drawn)
    q = float(np.nan_to_num(q))
    good = may_be_used(q, rhat_max, _right(model, drawn), len(drawn))
    print(json.dumps({"seconds": seconds, "q": q, "rhat": rhat_max, "good": good}))


def may_be_used(q: float, rhat_max: float | None, right: bool | None, chains: int) -> bool:
    """Whether q is at least half of `WANTED`, R-hat is within its limit, and the draws are not known to be wrong."""
    return q >= WANTED / 2 and not failed({"q": q, "rhat_max": rhat_max, "right": right}, chains)


def _right(model: Model, drawn: np.ndarray) -> bool:
    """Whether all known figures of a target are within 5 combined standard errors; True if none are known."""
    known, keys = known_truth(model)
    return known is None or bool(differences(of_chains(drawn, "quantiles" in keys), known, keys).max() <= MOST_ERRORS)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
