"""The main entry point: one call from a model to draws."""

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from jaxtyping import PyTree

from gadabout.algorithms import default
from gadabout.api.checks import checked_model, checked_plan, laid_over, selection
from gadabout.api.flat import layout_from
from gadabout.api.mistaken import refuse_place, words_of_others
from gadabout.api.positions import starts_of
from gadabout.api.running import carry_out, check_alike, sink_for
from gadabout.api.warm import last_positions, learned_from, suited
from gadabout.checks import check_function, check_one_of, check_truth, check_whole
from gadabout.driver import MemorySink, Progress, Settings, Until
from gadabout.driver.devices import in_step
from gadabout.model import AbstractModel
from gadabout.sampler import Learned, Sampler, for_layout
from gadabout.schedule import Plan
from gadabout.starts import Starts
from gadabout.store.runs import begin, check_destination

if TYPE_CHECKING:
    import xarray as xr


@words_of_others
def sample(
    model: AbstractModel | Callable[..., Any],
    init: PyTree | Callable[[Any], PyTree] = None,
    *,
    init_per_chain: PyTree = None,
    sampler: Sampler | Plan | None = None,
    data: PyTree = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Any] | None = None,
    seed: int = 0,
    num_chains: int | None = None,
    num_warmup: int | None = None,
    num_draws: int = 1_000,
    thinning: int = 1,
    adapt: Literal["pooled", "per-chain"] = "pooled",
    devices: int | Sequence[Any] | None = None,
    chain_block: int | None = None,
    record: Collection[str] | None = None,
    until: Until | None = None,
    out: str | os.PathLike | None = None,
    progress: bool = True,
    warm_start: "xr.DataTree | None" = None,
    callback: Callable[[Progress], object] | None = None,
) -> "xr.DataTree":
    """Draws from a density known up to a constant.

    Args:
        model: log π of a position, or of (position, data): a scalar, written in JAX. Or a `Model`, which holds more
            than that; or `Minibatches`, for a sampler that takes gradients estimated from a batch of rows (`lp` is then
            an estimate too).
        init: one position (each chain starts at it plus N(0, I), as in the paper), or a function of a key that draws
            one. A position is any pytree of floating-point arrays; a dict's keys name the variables, a bare array is
            `x`. May be left out if the model has a start of its own, or if `warm_start` is given.
        init_per_chain: instead of `init`, one position for each chain, along a leading axis of every leaf; chains
            start exactly there.
        sampler: a recipe such as `gad_mala()`, or a `Plan` such as `default()`, which is used if none is given.
        data: a pytree of arrays passed to the log density. Other data of the same shape cause no new compilation.
        dims: names of the dimensions of variables, by variable.
        coords: coordinates along named dimensions.
        seed: an integer below 2³²; the same seed gives the same draws, bit by bit, on the same machine.
        num_chains: number of chains, which advance together; by default 16 for `default()` and 4 for a recipe.
        num_warmup: iterations in which θ is learned, left out of the posterior; the sampler's own number by default.
            `default()` ends warm-up itself, after at most 1,000 iterations by default; the attribute `num_warmup` is
            the number that it made.
        num_draws: draws kept of each chain.
        thinning: iterations for each kept draw. In warm-up, every `thinning`-th iteration is kept.
        adapt: "pooled" learns one θ from the mean of all chains' gradients, "per-chain" one for each chain of a recipe;
            the chains of `default()` always learn jointly.
        devices: number of JAX's devices, or a list of devices, among which chains are divided in equal parts; JAX's
            default device if None. With a recipe, devices communicate only where pooled adaptation sums over chains;
            with `default()` they evaluate the log density and its gradient for the host.
        chain_block: number of chains that one program advances at a time. By default all of a device's, but one if a
            CPU makes trajectories of `nuts()` on a log density of few operations. If it is given, draws have the same
            bits over any number of devices (except for a few samplers whose chains learn jointly); otherwise they
            agree to rounding until an accept decision differs, and after that in distribution.
        record: what to keep, by name: "posterior", "warmup_posterior", and statistics such as "lp"; all by default.
        until: ends the run once its draws are good enough; `num_draws` is then the largest number that is made.
        out: a zarr store, such as "run.zarr", to which draws are written chunk by chunk. Any program can open it at any
            time, memory does not grow with the number of draws, and `resume` continues a run that was killed.
        progress: whether to show progress on stderr: one live line in a terminal, otherwise occasional log lines.
        warm_start: a result of this function for the same variables: chains start at its last positions, kernels
            with what it learned. Combine it with a small `num_warmup`.
        callback: called with a `Progress` between chunks of iterations.

    Returns:
        A tree with the groups `posterior`, `sample_stats` and their warm-up counterparts, dimensions (chain, draw,
        ...), and `learned` (θ), and `diagnostics` (R-hat, bulk and tail ESS of every variable). Attributes hold seed,
        settings, seconds, gradient evaluations, how the run ended, and whether the chains are exact; if not, `bias`
        says why. Problems of the draws are in `findings`, as records, and in `warnings`, as text; they are also issued
        as warnings (`DiagnosticWarning` for judgements of the draws). Ctrl-C ends the run early and returns the draws
        made until then. With `out` the tree is that of the store, whose draws are read on access.

    Raises:
        ValueError, TypeError: if an argument is out of range or has the wrong shape, or if the log density is not a
            scalar, cannot be evaluated or differentiated, or is not finite at the start in 100 tries.
        MemoryError: if the draws would not fit into memory.
        FileExistsError, FileNotFoundError, OSError: if `out` cannot be written, or the draws would not fit on the disk.
        RunStopped: if a position becomes infinite or NaN (possible only for chains that never reject), an iterator of
            batches ends, `callback` raises, or the disk is full. Its `result` holds the draws made until then, which
            are in `out` too.
    """
    began = time.perf_counter()
    model = checked_model(model, data, dims, coords)
    given = default() if sampler is None else sampler
    plan = checked_plan(given)
    settings = _settings(plan, num_chains, num_warmup, num_draws, thinning, adapt, until, devices, chain_block)
    seed = check_whole("seed", seed, 0, 2**32 - 1)
    check_truth("progress", progress)
    observer = None if callback is None else check_function("callback", callback, "of a Progress")
    if out is not None and isinstance(out, str | os.PathLike):
        refuse_place(out)
    destination = None if out is None else in_step(settings.mesh, lambda: check_destination(out, settings.mesh))
    model.check(plan)
    model, starts, learned = _begin(model, plan, init, init_per_chain, warm_start, settings.num_chains)
    sink: Any = MemorySink()
    selection(record, list)  # errors in it are reported before there is a store
    check_alike(model, plan, settings, seed, record)
    if destination is not None:
        new = lambda: begin(destination, model, plan, given, settings, seed, record, learned, starts.tries)
        sink = sink_for(settings, destination, new)
    return carry_out(
        model, plan, settings, seed, sink, starts, learned,
        record=record, progress=progress, callback=observer, began=began,
    )  # fmt: skip


