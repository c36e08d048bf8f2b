"""`gadabout sample` and `resume`: a run with its progress, its report and the requested files."""

import math
import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from gadabout.cli.errors import FAILED, INTERRUPTED, CliError, one_line
from gadabout.cli.options import (
    DataHomeOrCache,
    Out,
    Plot,
    Quiet,
    ShowProgress,
    Store,
    SummaryFile,
    check_destinations,
    number,
    save_json,
    writing,
)
from gadabout.files import STANDARD_OUTPUT


class Adapt(StrEnum):
    """Whether warm-up learns one proposal from all chains, or one for each chain."""

    pooled = "pooled"
    per_chain = "per-chain"


OWN = "the sampler's own"
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="A name of `gadabout list`, or file.py:function, a log density of one array in JAX."
    ),
]
SamplerSpec = Annotated[
    str, typer.Option(metavar="NAME[:SETTING=VALUE,…]", help="For example gad-mala:variant=exact,factor=diagonal.")
]
Chains = Annotated[int | None, number("--chains", 1, "Chains, advanced together.", default=OWN)]
Warmup = Annotated[int | None, number("--warmup", 0, "Iterations in which the proposal is learned.", default=OWN)]
Draws = Annotated[int, number("--draws", 1, "Draws kept of each chain.")]
AllDraws = Annotated[int | None, number("--draws", 1, "Draws of each chain in all.", default="the run's own")]
Thinning = Annotated[int, number("--thinning", 1, "Iterations for each kept draw.")]
SameSeed = Annotated[int, number("--seed", 0, "The same seed gives the same draws.", 2**32 - 1)]
Rule = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="End once draws are enough, at most --draws: ess=1000,rhat=1.01,seconds=60."),
]
AdaptBy = Annotated[Adapt, typer.Option(help="One proposal learned from all chains, or one for each.")]
Dim = Annotated[int | None, number("--dim", 1, "Coordinates of a file's density; chains start around 0.")]
Init = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npy", help="Start of a file's density: (n,), or (chains, n) with one row each."),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="FILE.npz|FILE.json", help="Arrays by name, the second argument of a file's density."),
]
TargetAgain = Annotated[
    str | None,
    typer.Option(metavar="file.py:function", help="The run's target again, where it is a file of yours."),
]
DataAgain = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The run's data again, .npz or .json.", show_default="the run's own file"),
]
DataHomeAgain = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder of data files.", show_default="the run's own")
]
Float32 = Annotated[bool, typer.Option("--float32", help="Single precision in place of double.")]


def sample(
    target: Target = "breast-cancer",
    sampler: SamplerSpec = "default",
    chains: Chains = None,
    warmup: Warmup = None,
    draws: Draws = 1_000,
    thinning: Thinning = 1,
    seed: SameSeed = 0,
    until: Rule = None,
    adapt: AdaptBy = Adapt.pooled,
    dim: Dim = None,
    init: Init = None,
    data: Data = None,
    out: Out = None,
    plot: Plot = None,
    json_file: SummaryFile = None,
    data_home: DataHomeOrCache = None,
    float32: Float32 = False,
    progress: ShowProgress = True,
    quiet: Quiet = False,
) -> None:
    """Sample a target, print a summary, and save draws, a figure or figures if asked to.

    Without arguments it samples the posterior of a logistic regression on data that scikit-learn carries.
    """
    check_destinations(out, plot, json_file)
    import jax

    jax.config.update("jax_enable_x64", not float32)
    import gadabout
    from gadabout.cache import keep_for_commands
    from gadabout.cli.specs import parse_sampler, parse_until
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
    _end(partial(gadabout.sample, model, **settings), model.name, Wanted(out, json_file, plot, progress, quiet))


