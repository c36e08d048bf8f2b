"""How far a stored run is, read from its store while it is being written, or afterwards."""

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
"""endings of a run that has draws left to make"""


@dataclass(frozen=True)
class Status:
    """How far a run is; `ending` is "running" until it has ended, even where its process is dead (`running`)."""

    model: str
    sampler: str
    seed: int
    num_chains: int
    num_draws: int
    running: bool
    ending: str
    draws: int
    """of each chain, stored"""
    stage: str = ""
    done: int = 0
    total: int = 0
    """iterations of the stage"""
    seconds: float = 0.0
    seconds_left: float = float("nan")
    rhat_max: float | None = None
    """of the draws stored so far; None for fewer than 4, or where nothing moves"""
    ess_min: float | None = None
    """the smallest of bulk and tail ESS"""
    obstacle: str = ""
    """why a run that has stopped cannot go on; empty where it can"""


def status_of(path: str | os.PathLike) -> Status:
    """How far a stored run is.

    Raises FileNotFoundError or StoreError where there is none, or draws of it are missing or damaged.
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
    """What a run has last noted of its progress; nothing where it has not, or the file is damaged."""
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
        known = {"stage": str(plain["stage"]), "done": int(plain["done"]), "total": int(plain["total"])}
        known["seconds"] = float(plain["seconds"])
        if rate := float(plain.get("iterations_per_second") or 0):
            known["seconds_left"] = (known["total"] - known["done"]) / rate
        return known
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
