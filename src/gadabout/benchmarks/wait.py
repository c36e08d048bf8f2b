"""What a user waits for: seconds from the start of a process to the finished result of the default.

Each run is a process of its own in which JAX's cache is off, in double precision: it imports, reads data, compiles,
learns, makes 16 × 1,000 draws and works out their diagnostics. Beside it stands the *floor*: a process that imports JAX
and gadabout, reads the same data, compiles the value and the gradient of the log density of 16 rows, with JAX's own
options, and calls that once. Nothing but Python's bytecode outlives a process. The clock starts before the process and
stops at the line that it writes when its work is done; how long it takes to exit does not count.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from gadabout.files import PACKAGE

TARGETS = ("ripley", "neal", "german", "pima", "heart", "australian")
DONE = "done"
"""the line that a process writes when it is done"""
BEGIN = """
import json, sys
import jax
import gadabout
from gadabout import targets

name, data_home, seed = json.loads(sys.argv[1])
jax.config.update("jax_enable_x64", True)
problem = targets.load(name, data_home)
"""
PROGRAMS = {
    "floor": """
import numpy as np

gradients = jax.jit(jax.vmap(jax.value_and_grad(problem.log_density), (0, None)))
jax.block_until_ready(gradients(np.zeros((16, problem.dim)), problem.data))
""",
    "default": """
tree = gadabout.sample(problem, seed=seed, num_chains=16, num_draws=1_000, progress=False)
assert dict(tree["posterior"].sizes)["draw"] == 1_000 and len(tree["diagnostics"])
""",
}
"""what a process does after `BEGIN`"""

Run = Callable[[str, list, Path], float]
"""of a name of `PROGRAMS`, its arguments and the folder that holds the package: the seconds of a process"""


def process(program: str, arguments: list, source: Path) -> float:
    """Seconds from the start of a Python process to the end of its work; raises RuntimeError where it fails."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(source), "JAX_ENABLE_COMPILATION_CACHE": "false"}
    text = f"{BEGIN}{PROGRAMS[program]}print({DONE!r}, flush=True)"
    command = [sys.executable, "-P", "-W", "ignore", "-c", text, json.dumps(arguments)]
    began = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        done = any(line.strip() == DONE for line in iter(running.stdout.readline, ""))
        seconds = time.perf_counter() - began
        _, errors = running.communicate()
    if running.returncode or not done:
        said = errors.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"{program} on {arguments[0]} failed in a process of its own: {said[-1]}")
    return seconds


def source_of(checkout: Path) -> Path:
    """The folder of a checkout that holds the package; raises ValueError where there is none."""
    for folder in (checkout, checkout / "src"):
        if (folder / PACKAGE.name / "__init__.py").exists():
            return folder.resolve()
    raise ValueError(f"{str(checkout)!r} holds no {PACKAGE.name}; name a checkout of this repository, or its src")


def wait(
    names: Sequence[str],
    repeats: int,
    data_home: str | Path | None = None,
    against: Path | None = None,
    run: Run = process,
) -> list[dict[str, Any]]:
    """A row for each target: medians and ranges over repeats, which are interleaved, and ratios of medians.

    Args:
        names: of the paper's targets.
        repeats: processes of each kind, with seeds from 1 on, after one that is not counted and leaves bytecode.
        data_home: the folder of data files.
        against: another checkout, whose default is run as well.
        run: what runs a process.
    """
    ours, home = PACKAGE.parent, None if data_home is None else str(data_home)
    kinds = {"floor": ("floor", ours), "default": ("default", ours)}
    kinds |= {} if against is None else {"against": ("default", source_of(against))}
    for program, source in kinds.values():
        run(program, [names[0], home, 0], source)
    rows = []
    for name in names:
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        for seed in range(1, repeats + 1):
            for kind, (program, source) in kinds.items():
                seconds[kind].append(run(program, [name, home, seed], source))
        row: dict[str, Any] = {"target": name}
        for kind, each in seconds.items():
            row |= {kind: median(each), f"{kind}_range": [min(each), max(each)]}
            row |= {f"ratio_to_{kind}": median(seconds["default"]) / row[kind]} if kind != "default" else {}
        rows.append(row)
    return rows
