"""The result of a run as an xarray.DataTree in the ArviZ schema."""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from gadabout.api.learned import learned_by_name
from gadabout.api.predictive import posterior_predictive
from gadabout.driver import Ending, Engine, Failed, Interrupted
from gadabout.files import json_value
from gadabout.findings import Finding, note
from gadabout.findings.adapting import constant_gain
from gadabout.findings.divergences import cut_short, with_variables
from gadabout.findings.draws import Verdict, as_tree, draws_of, found_in_draws, judge
from gadabout.findings.energies import slow_energies
from gadabout.findings.heavy_tails import heavy_tails
from gadabout.findings.offsets import far_from_zero
from gadabout.findings.run import all_frozen, few_starts, found_in_run, unseen_modes, unsettled
from gadabout.findings.supports import MOST_OUTSIDE, border, probe, undefined_gradients
from gadabout.findings.unexplored import stays, unexplored
from gadabout.model import AbstractModel
from gadabout.store import ZarrSink
from gadabout.store.integrity import FIGURES

if TYPE_CHECKING:
    import xarray as xr

GROUPS = ("posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats", "unconstrained_posterior",
          "log_likelihood")  # fmt: skip
PROBED = 500
"""draws of a recipe at which its density is evaluated again if many proposals were not finite"""


class RunStopped(RuntimeError):
    """The run could not continue; `result` holds the draws made until then, as `sample` would have returned them."""

    def __init__(self, reason: str, result: "xr.DataTree"):
        super().__init__(f"{reason}; the draws made until then are in this error's `result`")
        self.result = result


def to_datatree(engine: Engine, ending: Ending, model: AbstractModel, attributes: dict[str, Any]) -> "xr.DataTree":
    """The groups of the sink, `learned` and `observed_data`, with an account of the run in the attributes.

    `learned` holds θ by its path in the kernel (see `learned_by_name`). `diagnostics` holds R-hat and ESS of every
    variable: one group of these variables for each figure. `posterior_predictive` is present if the model draws data.
    """
    import xarray as xr

    from gadabout.api.tree import Result  # imported only when there is a result, like xarray

    sink = engine.records.sink
    tree = _stored(engine, sink) if isinstance(sink, ZarrSink) else _in_memory(engine, model)
    tree["learned"] = xr.DataTree(learned_by_name(engine, model))
    account, about = engine.pipeline.account, engine.plan.about
    said = model.account(engine.feed)
    tree.attrs = {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "gadabout",
        "inference_library_version": version("gadabout"),
        "sampler": engine.plan.name,
        **about,
        "bias": "; ".join(part for part in (about["bias"], said.pop("estimated", "")) if part),
        **attributes,
        **said,
        **({"choice": engine.evidence} if engine.evidence else {}),
        **{f"seconds_{name}": seconds for name, seconds in account.seconds.items()},
        **({"num_warmup": made} if (made := engine.evidence.get("warmup_iterations")) is not None else {}),
        "gradient_evaluations": account.gradient_evaluations,
        "ending": type(ending).__name__.lower(),
        "interrupted": isinstance(ending, Interrupted),
    }
    note(tree, _found(engine, ending, tree))
    if model.predicts and "posterior" in tree.children and tree["posterior"].sizes["draw"]:
        tree["posterior_predictive"] = posterior_predictive(tree, model, seed=attributes["seed"])
    if isinstance(sink, ZarrSink):
        _keep(tree, sink, model)
    return Result(tree.to_dataset(), tree.children)


def _in_memory(engine: Engine, model: AbstractModel) -> "xr.DataTree":
    """The draws in memory as a tree."""
    import arviz_base  # slow to import, as is xarray: only when there is a result

    groups = {name: engine.records.sink.read(name) for name in GROUPS}
    groups = {name: values for name, values in groups.items() if values}
    if not {"posterior", "sample_stats"} & set(groups):  # an interruption before the first draw
        groups |= engine.nothing()
    return arviz_base.from_dict(
        groups | _given(model),
        save_warmup=True,
        check_conventions=False,
        dims=dict(model.dims) or None,
        coords=dict(model.coords) or None,
    )


def _stored(engine: Engine, sink: ZarrSink) -> "xr.DataTree":
    """The draws in a store as a tree."""
    import arviz_base

    tree = sink.tree()
    if not {"posterior", "sample_stats"} & set(tree.children):
        nothing = arviz_base.from_dict(engine.nothing(), check_conventions=False)
        tree = tree.assign({str(name): group for name, group in nothing.children.items()})
    return tree


def _keep(tree: "xr.DataTree", sink: ZarrSink, model: AbstractModel) -> None:
    """Writes the other groups of a result to the store of its draws; a failure becomes a finding of the result."""
    import arviz_base

    if sink.failed:
        return
    try:
        if given := _given(model):
            made = arviz_base.from_dict(given, dims=dict(model.dims) or None, coords=dict(model.coords) or None)
            for name in given:
                tree[name] = made[name]
        sink.finish(tree, FIGURES, json_value(tree.attrs))
    except OSError as error:
        problem = f"the result could not be finished at {str(sink.path)!r}: {error}"
        note(tree, [Finding("not-saved", problem, "all draws are there; free some space, and resume the run")])


