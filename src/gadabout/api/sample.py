"""The front door: one call from a model to draws."""

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
        model: log π of a position, or of (position, data); a scalar, written in JAX. Or a `Model` with more than that;
            or `Minibatches`, for a sampler that takes gradients estimated from a batch of rows (`lp` is then estimated
            as well).
        init: one position (each chain starts at it plus N(0, I), as in the paper), or a function of a key that draws
            one. A position is any pytree of floating-point arrays; a dict's keys name the variables, a bare array is
            `x`. May be left out where the model has a start of its own, or there is a `warm_start`.
        init_per_chain: in place of `init`, one position for each chain, along a leading axis of every leaf; chains
            start exactly there.
        sampler: a recipe such as `gad_mala()`, or a `Plan` such as `default()`, which is taken where none is given.
        data: a pytree of arrays handed to the log density. Other data of the same shape compile nothing anew.
        dims: names of the dimensions of variables, by variable.
        coords: coordinates along named dimensions.
        seed: an integer below 2³²; the same seed gives the same draws, bit by bit, on the same machine.
        num_chains: chains, which advance together; 16 by default for `default()` and 4 for a recipe.
        num_warmup: iterations in which θ is learned, left out of the posterior; the sampler's own number by default.
            `default()` ends them itself, after 1,000 at most by default; the attribute `num_warmup` says how many it
            made.
        num_draws: draws kept of each chain.
        thinning: iterations for each kept draw. In warm-up, every `thinning`-th iteration is kept.
        adapt: "pooled" learns one θ from the mean of all chains' gradients, "per-chain" one for each chain of a recipe;
            those of `default()` always learn together.
        devices: over how many of JAX's devices, or over which, chains are laid in equal parts; JAX's default device
            where none is named. Those of a recipe talk to each other only where pooled adaptation sums what chains saw;
            those of `default()` evaluate the log density and its gradient for the host.
        chain_block: how many chains one program works on at a time: all of a device's by default, but one where a CPU
            makes trajectories of `nuts()` on a log density of few operations. Where it is given, draws have the same
            bits over any number of devices (few samplers excepted, whose chains learn together); else they agree to
            rounding, until a decision flips, and then in law.
        record: what to keep, by name: "posterior", "warmup_posterior", and statistics such as "lp"; all by default.
        until: ends the run once its draws are good enough; `num_draws` is then the most that is made.
        out: a zarr store, such as "run.zarr", to which draws go chunk by chunk: any program can open it at any moment,
            memory stays flat in the number of draws, and a run that is killed goes on by `resume`.
        progress: whether to show progress on stderr: one live line in a terminal, else a log line now and then.
        warm_start: a result of this function for the same variables: chains start where its chains stood, kernels
            with what it learned; combine it with a small `num_warmup`.
        callback: called with a `Progress` between chunks of iterations.

    Returns:
        A tree with the groups `posterior`, `sample_stats` and their warm-up twins, dimensions (chain, draw, ...), and
        `learned` (θ), and `diagnostics` (R-hat, bulk and tail ESS of every variable). Attributes hold seed, settings,
        seconds, gradient evaluations, how the run ended, and whether the chains are exact; if not, `bias` says why.
        What speaks against the draws stands in `findings`, as records, and `warnings`, in words, which are also raised
        as warnings (`DiagnosticWarning` for judgements of the draws). Ctrl-C ends the run early and returns the draws
        made until then. With `out` the tree is that of the store, whose draws are read as they are asked for.

    Raises:
        ValueError, TypeError: for an argument out of range or of the wrong shape, a log density that is not a scalar,
            cannot be evaluated or differentiated, or is not finite at the start in 100 tries.
        MemoryError: where the draws would not fit into memory.
        FileExistsError, FileNotFoundError, OSError: if `out` cannot be written, or the draws would not fit on the disk.
        RunStopped: if a position becomes infinite or NaN, which only chains that never reject can let happen, an
            iterator of batches ends, `callback` raises, or the disk is full; its `result` holds the draws made until
            then, which are in `out` too.
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
    selection(record, list)  # what is wrong with it is told before there is a store
    check_alike(model, plan, settings, seed, record)
    if destination is not None:
        new = lambda: begin(destination, model, plan, given, settings, seed, record, learned, starts.tries)
        sink = sink_for(settings, destination, new)
    return carry_out(
        model, plan, settings, seed, sink, starts, learned,
        record=record, progress=progress, callback=observer, began=began,
    )  # fmt: skip


def _settings(plan: Plan, num_chains, num_warmup, num_draws, thinning, adapt, until, devices, chain_block) -> Settings:
    """The numbers that are asked of a run, checked."""
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
    """The model laid out, where chains start, and what is known of the target before."""
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
