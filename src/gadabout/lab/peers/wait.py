"""A user's waiting time: seconds from the start of a process to the finished result of the default.

Each run is a process of its own, in double precision and with JAX's cache off: it imports, reads data, compiles,
warms up, makes 16 × 1,000 draws and computes their diagnostics. It is compared with

- the *floor*: a process that imports JAX and gadabout, reads the same data, compiles the value and the gradient of the
  log density of 16 rows, with JAX's own options, and calls this function once;
- the *second* process: the default with the persistent cache of `gadabout sample`, which an earlier process has filled;
- the default of another checkout, if one is named, and the wait of peers for q = 1,000 (`lab.peers.peer_cold`).

The clock starts before the process, and stops at the line that the process prints when its work is done.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from gadabout.files import PACKAGE
from gadabout.lab.peers import OURS
from gadabout.lab.rows import Rows

TARGETS = ("ripley", "neal", "german", "pima", "heart", "australian")
DONE = "done"
"""line that a process prints when it is done"""
BEGIN = """
import json, sys
import jax
import gadabout
from gadabout import targets

name, data_home, seed = json.loads(sys.argv[1])
jax.config.update("jax_enable_x64", True)
problem = targets.load(name, data_home)
"""
DRAWS = """
tree = gadabout.sample(problem, seed=seed, num_chains=16, num_draws=1_000, progress=False)
assert dict(tree["posterior"].sizes)["draw"] == 1_000 and len(tree["diagnostics"])
"""
PROGRAMS = {
    "floor": """
import numpy as np

gradients = jax.jit(jax.vmap(jax.value_and_grad(problem.log_density), (0, None)))
jax.block_until_ready(gradients(np.zeros((16, problem.dim)), problem.data))
""",
    "default": DRAWS,
    "second": "from gadabout.cache import keep_for_commands\n\nkeep_for_commands()\n" + DRAWS,
}
"""code that a process runs after `BEGIN`, by name"""

Run = Callable[[str, list, Path, Path], float]
"""function of a name of `PROGRAMS`, arguments, the package's folder and that of caches; returns a process's seconds"""


def process(program: str, arguments: list, source: Path, caches: Path) -> float:
    """Seconds from the start of a Python process to the end of its work; raises RuntimeError if it fails."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "JAX_COMPILATION_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    cached = str(program == "second").lower()
    environment |= {"PYTHONPATH": str(source), "XDG_CACHE_HOME": str(caches), "JAX_ENABLE_COMPILATION_CACHE": cached}
    text = f"{BEGIN}{PROGRAMS[program]}print({DONE!r}, flush=True)"
    command = [sys.executable, "-P", "-W", "ignore", "-c", text, json.dumps(arguments)]
    with TemporaryFile("w+") as errors:
        began = time.perf_counter()
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as running:
            assert running.stdout is not None
            done = any(line.strip() == DONE for line in running.stdout)
            seconds = time.perf_counter() - began
        errors.seek(0)
        said = errors.read().strip().splitlines() or ["it said nothing"]
    if running.returncode or not done:
        raise RuntimeError(f"{program} on {arguments[0]} failed in a process of its own: {said[-1]}")
    return seconds


def source_of(checkout: Path) -> Path:
    """The folder of a checkout that holds the package; raises ValueError if there is none."""
    for folder in (checkout, checkout / "src"):
        if (folder / PACKAGE.name / "__init__.py").exists():
            return folder.resolve()
    raise ValueError(f"{str(checkout)!r} holds no {PACKAGE.name}; name a checkout of this repository, or its src")


def quickest(target: str, peers: Path) -> dict[str, Any]:
    """The peer that waits least for q = 1,000 in a file of `gadabout bench peers --cold`, with its median seconds."""
    waits: dict[str, list[float]] = {}
    for row in Rows(peers).rows:
        if row.get("start") == "process" and row["target"] == target and not row["peer"].startswith(OURS):
            waits.setdefault(row["peer"], []).append(row["empty_seconds"])
    if not waits:
        raise ValueError(f"{str(peers)!r} holds no process on {target}: run `gadabout bench peers {target} --cold`")
    name = min(waits, key=lambda peer: median(waits[peer]))
    return {"peer": median(waits[name]), "peer_range": [min(waits[name]), max(waits[name])], "peer_name": name}


def wait(
    names: Sequence[str],
    repeats: int,
    data_home: str | Path | None = None,
    against: Path | None = None,
    peers: Path | None = None,
    run: Run = process,
) -> list[dict[str, Any]]:
    """Returns a row for each target: medians and ranges over interleaved repeats, and ratios of medians.

    Args:
        names: names of the paper's targets.
        repeats: processes of each kind, with seeds from 1 on, after one that does not count and writes the bytecode.
        data_home: the folder of data files.
        against: another checkout, whose default is run as well.
        peers: a file of `gadabout bench peers --cold`, from the same machine.
        run: function that runs a process.
    """
    ours, home = PACKAGE.parent, None if data_home is None else str(data_home)
    kinds = {kind: (kind, ours) for kind in PROGRAMS}
    kinds |= {} if against is None else {"against": ("default", source_of(against))}
    rows = [{"target": name, **({} if peers is None else quickest(name, peers))} for name in names]
    for row in rows:
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        with TemporaryDirectory(prefix="gadabout-wait-") as caches:
            for seed in range(repeats + 1):
                for kind, (program, source) in kinds.items():
                    seconds[kind].append(run(program, [row["target"], home, seed], source, Path(caches)))
        row |= {kind: median(each[1:]) for kind, each in seconds.items()}
        row |= {f"{kind}_range": [min(each[1:]), max(each[1:])] for kind, each in seconds.items()}
        row |= {f"ratio_to_{other}": row["default"] / row[other] for other in (*kinds, "peer") if other in row}
    return rows
