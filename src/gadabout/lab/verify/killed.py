"""Processes that are killed, or stopped by Ctrl-C, at random moments: their runs resume to the same bits."""

import itertools
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.stored import LENGTHS, SEED, command, draws, lasting, programs, stopped

BATCH = 10
"""random moments per part"""


def _moments(sampler: str, kind: str, batch: int, count: int) -> dict[str, Any]:
    """Counts over `count` processes that get a signal at a random moment: those that lost nothing, and when it came."""
    random = np.random.default_rng([SEED, batch, kind == "kill"])
    found = {"right": 0, "in_time": 0, "in_warmup": 0, "wrong": []}
    with programs() as environment, tempfile.TemporaryDirectory(prefix="gadabout-killed-") as folder:
        whole = Path(folder) / "whole.zarr"
        lasting(sampler, whole, environment)
        length = lasting(sampler, Path(folder) / "again.zarr", environment)  # all is compiled by now
        expected = draws(whole)
        for i in range(count):
            path, after = Path(folder) / f"{i}.zarr", float(random.uniform(0, length))
            signum = signal.SIGKILL if kind == "kill" else signal.SIGINT
            in_time, status = stopped(sampler, path, environment, after, signum)
            seen = draws(path)
            right = np.array_equal(seen, expected[:, : seen.shape[1]])
            if kind == "kill":
                done = subprocess.run(command("resume", path, "--quiet"), env=environment, capture_output=True)
                right &= done.returncode == 0 and np.array_equal(draws(path), expected)
            else:
                over = seen.shape == expected.shape  # at its exit, Python leaves signals to the system
                right &= status in ((0, 130, -signum) if over else (0, 130))
            found["right"] += bool(right)
            found["in_time"] += in_time
            found["in_warmup"] += seen.shape[1] == 0
            if not right:
                found["wrong"].append(f"{after:.3f} s, status {status}, {seen.shape[1]} draws")
    return found


def _found(full: bool, store: Parts) -> Found:
    count, figures, lost = (100 if full else 2), [], 0
    words = {"kill": "killed (SIGKILL), then resumed to the same bits", "stop": "Ctrl-C: draws kept"}
    for sampler, kind in itertools.product(LENGTHS, words):
        parts, left = [], count
        for batch in range(-(-count // BATCH)):
            size = min(BATCH, left)
            left -= size
            settings = {"kind": kind, "batch": batch, "count": size, "lengths": LENGTHS[sampler], "seed": SEED}
            make = lambda k=kind, b=batch, s=size, sampler=sampler: _moments(sampler, k, b, s)
            parts.append(store.part(f"killed-{sampler.partition(':')[0]}-{kind}", settings, make))
        right, early = sum(part["right"] for part in parts), sum(part["in_time"] for part in parts)
        wrong, what = "; ".join(line for part in parts for line in part["wrong"]), f"{sampler} {words[kind]}"
        figures.append(Figure(what, f"{right} of {count}", "all", right == count, wrong))
        warm, lost = sum(part["in_warmup"] for part in parts), lost + count - right
        figures.append(Figure("of these before the run's end, and before its first draw", f"{early}, {warm}"))
    runs = count * len(LENGTHS)
    return Found(figures, f"{lost} of {runs} killed and {runs} stopped runs lost something")


KILLED = Item(
    "killed",
    "Processes that are killed or stopped",
    "state that is not in the checkpoint, draws counted twice or left out after a resume, files written in place, "
    "chains mixed up when they are read back",
    _found,
)
