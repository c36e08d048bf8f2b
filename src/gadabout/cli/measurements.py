"""What the commands of `gadabout bench` share: precision, tables, figures."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gadabout.cli.destinations import check_json, save_json

DataHome = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of data files.")]


def in_float64(json_file: Path | None) -> None:
    """Refuses a file that cannot be written, before anything runs, and sets double precision."""
    if json_file is not None:
        check_json(json_file)
    import jax

    jax.config.update("jax_enable_x64", True)


def show_table(
    title: str, headings: Sequence[str], cells: Iterable[Sequence[str]], *, left: int = 1, whole: int = 1
) -> None:
    """Prints a table; its first `left` columns stand to the left, its first `whole` are never broken into lines."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < left else "right", no_wrap=i < whole)
    for row in cells:
        table.add_row(*row)
    Console().print(table)


def save(rows: list[dict[str, Any]], json_file: Path | None) -> None:
    """Saves the figures where that is wanted."""
    if json_file is not None:
        save_json(json_file, rows)
