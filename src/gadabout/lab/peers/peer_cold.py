"""Seconds from the start of a process to q = 1,000: imports, data, compilation, warm-up and draws.

Each peer runs in two fresh Python processes. The first has an empty folder for JAX's persistent cache of compiled
programs, which is set to keep every program; the second has the folder as the first left it. Stan's executable exists
both times. The number of draws would reach q = 1,000 with a fifth to spare if q grew with it from the peer's earlier
run; the row has the q that was reached, and the measured seconds, not scaled to q = 1,000. The clock stops when all
draws are in the process's memory, as in `compare`: later work on the draws, such as gadabout's diagnostics and tables,
does not count. Python finds the bytecode of all packages, as after an installation.
"""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from compileall import compile_dir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gadabout.files import PACKAGE
from gadabout.lab.rows import Rows

WANTED, SPARE = 1_000, 1.2
MOST_DRAWS = 100_000
"""draws per chain; a peer that would need more is not run"""

DRAWN = "drawn"
"""start of the line that a process prints when its draws are made; the seconds since then follow"""


def enough(row: Mapping[str, Any]) -> int | None:
    """Draws per chain for q = 1,000 with a fifth to spare, estimated from a row of `compare`; None beyond 100,000."""
    q = row["q"]
    draws = math.ceil(SPARE * WANTED * row["draws"] / q) if q > 0 else MOST_DRAWS + 1
    return None if draws > MOST_DRAWS else max(draws, 4)


def cold(
    rows: Sequence[Mapping[str, Any]], repeats: int, data_home: str | Path | None = None, file: Path | None = None
) -> list[dict[str, Any]]:
    """Returns a row for each row of `compare`, the quickest first: medians over interleaved repeats.

    Processes whose rows are in `file`, which `compare` may have written, are not started again.

    Raises RuntimeError if a process fails.
    """
    compile_dir(PACKAGE, quiet=2)
    stored, home = Rows(file), None if data_home is None else str(data_home)
    found: dict[str, list[dict[str, Any]]] = {row["peer"]: [] for row in rows}
    for seed in range(1, repeats + 1):
        for row in rows:
            draws = enough(row)
            if draws is not None:
                asked = {key: row[key] for key in ("target", "peer", "chains")} | {"draws": draws, "seed": seed}
                both = lambda asked=asked: _both(asked | {"data_home": home})
                found[row["peer"]].append(stored.row(asked | {"start": "process"}, both))
    cold_rows = [_cold_row(row, found[row["peer"]]) for row in rows]
    return sorted(cold_rows, key=lambda row: row["warm_seconds"] or math.inf)


def _both(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds of a process with an empty folder of compiled programs, and of a second one that finds them."""
    with TemporaryDirectory(prefix="gadabout-cold-", ignore_cleanup_errors=True) as programs:
        empty, warm = (process(asked, programs) for _ in range(2))
    return {"empty_seconds": empty["seconds"], "warm_seconds": warm["seconds"], "q": warm["q"]}


def _cold_row(row: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    import numpy as np

    cold_row = {"target": row["target"], "peer": row["peer"], "chains": row["chains"], "draws": enough(row)}
    cold_row |= {"q": float(np.median([run["q"] for run in runs])) if runs else None}
    for name in ("empty_seconds", "warm_seconds"):
        seconds = [run[name] for run in runs]
        cold_row[name] = float(np.median(seconds)) if seconds else None
        cold_row[f"{name}_range"] = [min(seconds), max(seconds)] if seconds else None
    return cold_row


def process(asked: Mapping[str, Any], programs: str) -> dict[str, Any]:
    """Seconds from the start of a process to its draws, and their q; raises RuntimeError if it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "JAX_ENABLE_X64": "1",
        "JAX_COMPILATION_CACHE_DIR": programs,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", __name__, json.dumps(asked)]
    with TemporaryDirectory(prefix="gadabout-cold-") as folder:
        errors = Path(folder) / "stderr"
        with errors.open("w") as stderr:
            began = time.perf_counter()
            running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)
            assert running.stdout is not None
            with running, running.stdout as lines:
                drawn = next((line.split()[1:] for line in lines if line.startswith(DRAWN)), None)
                seconds = time.perf_counter() - began
                last = lines.read().strip()
        if running.returncode or drawn is None:
            said = errors.read_text().strip().splitlines() or ["it said nothing"]
            raise RuntimeError(f"{asked['peer']} on {asked['target']} failed in a process of its own: {said[-1]}")
    return {"seconds": seconds - float(drawn[0]), "q": float(last)}


def main(asked: str) -> None:
    """Entry point of a process: samples, prints the line that starts with `DRAWN`, and prints q."""
    wanted = json.loads(asked)
    import warnings

    from gadabout import targets
    from gadabout.lab.peers.peer_samplers import PEERS

    warnings.simplefilter("ignore")
    with targets.precision(wanted["target"]):
        model, peer = targets.model(wanted["target"], wanted["data_home"]), PEERS[wanted["peer"]]
        run = peer.prepare(model, wanted["chains"], wanted["draws"])
        began = time.perf_counter()
        drawn, seconds = run(wanted["seed"])
    print(DRAWN, time.perf_counter() - began - seconds, flush=True)
    from gadabout.lab.peers.samplers import quality

    print(quality(drawn)[0])


if __name__ == "__main__":
    main(sys.argv[1])
