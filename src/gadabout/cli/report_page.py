"""`gadabout report`: a stored run as one page of HTML."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gadabout.cli.destinations import check_file, writing
from gadabout.cli.errors import CliError


def report(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The store of the run, run.zarr.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page.", show_default="run.html beside run.zarr")
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What to call the run.", show_default="its model")] = "",
) -> None:
    """Write a run as one page of HTML: tables, traces, ranks, what was learned, warnings, costs.

    The run may be finished, stopped or going on. The page needs no other file and no network.
    """
    page = out or path.with_suffix(".html")
    check_file("--out", page)
    for module in ("jinja2", "matplotlib"):
        if find_spec(module) is None:
            raise CliError(f'report needs {module}, which is not installed: pip install "gadabout[cli]"')
    from gadabout.reporting.page import html, read

    try:
        tree, facts = read(path)
    except (OSError, ValueError) as error:
        raise CliError(str(error)) from error
    text = html(tree, facts, title)
    from gadabout.files import write_text

    with writing(page):
        write_text(page, text)
    print(f"report written to {page}")
