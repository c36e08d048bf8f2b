"""Rows of a measurement, stored as they are computed, so that an interrupted measurement can resume."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Rows:
    """Rows in a file, one JSON object per line. A row that the file holds is not computed again.

    A new row is returned as JSON reads it back: tuples become lists.

    Args:
        path: the file. It is created, with its folder, when the first row is added. None stores nothing.

    Raises:
        ValueError: if a line of the file is not a JSON object.
    """

    def __init__(self, path: Path | None = None):
        self.path = path
        self.rows: list[dict[str, Any]] = []
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        for i, line in enumerate(lines, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                row = None
            if not isinstance(row, dict):
                raise ValueError(f"line {i} of {path} is not a row; remove the line, or name another file")
            self.rows.append(row)

    def find(self, known: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the first row that has all entries of `known`; None if there is none.

        An entry that is None in `known` also matches a row without this entry.
        """
        wanted = json.loads(json.dumps(known))
        matches = (row for row in self.rows if all(row.get(name) == wanted[name] for name in wanted))
        return next(matches, None)

    def add(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Appends a row to the file, by one write, and returns it."""
        line = json.dumps(row) + "\n"
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                file.write(line.encode())
        self.rows.append(json.loads(line))
        return self.rows[-1]

    def row(self, known: Mapping[str, Any], make: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the row that has the entries of `known`; if there is none, adds `known` with the result of `make`."""
        found = self.find(known)
        return self.add({**known, **make()}) if found is None else found
