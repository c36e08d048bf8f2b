"""Whole numbers on the command line."""

from collections.abc import Callable

from gadabout.checks import check_whole
from gadabout.cli.errors import CliError


def whole(option: str, least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """The parser of an option that takes a whole number in a range; it raises CliError for anything else."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise CliError(f"{option} must be a whole number, got {text!r}") from None
        bound = f"of at least {least}" if value < least else f"of at most {most}"
        try:
            return check_whole(option, value, least, most, wanted=bound)
        except ValueError as error:
            raise CliError(str(error)) from error

    return parse