def _settings(plan: Plan, num_chains, num_warmup, num_draws, thinning, adapt, until, devices, chain_block) -> Settings:
    """The settings of a run, checked."""
    if num_warmup is None:
        num_warmup = plan.num_warmup
    if until is not None and not isinstance(until, Until):
        raise TypeError(f"until must be a rule such as gadabout.Until(ess=1_000), got {until!r}")
    num_chains = plan.num_chains if num_chains is None else check_whole("num_chains", num_chains)
    return Settings(
        num_chains,
        check_whole("num_warmup", num_warmup, 0),
        check_whole("num_draws", num_draws),
        check_whole("thinning", thinning),
        check_one_of("adapt", adapt, ("pooled", "per-chain")) == "pooled" or plan.on_host,
        until,
        laid_over(devices, chain_block, num_chains),
        chain_block,
    )


def _begin(
    model: AbstractModel, plan: Plan, init, init_per_chain, warm_start, num_chains: int
) -> tuple[AbstractModel, Starts, Learned | None]:
    """The model laid out, the starts of chains, and what a warm start learned of the target (None without one)."""
    discrete = plan.takes_discrete
    if warm_start is None:
        starts = starts_of(init, init_per_chain, model, num_chains, discrete)
        return model.laid_out(starts.layout), starts, None
    layout = model.layout
    if layout is None:
        given = init is not None or init_per_chain is not None
        layout = (
            starts_of(init, init_per_chain, model, num_chains, discrete).layout
            if given
            else layout_from(warm_start, model)
        )
    learned = suited(learned_from(warm_start, layout), warm_start, for_layout(plan, layout))
    if init is None and init_per_chain is None:
        init_per_chain = last_positions(warm_start, layout, num_chains)
    starts = starts_of(init, init_per_chain, model, num_chains, discrete)
    return model.laid_out(starts.layout), starts, learned
