"""From a run to its end on the command line: progress, the report, and the files that were asked for."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer

from gadabout.cli.destinations import save_json, writing
from gadabout.cli.errors import FAILED, INTERRUPTED, CliError, one_line
from gadabout.files import STANDARD_OUTPUT


class Wanted(NamedTuple):
    """What the options of a command ask for beside the run."""

    out: Path | None
    json_file: Path | None
    plot: Path | None
    progress: bool
    quiet: bool


def ended(run: Callable[..., Any], name: str, wanted: Wanted) -> None:
    """Carries a run out, prints its report and writes its files; raises typer.Exit where its status is not 0."""
    from gadabout.cli.progress import working
    from gadabout.cli.report import show
    from gadabout.cli.summary import summarise

    show_progress = wanted.progress and not wanted.quiet
    tree, notes = _carried_out(run, show_progress)
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


def _carried_out(run: Callable[..., Any], show_progress: bool) -> tuple[Any, list[str]]:
    """The result of a run, and the warnings raised on the way; raises CliError for what it refuses."""
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
    """Writes figures and plot where they are wanted: those that are written, and what prevented the others."""
    from gadabout.cli.summary import figures

    def save_figure(path):
        from gadabout.cli.plot import save_plot

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
