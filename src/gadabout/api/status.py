"""How far a stored run is, read from its store while it is being written, or afterwards."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gadabout.api.stored import manifest_of
from gadabout.api.verdict import judge
from gadabout.store.arrays import HIDDEN, opened
from gadabout.store.sink import STATUS, in_use


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


def status_of(path: str | os.PathLike) -> Status:
    """How far a stored run is; raises FileNotFoundError or StoreError where there is none."""
    store = Path(path)
    manifest, tree = manifest_of(store), opened(store)
    posterior = tree["posterior"].to_dataset() if "posterior" in tree.children else None
    draws = 0 if posterior is None else posterior.sizes["draw"]
    rhat, ess = None, None
    if posterior is not None and draws >= 4:
        verdict = judge(posterior)
        known = ~np.isnan(verdict.rhat)
        if known.any():
            rhat, ess = float(verdict.rhat[known].max()), float(verdict.ess[known].min())
    plain = {}
    if (store / HIDDEN / STATUS).exists():
        plain = json.loads((store / HIDDEN / STATUS).read_text(encoding="utf-8"))
    names = ("stage", "done", "total", "seconds")
    known = {name: plain[name] for name in names if name in plain}
    if plain.get("iterations_per_second"):
        known["seconds_left"] = (plain["total"] - plain["done"]) / plain["iterations_per_second"]
    settings = manifest.settings
    return Status(
        manifest.model["name"], manifest.plan["name"], manifest.seed, settings["num_chains"], settings["num_draws"],
        in_use(store), tree.attrs.get("ending", "running"), draws, rhat_max=rhat, ess_min=ess, **known,
    )  # fmt: skip
