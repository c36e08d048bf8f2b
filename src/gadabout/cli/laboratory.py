"""`gadabout reproduce` and `verify`: the paper's tables and figures, and evidence for the library's promises."""

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.errors import FAILED, INTERRUPTED, CliError, did_you_mean
from gadabout.cli.measurements import in_float64, show_cells
from gadabout.cli.options import (
    AllFile,
    DataHomeOrCache,
    ShowProgress,
    check_file,
    check_json,
    number,
    save_json,
    writing,
)
from gadabout.files import write_text


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="table1 to table7, figure1 to figure7, or all.")],
    repeats: Annotated[
        int | None, number("--repeats", 1, "Repeats of each method.", default="the paper's: 10, and 5 for table7")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of tables, pictures and finished repeats; a run resumes there.")
    ] = Path("reproduced"),
    json_file: AllFile = None,
    data_home: DataHomeOrCache = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version, not to be compared: every method once, warm-up 300.")
    ] = False,
    progress: ShowProgress = True,
) -> None:
    """Make a table or a figure of the paper again, with the published figures under ours.

    Finished repeats are stored in DIR: an interrupted run goes on where it stopped. `all` takes hours, `all --quick`
    minutes. Tables are also printed.
    """
    from gadabout.lab.paper import EXPERIMENTS

    if name != "all" and name not in EXPERIMENTS:
        raise CliError(f"NAME {name!r} is no table or figure of the paper; {did_you_mean(name, (*EXPERIMENTS, 'all'))}")
    check_json(json_file)
    _check_folder(out)
    try:
        document = _make(name, EXPERIMENTS, out, repeats, data_home, quick, progress)
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    except KeyboardInterrupt:
        print(f"gadabout: interrupted; what was finished is in {out}: the same command goes on there", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    save_json(json_file, document)


def _make(name, experiments, out, repeats, data_home, quick, progress) -> dict[str, Any]:
    """Makes one experiment or all, prints and writes their tables, and returns the document for the JSON file."""
    in_float64()
    from gadabout.cli.watch import watching
    from gadabout.lab.paper import Session, run

    document: dict[str, Any] = {"name": name, **_circumstances(quick), "rows": [], "measures": {}}
    with watching(progress) as watcher:
        session = Session(out, repeats, data_home, quick, watcher)
        for experiment in experiments if name == "all" else [name]:
            outcome = run(experiment, session)
            document["rows"] += [{**row, "experiment": experiment} for row in outcome.rows]
            document["measures"] |= {experiment: outcome.measures} if outcome.measures else {}
            section = out / f"{experiment}.md"
            with writing(section):
                write_text(section, outcome.markdown)
            print(outcome.markdown)
            for path in outcome.pictures:
                print(f"{experiment}: {path}")
    return document


def _check_folder(out: Path) -> None:
    """Makes the folder of results; raises CliError if it cannot be made or is not writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"--out: cannot make the folder {str(out)!r} ({error}); choose another one") from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise CliError(f"--out: the folder {str(out)!r} is not writable; choose another one")


def _circumstances(quick: bool) -> dict[str, Any]:
    """Date, machine and package versions of a run, and whether it is a quick one."""
    import jax

    return {
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "versions": {package: version(package) for package in ("gadabout", "jax", "numpy")},
    }


def verify(
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[ITEM]…", help="invariance, coverage, …; all of them if none.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="All figures, in some hours; in minutes a part of them.")
    ] = False,
    folder: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of what is finished; a run that was stopped goes on there.")
    ] = Path("verified"),
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the page of evidence, in Markdown.")] = None,
    json_file: AllFile = None,
) -> None:
    """Figures for what the library promises, and for each the class of mistake that it would catch.

    Finished parts are stored in DIR, each with its settings and a hash of the library's sources. Ends with status 1
    if a figure is not what it has to be.
    """
    if page is not None:
        check_file("--page", page)
    check_json(json_file)
    in_float64()
    from gadabout.lab import verify as evidence

    chosen = items or list(evidence.ITEMS)
    for name in chosen:
        if name not in evidence.ITEMS:
            raise CliError(f"ITEM {name!r} is no item of evidence; {did_you_mean(name, evidence.ITEMS)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"--folder: cannot make {str(folder)!r} ({error}); choose another one") from error
    results, say = [], lambda line: print(f"gadabout: {line}", file=sys.stderr, flush=True)
    try:
        parts = evidence.Parts(folder, say)
    except (OSError, ValueError) as error:
        raise CliError(f"--folder: {error}") from error
    try:
        for name in dict.fromkeys(chosen):
            with writing(folder):
                results.append(evidence.run(evidence.ITEMS[name], full, parts))
    except KeyboardInterrupt:
        print(f"gadabout: interrupted; the same command goes on with what is in {folder}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    about = evidence.circumstances(full)
    if page is not None:
        with writing(page):
            write_text(page, evidence.page(results, about))
    save_json(json_file, about | {"items": [result.record() for result in results]})
    cells = [
        (result.item.name, "yes" if result.found.passed else "NO", result.found.told, f"{result.seconds:,.0f}")
        for result in results
    ]
    show_cells("evidence", ("item", "holds", "found", "seconds"), cells, left=3)
    if not all(result.found.passed for result in results):
        raise typer.Exit(FAILED)
