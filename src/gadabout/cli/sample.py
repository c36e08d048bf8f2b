"""`gadabout sample`: from the arguments to draws, a summary, and the files that were asked for."""

import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import check_json, check_plot, check_store, save_draws, save_json, writing
from gadabout.cli.errors import FAILED, INTERRUPTED, CliError, one_line
from gadabout.files import STANDARD_OUTPUT


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
    out: Annotated[Path | None, typer.Option(metavar="PATH", help="Save all draws as a zarr store, run.zarr.")] = None,
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
    _check_destinations(out, plot, json_file)
    import jax

    jax.config.update("jax_enable_x64", not float32)
    from gadabout.cli.progress import working
    from gadabout.cli.report import show
    from gadabout.cli.sampler_spec import parse_sampler, parse_until
    from gadabout.cli.summary import summarise
    from gadabout.cli.targets import resolve
    from gadabout.schedule import plan_of

    made, rule = parse_sampler(sampler), parse_until(until)
    chains = plan_of(made).num_chains if chains is None else chains
    model, init_per_chain = resolve(target, dim, init, chains, data_home)
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
    }
    show_progress = progress and not quiet
    tree, notes = _run(model, settings, show_progress)
    with working("diagnostics", show_progress):
        summary = summarise(tree)
    files, errors = _write(tree, summary, model.name, made, {"draws": out, "figures": json_file, "plot": plot})
    if not quiet:
        show(tree, summary, model.name, notes)
        for what, path in files.items():
            print(f"{what} saved in {path}")
    for error in errors:
        print(f"gadabout: error: {one_line(error)}", file=sys.stderr)
    if errors or tree.attrs["ending"] == "failed":
        raise typer.Exit(FAILED)
    if tree.attrs["interrupted"]:
        raise typer.Exit(INTERRUPTED)


def _check_destinations(out: Path | None, plot: Path | None, json_file: Path | None) -> None:
    if out is not None:
        check_store(out)
    if plot is not None:
        check_plot(plot)
    if json_file is not None:
        check_json(json_file)
    given = [path.resolve() for path in (out, plot, json_file) if path is not None]
    if len(set(given)) < len(given):
        raise CliError("--out, --plot and --json must name different files")


def _run(model: Any, settings: dict[str, Any], show_progress: bool) -> tuple[Any, list[str]]:
    """The result of `gadabout.sample`, and the warnings raised on the way; raises CliError for what it refuses."""
    import jax

    import gadabout
    from gadabout.cli.progress import display

    with warnings.catch_warnings(record=True) as caught, display(show_progress) as callback:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        try:
            tree = gadabout.sample(model, progress=False, callback=callback, **settings)
        except gadabout.RunStopped as stopped:
            tree = stopped.result
        except (ValueError, TypeError, OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
            raise CliError(str(error) or type(error).__name__) from error
        except KeyboardInterrupt:
            print("gadabout: interrupted before the first iteration", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    return tree, [one_line(warning.message) for warning in caught]


def _write(
    tree: Any, summary: Any, name: str, sampler: Any, wanted: dict[str, Path | None]
) -> tuple[dict[str, Path], list[CliError]]:
    """Writes draws, figures and plot where they are wanted: those that are written, and what prevented the others."""
    from gadabout.cli.summary import figures

    def save_figure(path):
        from gadabout.cli.plot import save_plot

        with writing(path):
            save_plot(tree, summary, name, sampler, path)

    writers: dict[str, Callable[[Path], None]] = {
        "draws": lambda path: save_draws(tree, path),
        "figures": lambda path: save_json(path, figures(tree, summary, name)),
        "plot": save_figure,
    }
    written, errors = {}, []
    for what, path in wanted.items():
        try:
            if path is not None:
                writers[what](path)
                written |= {what: path} if str(path) != STANDARD_OUTPUT else {}
        except CliError as error:
            errors.append(error)
    return written, errors
