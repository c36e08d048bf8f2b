"""`gadabout sample`: from the arguments to draws, a summary, and the files that were asked for."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import check_destinations


class Adapt(StrEnum):
    """What chains share in warm-up."""

    pooled = "pooled"
    per_chain = "per-chain"


def sample(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET", help="A name of `gadabout list`, or file.py:function, a log density of one array in JAX."
        ),
    ] = "breast-cancer",
    sampler: Annotated[
        str, typer.Option(metavar="NAME[:SETTING=VALUE,…]", help="For example gad-mala:variant=exact,factor=diagonal.")
    ] = "default",
    chains: Annotated[
        int | None,
        typer.Option(
            parser=whole("--chains", 1),
            metavar="N",
            help="Chains, advanced together.",
            show_default="the sampler's own",
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            parser=whole("--warmup", 0),
            metavar="N",
            help="Iterations in which the proposal is learned.",
            show_default="the sampler's own",
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(parser=whole("--draws", 1), metavar="N", help="Draws kept of each chain.")
    ] = 1_000,
    thinning: Annotated[
        int, typer.Option(parser=whole("--thinning", 1), metavar="N", help="Iterations for each kept draw.")
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(parser=whole("--seed", 0, 2**32 - 1), metavar="N", help="The same seed gives the same draws."),
    ] = 0,
    until: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="End once draws are enough, at most --draws: ess=1000,rhat=1.01,seconds=60."),
    ] = None,
    adapt: Annotated[Adapt, typer.Option(help="One proposal learned from all chains, or one for each.")] = Adapt.pooled,
    dim: Annotated[
        int | None,
        typer.Option(
            parser=whole("--dim", 1), metavar="N", help="Coordinates of a file's density; chains start around 0."
        ),
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npy", help="Start of a file's density: (n,), or (chains, n) with one row each."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz|FILE.json", help="Arrays by name, the second argument of a file's density."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Store draws as they come, in run.zarr; see `resume`.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Save a figure: .png, .pdf or .svg.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Save the figures of the summary as JSON.")
    ] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of data files.", show_default="$GADABOUT_DATA, else the user's cache"),
    ] = None,
    float32: Annotated[bool, typer.Option("--float32", help="Single precision in place of double.")] = False,
    progress: Annotated[bool, typer.Option(help="Show progress on stderr.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Sample a target, print a summary, and save draws, a figure or figures if asked to.

    Without arguments it samples the posterior of a logistic regression on data that scikit-learn carries.
    """
    check_destinations(out, plot, json_file)
    import jax

    jax.config.update("jax_enable_x64", not float32)
    import gadabout
    from gadabout.cache import keep_for_commands
    from gadabout.cli.running import Wanted, ended
    from gadabout.cli.sampler_spec import parse_sampler, parse_until
    from gadabout.cli.targets import resolve
    from gadabout.schedule import plan_of

    keep_for_commands()

    made, rule = parse_sampler(sampler), parse_until(until)
    chains = plan_of(made).num_chains if chains is None else chains
    model, init_per_chain = resolve(target, dim, init, chains, data_home, data)
    settings = {
        "sampler": made,
        "init_per_chain": init_per_chain,
        "seed": seed,
        "num_chains": chains,
        "num_warmup": warmup,
        "num_draws": draws,
        "thinning": thinning,
        "adapt": adapt.value,
        "until": rule,
        "out": out,
    }
    ended(partial(gadabout.sample, model, **settings), model.name, Wanted(out, json_file, plot, progress, quiet))
