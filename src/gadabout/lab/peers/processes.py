"""Throughput of several processes with one device each, and the share of time that sums over processes take."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from gadabout.programs import forget

ITERATIONS = 2_000
"""iterations of warm-up, and as many draws"""


def processes(
    target: str, counts: Sequence[int], chains: int, repeats: int, data_home: str | Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a row for each number of processes on this machine: medians over interleaved repeats of pooled gadMALA.

    `warmup` and `sampling` are thousands of iterations per second, summed over chains. `communication` is the share of
    the time of warm-up that sums over processes take, estimated by a run without sums, in which each process learns
    from its own chains; None for one process. Times do not include compilation.

    Raises RuntimeError if a process fails.
    """
    import numpy as np

    found: dict[int, list[dict[str, Any]]] = {count: [] for count in counts}
    for seed in range(repeats):
        for count in counts:
            found[count].append(_together(target, count, chains, seed, data_home))
    for count, runs in found.items():
        with_sums, without, sampling = (
            np.array([run[name] for run in runs]) for name in ("warmup", "warmup_without_sums", "sampling")
        )
        speed = lambda seconds: float(np.median(chains * ITERATIONS / seconds / 1_000))
        share = None if count == 1 else float(np.median(1 - without / with_sums))
        row = {"target": target, "processes": count, "chains": chains, "cores": os.cpu_count(), "repeats": repeats}
        yield row | {"warmup": speed(with_sums), "sampling": speed(sampling), "communication": share}


def _together(target: str, count: int, chains: int, seed: int, data_home: str | Path | None) -> dict[str, Any]:
    """Starts `count` processes and returns the measurement of the first."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    asked = {"target": target, "count": count, "chains": chains, "seed": seed, "port": port}
    asked |= {"data_home": None if data_home is None else str(data_home)}
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "JAX_NUM_CPU_DEVICES": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, json.dumps(asked | {"process": process})],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for process in range(count)
    ]  # fmt: skip
    said = [process.communicate() for process in started]
    for process, (_, error) in zip(started, said, strict=True):
        if process.returncode:
            raise RuntimeError(f"a process of {count} on {target} failed: {error[-2_000:]}")
    return json.loads(said[0][0].splitlines()[-1])


def _measure(asked: dict[str, Any]) -> dict[str, float]:
    """Seconds of one process: warm-up and sampling with sums over processes, and warm-up without them."""
    import warnings

    import jax

    if asked["count"] > 1:
        jax.distributed.initialize(f"localhost:{asked['port']}", asked["count"], asked["process"])
    from gadabout import targets
    from gadabout.algorithms import gad_mala
    from gadabout.api import sample

    warnings.simplefilter("ignore", UserWarning)
    model = targets.load(asked["target"], data_home=asked["data_home"])
    run = lambda: sample(
        model, sampler=gad_mala(), num_chains=asked["chains"], num_warmup=ITERATIONS, num_draws=ITERATIONS,
        seed=asked["seed"], devices=jax.devices(), record=["posterior"], progress=False,
    ).attrs  # fmt: skip
    told = run()
    found = {"warmup": told["seconds_warmup"], "sampling": told["seconds_sampling"]}
    forget()
    with mock.patch.object(jax.lax, "psum", lambda local, axis: local):
        return found | {"warmup_without_sums": run()["seconds_warmup"]}


if __name__ == "__main__":
    print(json.dumps(_measure(json.loads(sys.argv[1]))))
