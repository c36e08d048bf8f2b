"""Rows of a benchmark, kept as they are made, so that one that was stopped goes on."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Kept:
    """Rows in a file, a line of JSON each. One that is there is not made again.

    Args:
        path: the file, which need not exist; None keeps nothing.

    Raises:
        ValueError: where a line of the file is not a row.
    """

    def __init__(self, path: Path | None = None):
        self.path, self.rows = path, []
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        for i, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            if not isinstance(row, dict):
                raise ValueError(
                    f"line {i} of {path} is not a row of a benchmark; remove the line, or name another file"
                )
            self.rows.append(row)

    def row(self, known: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """The row that says what is `known`: the one that is there, or else that and what is made, which is added."""
        for row in self.rows:
            if all(name in row and row[name] == value for name, value in known.items()):
                return row
        row = {**known, **make()}
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return row
