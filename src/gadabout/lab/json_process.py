"""A module of the laboratory as a process of its own, which takes JSON and prints JSON."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def answer(what: str, module: str, asked: object, environment: Mapping[str, str], limit: float | None = None) -> Any:
    """Runs `python -m module`, with `asked` as JSON for its argument, and returns the JSON of its last line.

    Args:
        what: name of the work in the error.
        environment: variables that are added to those of this process.
        limit: seconds after which the process is ended.

    Raises:
        RuntimeError: with `what` and the last line of its stderr, if the process fails.
        subprocess.TimeoutExpired: after `limit` seconds.
    """
    command = [sys.executable, "-W", "ignore", "-m", module, json.dumps(asked)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=limit)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"{what} failed in a process of its own: {said[-1]}")
    return json.loads(done.stdout.splitlines()[-1])
