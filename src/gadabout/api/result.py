"""The result of a run as an xarray.DataTree in the ArviZ schema."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import arviz_base
import equinox as eqx
import jax
import numpy as np
import xarray as xr

from gadabout.api.positions import Layout
from gadabout.driver import POSITION, History, Sampler

LAGGING = 0.1
"""a chain that accepts less than this share of what the median chain accepts is reported"""


class RunStopped(RuntimeError):
    """A run could not go on; `result` holds the draws made until then, as `sample` would have returned them."""

    def __init__(self, reason: str, result: xr.DataTree):
        super().__init__(f"{reason}; the draws made until then are in this error's `result`")
        self.result = result


def to_datatree(history: History, layout: Layout, sampler: Sampler, attributes: dict[str, Any]) -> xr.DataTree:
    """Groups posterior, sample_stats, warmup_posterior, warmup_sample_stats and learned, with the run's account.

    `learned` holds θ by its path in the kernel, with a leading chain axis where each chain learned its own.
    """
    groups: dict[str, dict[str, np.ndarray]] = {}
    for prefix, records in (("", history.sampling), ("warmup_", history.warmup)):
        records = dict(records)
        if POSITION in records:
            groups[f"{prefix}posterior"] = layout.split(records.pop(POSITION))
        if records:
            groups[f"{prefix}sample_stats"] = records
    tree = arviz_base.from_dict(groups, save_warmup=True, check_conventions=False)
    tree["learned"] = xr.DataTree(_learned(history))
    tree.attrs = {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "gadabout",
        "inference_library_version": version("gadabout"),
        "sampler": sampler.name,
        "adaptation": sampler.adaptation_ends,
        "exact": not sampler.bias,
        "bias": sampler.bias,
        "sampler_settings": eqx.tree_pformat(sampler, short_arrays=False),
        **attributes,
        **{f"seconds_{name}": seconds for name, seconds in history.seconds.items()},
        "gradient_evaluations": history.gradient_evaluations,
        "interrupted": history.interrupted,
        "warnings": warnings_of(history),
    }
    return tree


def warnings_of(history: History) -> list[str]:
    """What a reader of the draws must know: interruption, chains that never moved, proposals that were not finite."""
    found = []
    if history.interrupted:
        found.append("the run was interrupted: it holds the draws made until then")
    if history.failure is not None:
        found.append(f"the run stopped early: {history.failure}")
    stats = history.sampling
    if "acceptance_rate" in stats and stats["acceptance_rate"].size:
        rates = stats["acceptance_rate"].mean(1)
        stuck = np.flatnonzero(rates == 0)
        lagging = np.flatnonzero((rates > 0) & (rates < LAGGING * np.median(rates)))
        if len(lagging):
            found.append(
                f"chains {lagging.tolist()} accepted {rates[lagging].max():.1%} or less in the sampling stage, where "
                f"the median chain accepted {np.median(rates):.1%}; what was learned for the others does not suit "
                "them: look at their draws alone, or use adapt='per-chain'"
            )
        if len(stuck):
            found.append(
                f"chains {stuck.tolist()} accepted nothing in the sampling stage; their draws are one point repeated: "
                "use more warm-up, or another start"
            )
    for name, remedy in (
        ("nonfinite", "their log density or gradient was not finite and they were rejected; check the model's support"),
        ("diverging", "their energy grew without bound; use a smaller step size or a higher target_acceptance"),
    ):
        count = int(stats[name].sum()) if name in stats else 0
        if count:
            found.append(f"{count} of {stats[name].size} proposals in the sampling stage were {name}: {remedy}")
    return found


def _learned(history: History) -> xr.Dataset:
    pools = history.run.chain_keys.shape[0]
    theta = eqx.filter(history.run.pools.kernel, eqx.is_inexact_array)
    variables = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(theta):
        name = jax.tree_util.keystr(path).lstrip(".")
        values = np.asarray(leaf)
        leading = ["chain"] if pools > 1 else []
        values = values if pools > 1 else values[0]
        axes = [f"{name}_dim_{i}" for i in range(values.ndim - len(leading))]
        variables[name] = ([*leading, *axes], values)
    return xr.Dataset(variables)
