"""`gadabout report`: a stored run as one page of HTML."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.destinations import JsonFile, check_file, check_json, save_json, writing
from gadabout.cli.errors import CliError
from gadabout.files import STANDARD_OUTPUT, write_text


def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The store of the run, run.zarr.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page.", show_default="run.html beside run.zarr")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What to call the run.", show_default="its model")] = "",
    json_file: JsonFile = None,
) -> None:
    """Write a run as one page of HTML: tables, traces, ranks, what was learned, warnings, costs.

    The run may be finished, stopped or going on. The page needs no other file and no network.
    """
    if not path.name:
        raise CliError(f"PATH: {str(path)!r} is a folder, not a run; name the store, such as run.zarr")
    page = out or path.with_suffix(".html")
    check_file("--out", page)
    if json_file is not None:
        check_json(json_file)
    for module in ("jinja2", "matplotlib"):
        if find_spec(module) is None:
            raise CliError(f'report needs {module}, which is not installed: pip install "gadabout[cli]"')
    from gadabout.reporting.page import gather, html, read

    try:
        tree, facts = read(path)
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from error
    things = gather(tree, facts)
    with writing(page):
        write_text(page, html(things, facts, title))
    if json_file is not None:
        from gadabout.reporting.contents import figures

        save_json(json_file, figures(things, facts))
    if json_file is not None and str(json_file) == STANDARD_OUTPUT:
        return
    print(f"report written to {page}")
