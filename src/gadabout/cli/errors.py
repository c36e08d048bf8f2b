"""Errors of the command line: one line on stderr, exit code 2, no traceback."""

import difflib
import sys
from collections.abc import Iterable
from typing import Any

from typer.core import TyperGroup

FAILED = 1
"""Exit status: the run could not continue, or a file could not be written."""

BAD_INPUT = 2
INTERRUPTED = 130
MOST_NAMES = 20
"""Largest number of names in an error message."""


class CliError(Exception):
    """An error that the user can correct; its message names the argument, the value and the remedy."""


class OneLineErrors(TyperGroup):
    """A group of commands that prints each error, also of its parser, as one line."""

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        try:
            code = super().main(*args, standalone_mode=False, **kwargs)
        except Exception as error:
            message = _message(error)
            if message is None:
                raise
            print(f"gadabout: error: {message}", file=sys.stderr)
            code = BAD_INPUT
        if standalone_mode:
            sys.exit(code or 0)
        return code


def _message(error: Exception) -> str | None:
    """The message of an error in one line; None for a bug, which is to show its traceback."""
    if isinstance(error, CliError):
        return one_line(error)
    parser_message = getattr(error, "format_message", None)  # parser errors have it: click's, or typer's copy
    return None if parser_message is None else f"{one_line(parser_message())} (see --help)"


def one_line(text: object) -> str:
    """A printable message with its line breaks and runs of blanks replaced by single blanks."""
    return printable(" ".join(str(text).split()))


def printable(text: object) -> str:
    """A text with control characters as Python escapes, so that a terminal does not execute those of a file."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(text))


def did_you_mean(value: str, names: Iterable[str]) -> str:
    """The remedy for an unknown name: the nearest names, else all names, else the command that lists them."""
    names = list(names)
    near = difflib.get_close_matches(value.strip().lower(), names, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    if len(names) > MOST_NAMES:
        return "choose one of those that `gadabout list` shows"
    return f"choose one of {', '.join(names) or '(none)'}"
