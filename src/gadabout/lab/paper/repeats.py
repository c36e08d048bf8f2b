"""One repeat: a method run on a target, reduced to the numbers of a table's row and the series that figures plot."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np
import xarray as xr

from gadabout import targets
from gadabout.api import sample
from gadabout.diagnostics import ess_table, spread
from gadabout.driver import Progress
from gadabout.lab.paper.methods import Method

TIMED = 2_000
"""largest number of iterations of each phase in the timing of one chain alone"""

RECORD = ["posterior", "lp", "acceptance_rate", "gradient_evaluations"]
Callback = Callable[[Progress], object]


@dataclass
class Repeat:
    """Results of a repeat: `account`, a dictionary of numbers and strings, and `series`, arrays by name."""

    account: dict[str, Any]
    series: dict[str, np.ndarray]


def run(problem: targets.Problem, method: Method, seeds: list[int], callback: Callback | None) -> list[Repeat]:
    """Runs one repeat per entry of `seeds`; several run together from the first seed, as chains that learn their own θ.

    Raises KeyboardInterrupt if the run was interrupted: only complete repeats are returned.
    """
    tree = _sample(problem, method, seeds[0], len(seeds), method.num_warmup, method.num_draws, callback)
    draws = np.asarray(tree["posterior"]["x"].values)
    stats = tree["sample_stats"].dataset
    in_sampling = stats["gradient_evaluations"].values
    in_warmup = (tree.attrs["gradient_evaluations"] - in_sampling.sum()) / len(seeds)
    found = []
    for c in range(len(seeds)):
        account = {
            **_figures(draws[c], method.scale),
            "acceptance_rate": float(stats["acceptance_rate"].values[c].mean()),
            "gradients_per_draw": float(in_sampling[c].mean()),
            "gradient_evaluations": round(in_warmup + in_sampling[c].sum() * method.scale),
        }
        if not method.together:
            account |= _seconds(tree, method, method.num_warmup, method.num_draws)
        series = {"lp": stats["lp"].values[c], "last": draws[c, :, -1]}
        series = {name: values.astype(np.float32) for name, values in series.items()}
        if method.keep_factor:
            account["beta"] = float(tree["warmup_sample_stats"].dataset["beta"].values[c, -1])
        found.append(Repeat(account, series | _learned(tree, c, method.keep_factor)))
    return found


def time_alone(problem: targets.Problem, method: Method, seed: int, callback: Callback | None) -> Repeat:
    """Times one chain alone over `TIMED` iterations of each phase, scaled to the method's own lengths."""
    warmup, draws = min(TIMED, method.num_warmup), min(TIMED, method.num_draws)
    tree = _sample(problem, method, seed, 1, warmup, draws, callback)
    return Repeat(_seconds(tree, method, warmup, draws), {})


def made_by(method: Method) -> str:
    """All settings of a method, as text; a repeat that was made with other settings is run again."""
    sampler = eqx.tree_pformat(method.sampler(), short_arrays=False)
    start = " from 0" if method.start_at_zero else ""
    return f"{method.num_warmup} + {method.num_draws} iterations of {sampler}{start}"


def _sample(problem, method, seed, chains, num_warmup, num_draws, callback) -> xr.DataTree:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains that hardly move are part of the tables
        tree = sample(
            problem,
            init_per_chain=np.zeros((chains, problem.dim)) if method.start_at_zero else None,
            sampler=method.sampler(),
            seed=seed,
            num_chains=chains,
            num_warmup=num_warmup,
            num_draws=num_draws,
            adapt="per-chain",
            record=[*RECORD, "beta"] if method.keep_factor else RECORD,
            progress=False,
            callback=callback,
        )
    if tree.attrs["interrupted"]:
        raise KeyboardInterrupt
    return tree


def _figures(draws: np.ndarray, scale: float) -> dict[str, Any]:
    """Effective sample sizes of one chain, shape (draws, n), scaled to the paper's number of draws."""
    table = ess_table(draws[None])
    return {
        "ess": spread(table["paper"] * scale),
        "bulk_ess": spread(table["bulk"] * scale),
        "square_ess": spread(table["square"] * scale),
    }


def _seconds(tree: xr.DataTree, method: Method, warmup: int, draws: int) -> dict[str, Any]:
    """Seconds of warm-up and 20,000 draws without compilation, and seconds of compilation."""
    a = tree.attrs
    to_paper = method.num_draws / draws * method.scale
    seconds = a["seconds_warmup"] * method.num_warmup / warmup + a["seconds_sampling"] * to_paper
    return {"seconds": seconds, "compile_seconds": a["seconds_compile"]}


def _learned(tree: xr.DataTree, c: int, whole: bool) -> dict[str, np.ndarray]:
    """The parameters that chain `c` learned; only the diagonal of a dense factor, unless `whole` is True."""
    found = {}
    for name, variable in tree["learned"].data_vars.items():
        value = np.asarray(variable.values)
        value = value[c] if "chain" in variable.dims else value
        if value.ndim == 2 and not whole:
            value = np.diagonal(value)
        found[f"learned.{name}"] = value
    return found
