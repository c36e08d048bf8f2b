"""The front door: one call from a log density to draws."""

import os
import time
import warnings
from collections.abc import Callable, Collection
from typing import Any, Literal

import jax
import xarray as xr
from jaxtyping import PyTree

from gadabout.algorithms import gad_mala
from gadabout.api.checks import checked_data, checked_sampler, derivatives_needed, selection
from gadabout.api.minibatches import Minibatches
from gadabout.api.positions import Flat, proposer
from gadabout.api.result import RunStopped, to_datatree
from gadabout.api.save import check_destination, save
from gadabout.api.start import find_start
from gadabout.checks import check_function, check_one_of, check_whole
from gadabout.driver import Progress, Sampler, TextProgress, deferred_interrupt, drive, shapes, start
from gadabout.target import Target


def sample(
    logdensity: Callable[..., Any] | Minibatches,
    init: PyTree | Callable[[Any], PyTree],
    *,
    sampler: Sampler | None = None,
    data: PyTree = None,
    seed: int = 0,
    num_chains: int = 4,
    num_warmup: int | None = None,
    num_draws: int = 1_000,
    thinning: int = 1,
    adapt: Literal["pooled", "per-chain"] = "pooled",
    record: Collection[str] | None = None,
    out: str | os.PathLike | None = None,
    progress: bool = True,
    callback: Callable[[Progress], object] | None = None,
) -> xr.DataTree:
    """Draws from a density known up to a constant.

    Args:
        logdensity: log π of a position, or of (position, data); a scalar, written in JAX. Or `Minibatches`, for a
            sampler that takes gradients estimated from a batch of rows; `lp` is then estimated as well.
        init: one position (each chain starts at it plus N(0, I), as in the paper), one position per chain along a
            leading axis of every leaf (chains start exactly there), or a function of a key that draws one. A position
            is any pytree of floating-point arrays; a dict's keys name the variables, a bare array is `x`. What fits
            both readings is one per chain if it is a bare array of two or more axes, else one position.
        sampler: a recipe such as `gad_mala()`, the default.
        data: a pytree of arrays handed to `logdensity`. Other data of the same shape compile nothing anew.
        seed: an integer below 2³²; the same seed gives the same draws, bit by bit, on the same machine.
        num_chains: chains, which advance together as one vectorised program.
        num_warmup: iterations in which θ is learned, left out of the posterior; the sampler's own number by default.
        num_draws: draws kept of each chain.
        thinning: iterations for each kept draw. In warm-up, every `thinning`-th iteration is kept.
        adapt: "pooled" learns one θ from the mean of all chains' gradients, "per-chain" one for each chain.
        record: what to keep, by name: "posterior", "warmup_posterior", and statistics such as "lp"; all by default.
        out: a zarr store to save the result in, such as "run.zarr".
        progress: whether to show progress on stderr: one live line in a terminal, else a log line now and then.
        callback: called with a `Progress` between chunks of iterations.

    Returns:
        A tree with the groups `posterior`, `sample_stats` and their warm-up twins, dimensions (chain, draw, ...), and
        `learned` (θ). Attributes hold seed, settings, seconds, gradient evaluations, warnings, and whether the chains
        are exact; if not, `bias` says why. Ctrl-C ends the run early and returns the draws made until then.

    Raises:
        ValueError, TypeError: for an argument out of range or of the wrong shape, a log density that is not a scalar,
            cannot be evaluated or differentiated, or is not finite at the start in 100 tries.
        FileExistsError, FileNotFoundError: if `out` cannot be written.
        RunStopped: if a position becomes infinite or NaN, which only chains that never reject can let happen, or an
            iterator of batches ends; its `result` holds the draws made until then, saved in `out` too.
    """
    began = time.perf_counter()
    batches = logdensity if isinstance(logdensity, Minibatches) else None
    logdensity = logdensity.estimate if isinstance(logdensity, Minibatches) else logdensity
    check_function("logdensity", logdensity)
    sampler = checked_sampler(gad_mala() if sampler is None else sampler)
    num_warmup = sampler.num_warmup if num_warmup is None else num_warmup
    num_chains = check_whole("num_chains", num_chains)
    num_warmup = check_whole("num_warmup", num_warmup, 0)
    num_draws = check_whole("num_draws", num_draws)
    thinning = check_whole("thinning", thinning)
    seed = check_whole("seed", seed, 0, 2**32 - 1)
    check_one_of("adapt", adapt, ("pooled", "per-chain"))
    destination = None if out is None else check_destination(out)
    if batches is None:
        feed, data = None, checked_data(data)
    else:
        batches.check(sampler, data)
        feed = batches.feed(seed)
        data = feed.start()

    with deferred_interrupt() as interrupted:
        start_key, transition_key, shared_key = jax.random.split(jax.random.key(seed), 3)
        arguments = () if data is None else (data,)
        layout, propose, tries = proposer(init, logdensity, arguments, num_chains, sampler.takes_discrete)
        target = Target(Flat(logdensity, layout), data)
        order = derivatives_needed(sampler, layout.dim)
        positions = find_start(target, propose, tries, layout, num_chains, order, start_key)
        run = start(sampler, target, positions, transition_key, shared_key, adapt == "pooled")
        history = drive(
            sampler,
            target,
            run,
            num_warmup=num_warmup,
            num_draws=num_draws,
            thinning=thinning,
            select=selection(record, {n for s in sampler.schedule for n in shapes(sampler, target, run, s.adapt)}),
            observers=[*([TextProgress()] if progress else []), *([callback] if callback else [])],
            interrupted=interrupted,
            began=began,
            feed=feed,
        )
    if history.interrupted and history.iterations == 0:
        raise KeyboardInterrupt
    account = {
        "seed": seed,
        "num_chains": num_chains,
        "num_warmup": num_warmup,
        "num_draws": num_draws,
        "thinning": thinning,
        "adapt": adapt,
        "seconds_total": time.perf_counter() - began,
        **({} if batches is None or feed is None else batches.account(sampler, feed)),
    }
    tree = to_datatree(history, layout, sampler, account)
    if destination is not None:
        save(tree, destination)
    if history.failure is not None:
        raise RunStopped(history.failure, tree)
    for message in tree.attrs["warnings"]:
        warnings.warn(message, stacklevel=2)
    return tree
