"""Whole numbers on the command line."""

from collections.abc import Callable

from gadabout.cli.errors import CliError


def whole(option: str, least: int, most: int = 2**31 - 1) -> Callable[[str], int]:
    """The parser of an option that takes a whole number in a range; it raises CliError for anything else."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise CliError(f"{option} must be a whole number, got {text!r}") from None
        if not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise CliError(f"{option} must be a whole number of {bound}, got {value}")
        return value

    return parse
