"""The result of a run as an xarray.DataTree in the ArviZ schema."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np

from gadabout.driver import Ending, Engine, Failed, Interrupted
from gadabout.model import AbstractModel
from gadabout.sampler import theta_by_name

if TYPE_CHECKING:
    import xarray as xr

GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats", "log_likelihood")

LAGGING = 0.1
"""a chain that accepts less than this share of what the median chain accepts is reported"""


class RunStopped(RuntimeError):
    """A run could not go on; `result` holds the draws made until then, as `sample` would have returned them."""

    def __init__(self, reason: str, result: "xr.DataTree"):
        super().__init__(f"{reason}; the draws made until then are in this error's `result`")
        self.result = result


def to_datatree(engine: Engine, ending: Ending, model: AbstractModel, attributes: dict[str, Any]) -> "xr.DataTree":
    """The groups of the sink, `learned` and `observed_data`, with the run's account in the attributes.

    `learned` holds θ by its path in the kernel, with a leading chain axis where each chain learned its own.
    """
    import arviz_base  # takes a while to import, xarray too: only where there is a result
    import xarray as xr

    groups = {name: engine.records.sink.read(name) for name in GROUPS}
    groups = {name: values for name, values in groups.items() if values}
    posterior, stats = groups.get("posterior"), groups.get("sample_stats")
    if posterior is None and stats is None:  # an interruption before the first draw
        groups |= engine.records.nothing(engine.settings.num_chains)
    tree = arviz_base.from_dict(
        groups | ({"observed_data": dict(model.observed)} if model.observed else {}),
        save_warmup=True,
        check_conventions=False,
        dims=dict(model.dims) or None,
        coords=dict(model.coords) or None,
    )
    tree["learned"] = xr.DataTree(_learned(engine))
    sampler, account = engine.sampler, engine.pipeline.account
    said = model.account(engine.pipeline.feed)
    tree.attrs = {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "gadabout",
        "inference_library_version": version("gadabout"),
        "sampler": engine.plan.name,
        "adaptation": sampler.adaptation_ends,
        "exact": sampler.exact,
        "bias": "; ".join(part for part in (sampler.bias, said.pop("estimated", "")) if part),
        "sampler_settings": eqx.tree_pformat(sampler, short_arrays=False),
        **attributes,
        **said,
        **{f"seconds_{name}": seconds for name, seconds in account.seconds.items()},
        "gradient_evaluations": account.gradient_evaluations,
        "ending": type(ending).__name__.lower(),
        "interrupted": isinstance(ending, Interrupted),
        "warnings": warnings_of(ending, stats or {}) + bounds_met(engine.verdict()),
    }
    return tree


def warnings_of(ending: Ending, stats: dict[str, np.ndarray]) -> list[str]:
    """What a reader of the draws must know: interruption, chains that never moved, proposals that were not finite."""
    found = []
    if isinstance(ending, Interrupted):
        found.append("the run was interrupted: it holds the draws made until then")
    if isinstance(ending, Failed):
        found.append(f"the run stopped early: {ending.reason}")
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


BOUNDS = {
    "beta_at_cap": "β, the weight of the entropy, ended at its ceiling: proposals can still grow; use more warm-up",
    "beta_at_floor": "β, the weight of the entropy, ended at its floor: too little is accepted; use more warm-up",
    "factor_at_floor": "the learned factor ended at its floor: a direction has collapsed, or the density has "
    "a very narrow one; look at the smallest ESS, use a larger `scale`, or another start",
}


def bounds_met(verdict: dict[str, np.ndarray]) -> list[str]:
    """What a reader must know of how learning ended; keys may have the number of a part after their name."""
    met = [name for name, value in verdict.items() if np.any(value)]
    return [message for bound, message in BOUNDS.items() if any(name.startswith(bound) for name in met)]


def _learned(engine: Engine) -> "xr.Dataset":
    import xarray as xr

    kernel = engine.settled()
    if kernel is None:
        return xr.Dataset()
    per_chain, variables = not engine.settings.pooled and engine.settings.num_chains > 1, {}
    for name, leaf in theta_by_name(kernel).items():
        values, leading = (np.asarray(leaf), ["chain"]) if per_chain else (np.asarray(leaf)[0], [])
        axes = [f"{name}_dim_{i}" for i in range(values.ndim - len(leading))]
        variables[name] = ([*leading, *axes], values)
    return xr.Dataset(variables)