def resume(
    path: Store,
    draws: AllDraws = None,
    target: TargetAgain = None,
    data: DataAgain = None,
    data_home: DataHomeAgain = None,
    plot: Plot = None,
    json_file: SummaryFile = None,
    progress: ShowProgress = True,
    quiet: Quiet = False,
) -> None:
    """Go on with a run that was stopped or killed, to the draws it would have made, or to more.

    A target that is a file of yours is opened only if you name it again.
    """
    check_destinations(None, plot, json_file)
    import jax

    from gadabout.store.runs import manifest_of

    try:
        manifest = manifest_of(path)
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from error
    jax.config.update("jax_enable_x64", manifest.float_type == "float64")
    import gadabout
    from gadabout.cache import keep_for_commands
    from gadabout.cli.targets import resolve

    keep_for_commands()
    origin = manifest.model["origin"]
    name = target or origin.get("target")
    if name is None:
        raise CliError(f"PATH: {str(path)!r} was not made by `gadabout sample`: go on with it by gadabout.resume")
    is_file = ":" in name or name.endswith(".py")
    if is_file and target is None:
        raise CliError(f"--target: the run is of {name}, which is run only if you name it again: --target {name}")
    home = data_home or (Path(origin["data_home"]) if "data_home" in origin else None)
    rows = data or (Path(origin["data"]) if "data" in origin else None)
    one = sum(math.prod(shape) for shape in manifest.layout["shapes"]) if is_file and not origin else None
    model, _ = resolve(name, origin.get("dim", one), None, manifest.settings["num_chains"], home, rows)
    run = partial(gadabout.resume, path, model, num_draws=draws)
    _end(run, model.name, Wanted(path, json_file, plot, progress, quiet))


class Wanted(NamedTuple):
    """Outputs that the options of a command request in addition to the run."""

    out: Path | None
    json_file: Path | None
    plot: Path | None
    progress: bool
    quiet: bool


def _end(run: Callable[..., Any], name: str, wanted: Wanted) -> None:
    """Executes a run, prints its report and writes its files; raises typer.Exit if the exit status is not 0."""
    from gadabout.cli.progress import working
    from gadabout.cli.terminal import show
    from gadabout.reporting.summary import summarise

    show_progress = wanted.progress and not wanted.quiet
    tree, notes = _carry_out(run, show_progress)
    with working("diagnostics", show_progress):
        summary = summarise(tree)
    files, errors = _write(tree, summary, name, {"figures": wanted.json_file, "plot": wanted.plot})
    if not wanted.quiet:
        show(tree, summary, name, notes)
        if wanted.out is not None:
            again = f": go on by `gadabout resume {wanted.out}`" if tree.attrs["interrupted"] else ""
            print(f"draws stored in {wanted.out}{again}")
        for what, path in files.items():
            print(f"{what} saved in {path}")
    if tree.attrs["ending"] == "failed":
        errors += [CliError(finding["problem"]) for finding in tree.attrs["findings"] if finding["kind"] == "failed"]
    for error in errors:
        print(f"gadabout: error: {one_line(error)}", file=sys.stderr)
    if errors:
        raise typer.Exit(FAILED)
    if tree.attrs["interrupted"]:
        raise typer.Exit(INTERRUPTED)


def _carry_out(run: Callable[..., Any], show_progress: bool) -> tuple[Any, list[str]]:
    """Executes a run; returns its result and its warnings. Raises CliError for an error without a result."""
    import jax

    import gadabout
    from gadabout.cli.progress import display

    with warnings.catch_warnings(record=True) as caught, display(show_progress) as callback:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        try:
            tree = run(progress=False, callback=callback)
        except gadabout.RunStopped as stopped:
            tree = stopped.result
        except (ValueError, TypeError, OSError, MemoryError, jax.errors.JaxRuntimeError) as error:
            raise CliError(str(error) or type(error).__name__) from error
        except KeyboardInterrupt:
            print("gadabout: interrupted before the first iteration", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    return tree, [one_line(warning.message) for warning in caught]


def _write(
    tree: Any, summary: Any, name: str, wanted: dict[str, Path | None]
) -> tuple[dict[str, Path], list[CliError]]:
    """Writes figures and plot if they are requested; returns the paths of those written, and the errors of others."""
    from gadabout.reporting.summary import figures

    def save_figure(path):
        from gadabout.reporting.figure import save_plot

        with writing(path):
            save_plot(tree, summary, name, path)

    writers: dict[str, Callable[[Path], None]] = {
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
