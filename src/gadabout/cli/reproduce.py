"""`gadabout reproduce`: the paper's tables and figures beside the published ones."""

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.counts import whole
from gadabout.cli.destinations import check_json, save_json, writing
from gadabout.cli.errors import INTERRUPTED, CliError, did_you_mean
from gadabout.files import write_text


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="table1 to table7, figure1 to figure7, or all.")],
    repeats: Annotated[
        int | None,
        typer.Option(
            parser=whole("--repeats", 1),
            metavar="N",
            help="Repeats of each method.",
            show_default="the paper's: 10, and 5 for table7",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of tables, pictures and finished repeats; a run resumes there.")
    ] = Path("reproduced"),
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Save all figures as JSON.")] = None,
    data_home: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of data files.", show_default="$GADABOUT_DATA, else the user's cache"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A small version: every method once, gadMALAf on every target.")
    ] = False,
    progress: Annotated[bool, typer.Option(help="Show progress on stderr.")] = True,
) -> None:
    """Make a table or a figure of the paper again, with the published figures under ours.

    Finished repeats are stored in DIR: an interrupted run goes on where it stopped. `all` takes hours, `all --quick`
    minutes. Tables are also printed.
    """
    from gadabout.lab.paper import EXPERIMENTS

    if name != "all" and name not in EXPERIMENTS:
        raise CliError(f"NAME {name!r} is no table or figure of the paper; {did_you_mean(name, (*EXPERIMENTS, 'all'))}")
    if json_file is not None:
        check_json(json_file)
    _check_folder(out)
    try:
        document = _make(name, EXPERIMENTS, out, repeats, data_home, quick, progress)
    except (ValueError, RuntimeError, ImportError) as error:
        raise CliError(str(error)) from error
    except KeyboardInterrupt:
        print(f"gadabout: interrupted; what was finished is in {out}: the same command goes on there", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if json_file is not None:
        save_json(json_file, document)


def _make(name, experiments, out, repeats, data_home, quick, progress) -> dict[str, Any]:
    """Makes one experiment or all, prints and writes their tables, and returns what the JSON is to hold."""
    import jax

    jax.config.update("jax_enable_x64", True)
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
    """Makes the folder of results; raises CliError where that cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"--out: cannot make the folder {str(out)!r} ({error}); choose another one") from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise CliError(f"--out: the folder {str(out)!r} is not writable; choose another one")


def _circumstances(quick: bool) -> dict[str, Any]:
    """When, with what and on which machine the figures were made."""
    import jax

    return {
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}",
        "versions": {package: version(package) for package in ("gadabout", "jax", "numpy")},
    }