def _given(model: AbstractModel) -> dict[str, dict[str, Any]]:
    """The groups of the data that the model has: observed and constant ones, if there are any."""
    groups = {"observed_data": dict(model.observed), "constant_data": dict(model.constant)}
    return {name: group for name, group in groups.items() if group}


def _found(engine: Engine, ending: Ending, tree: "xr.DataTree") -> list[Finding]:
    """The findings on a run and its draws; adds the R-hat and ESS behind them to the tree, as `diagnostics`."""
    posterior = tree.children.get("posterior")
    kept = [tree.children[name].sizes["draw"] for name in ("posterior", "sample_stats") if name in tree.children]
    draws = kept[0] if kept else engine.settings.num_draws  # the latter if only warm-up is recorded
    stats = Statistics(tree)
    outside = _outside(engine, ending, stats, posterior)
    how: dict[str, Any] = {"choice": engine.evidence, "pooled": engine.settings.pooled}
    found = outside + found_in_run(ending, engine.settings.until, draws, stats, engine.verdict(), bool(outside), **how)
    found += few_starts(engine.evidence.get("distinct_starts"), engine.settings.num_chains) + unsettled(engine.evidence)
    if posterior is None or not draws:
        return found
    if not engine.plan.on_host:
        settings = engine.settings
        iterations = draws * settings.thinning
        found += constant_gain(engine.sampler.adaptation, settings.num_warmup, iterations)
    dataset = posterior.to_dataset()
    verdict = judge(dataset)
    tree["diagnostics"] = as_tree(verdict, dataset)
    found += unseen_modes(engine.evidence, verdict.names)
    found = with_variables(found, dataset, stats, verdict.names) + cut_short(dataset, stats, verdict.names)
    tails = heavy_tails(dataset, verdict, _known_tails(engine, verdict.names))
    found += far_from_zero(dataset, verdict) + slow_energies(stats) + stays(stats, engine.evidence)
    found += [] if isinstance(ending, Failed) else _unexplored(engine, dataset, stats, verdict)
    return found if all_frozen(stats) else found + found_in_draws(dataset, verdict) + tails


def _unexplored(
    engine: Engine, posterior: "xr.Dataset", stats: Mapping[str, np.ndarray], verdict: Verdict
) -> list[Finding]:
    """Findings on mass farther out than the draws, if they are made on the host and variables are the coordinates."""
    if not engine.plan.on_host or "lp" not in stats or len(verdict.names) != engine.density.dim:
        return []
    flat = _rows(posterior, verdict.spacing)
    return unexplored(engine.density, flat, stats["lp"][:, :: verdict.spacing].ravel().astype(float), verdict.names)


def _rows(posterior: "xr.Dataset", spacing: int) -> np.ndarray:
    """Every `spacing`-th draw of all chains and all variables, shape (draws, n)."""
    each = [draws_of(variable, spacing).astype(float) for variable in posterior.data_vars.values()]
    return np.concatenate(each, 2).reshape(-1, sum(part.shape[2] for part in each))


def _known_tails(engine: Engine, names: list[str]) -> dict[str, float]:
    """The indices of heavy tails that the ascent found, by the names of variables where these are the coordinates."""
    labels, known = engine.starts.layout.labels, engine.evidence.get("heavy_tails", {})
    own = dict(zip(labels, names, strict=True)) if len(labels) == len(names) else {}
    return {str(own.get(label, label)): float(k) for label, k in known.items()}


def _outside(
    engine: Engine, ending: Ending, stats: Mapping[str, np.ndarray], posterior: "xr.DataTree | None"
) -> list[Finding]:
    """Findings on undefined gradients and on borders; for a recipe only if proposals are often not finite."""
    names = engine.starts.layout.labels
    if not engine.plan.on_host:
        events = None if isinstance(ending, Failed) else stats.get("nonfinite")
        if events is None or not events.size or not events.mean() > MOST_OUTSIDE or posterior is None:
            return []
        layout = engine.starts.layout
        whole = any(np.issubdtype(kind, np.integer) for kind in layout.dtypes)  # transforms do not help with integers
        if layout.transforms or engine.feed is not None or whole:
            return []
        spacing = max(1, events.size // PROBED)
        x = _rows(posterior.to_dataset(), spacing)
        if x.shape[1] != engine.density.dim:
            return []
        probe(engine.density, x)
        return undefined_gradients(engine.density, {}, names) + border(engine.density, stats, x, names)
    known = not isinstance(ending, Failed) and "handover" in engine.progress
    x = engine.progress["handover"]["x"] if known else None
    return undefined_gradients(engine.density, engine.evidence, names) + border(engine.density, stats, x, names)


class Statistics(Mapping[str, np.ndarray]):
    """The statistics of the draws by name, shape (chain, draw) each; each is read on access."""

    def __init__(self, tree: "xr.DataTree"):
        kept = "sample_stats" in tree.children
        self.variables = {str(name): values for name, values in tree["sample_stats"].data_vars.items()} if kept else {}

    def __getitem__(self, name):
        return self.variables[name].values

    def __iter__(self):
        return iter(self.variables)

    def __len__(self):
        return len(self.variables)
