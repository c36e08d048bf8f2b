"""Functions shared by the commands that measure: precision, errors, tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gadabout.cli.errors import CliError

Row = Mapping[str, Any]
Columns = Sequence[tuple[str, str | Callable[[Any], str]]]
"""Heading of each column, with a format of a row's figures, such as "{seconds:.1f}", or a function of the row."""


def in_float64() -> None:
    """Sets double precision."""
    import jax

    jax.config.update("jax_enable_x64", True)


@contextmanager
def measuring(what: str = "") -> Iterator[None]:
    """Shows a spinner with the text `what`, if any, in a terminal; turns expected errors of the block into CliError."""
    from gadabout.cli.progress import working

    try:
        with working(what, bool(what)):
            yield
    except (ValueError, RuntimeError, ImportError, OSError) as error:
        raise CliError(str(error)) from error


def show_table(title: str, columns: Columns, rows: Iterable[Row], *, left: int = 1, whole: int = 1) -> None:
    """Prints rows as a table; the first `left` columns are left-aligned, the first `whole` are never wrapped."""
    forms = [form.format_map if isinstance(form, str) else form for _, form in columns]
    cells = [[form(row) for form in forms] for row in rows]
    show_cells(title, [heading for heading, _ in columns], cells, left=left, whole=whole)


def show_cells(
    title: str, headings: Sequence[str], cells: Iterable[Sequence[str]], *, left: int = 1, whole: int = 1
) -> None:
    """Prints a table of texts; `left` and `whole` as in `show_table`."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="left" if i < left else "right", no_wrap=i < whole)
    for row in cells:
        table.add_row(*row)
    Console().print(table)


def span(row: Row, name: str, form: str) -> str:
    """A figure and its range, as 1.2 (1.1–1.4)."""
    low, high = row[f"{name}_range"]
    return f"{row[name]:{form}} ({low:{form}}–{high:{form}})"
