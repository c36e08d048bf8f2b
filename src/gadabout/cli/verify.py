"""`gadabout verify`: the evidence that the library does what it promises."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.destinations import check_file, save_json, writing
from gadabout.cli.errors import FAILED, INTERRUPTED, CliError, did_you_mean
from gadabout.cli.measurements import in_float64, show_table
from gadabout.files import write_text


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
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Save all figures as JSON.")] = None,
) -> None:
    """Figures for what the library promises, and for each the class of mistake that it would catch.

    Finished parts are stored in DIR, each with its settings and a hash of the library's sources. Ends with status 1
    if a figure is not what it has to be.
    """
    if page is not None:
        check_file("--page", page)
    in_float64(json_file)
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
    if json_file is not None:
        save_json(json_file, about | {"items": [result.record() for result in results]})
    cells = [
        (result.item.name, "yes" if result.found.passed else "NO", result.found.told, f"{result.seconds:,.0f}")
        for result in results
    ]
    show_table("evidence", ("item", "holds", "found", "seconds"), cells, left=3)
    if not all(result.found.passed for result in results):
        raise typer.Exit(FAILED)
