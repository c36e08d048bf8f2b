"""The progress of a stored run, read from its store while the run writes it, or afterwards."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gadabout.findings.draws import judge
from gadabout.store.arrays import HIDDEN, opened
from gadabout.store.integrity import check_store
from gadabout.store.runs import manifest_of, obstacle
from gadabout.store.sink import STATUS, in_use

STOPPED = ("running", "interrupted", "failed")
"""endings of a run that still has draws to make"""


@dataclass(frozen=True)
class Status:
    """The progress of a run; `ending` is "running" until it has ended, even if its process is dead (see `running`)."""

    model: str
    sampler: str
    seed: int
    num_chains: int
    num_draws: int
    running: bool
    ending: str
    draws: int
    """stored draws of each chain"""
    stage: str = ""
    done: int = 0
    total: int = 0
    """`done`: iterations of the stage that are made. `total`: iterations of the stage."""
    seconds: float = 0.0
    seconds_left: float = float("nan")
    rhat_max: float | None = None
    """largest R-hat of the draws stored so far; None for fewer than 4, or if nothing moves"""
    ess_min: float | None = None
    """smallest of bulk and tail ESS, over all coordinates"""
    obstacle: str = ""
    """the reason why a stopped run cannot continue; empty if it can"""


def status_of(path: str | os.PathLike) -> Status:
    """The progress of a stored run.

    Raises FileNotFoundError or StoreError if there is none, or if its draws are missing or damaged.
    """
    store = Path(path)
    manifest, running = manifest_of(store), in_use(store)
    check_store(store, manifest)
    tree = opened(store)
    posterior = tree["posterior"].to_dataset() if "posterior" in tree.children else None
    draws = 0 if posterior is None else posterior.sizes["draw"]
    rhat, ess = None, None
    if posterior is not None and draws >= 4:
        verdict = judge(posterior)
        known = ~np.isnan(verdict.rhat)
        if known.any():
            rhat, ess = float(verdict.rhat[known].max()), float(verdict.ess[known].min())
    settings, ending = manifest.settings, str(tree.attrs.get("ending", "running"))
    why = "" if running or ending not in STOPPED else obstacle(store, manifest)
    return Status(
        manifest.model["name"], manifest.plan["name"], manifest.seed, settings["num_chains"], settings["num_draws"],
        running, ending, draws, rhat_max=rhat, ess_min=ess, obstacle=why, **_progress(store / HIDDEN / STATUS),
    )  # fmt: skip


def _progress(file: Path) -> dict[str, Any]:
    """The progress that a run noted last; empty if it noted none, or if the file is damaged."""
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
        known = {"stage": str(plain["stage"]), "done": int(plain["done"]), "total": int(plain["total"])}
        known["seconds"] = float(plain["seconds"])
        if rate := float(plain.get("iterations_per_second") or 0):
            known["seconds_left"] = (known["total"] - known["done"]) / rate
        return known
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
