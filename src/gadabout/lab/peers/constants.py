"""Sensitivity of the default to its constants: each is halved and doubled, and the default runs on a few posteriors.

A constant is a number in capital letters in a module of `gadabout.ensemble`. It is changed in the text of a copy of
the package, so that everything derived from it changes as well. A process of its own imports the copy. A run is judged
as by `gadabout bench wild`, and by ESS per gradient evaluation, warm-up and pilot run counted. If all figures of a run
are the same to the last bit, the constant had no effect on its draws.
"""

import ast
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import gadabout
from gadabout.lab.json_process import answer
from gadabout.lab.peers import wild
from gadabout.lab.rows import Rows
from gadabout.targets import sets

PACKAGE, ROOM = Path(gadabout.__file__).parent, "ensemble"
TARGETS = (
    "eight-schools-centred", "sleep-study", "mixture", "student-t-raw", "lotka-volterra", "banana", "crossed-effects",
    "horseshoe-centred", "ordinal-groups", "local-level", "gp-hilbert", "ring-of-eight",
)  # fmt: skip
"""one posterior for each kind of difficulty"""
FACTORS = (0.5, 2.0)
FIGURES = ("ess", "rhat", "gradients")
"""figures of a run that are the same to the last bit if its draws are"""


def constants() -> dict[str, ast.Constant]:
    """Numbers in capital letters of `gadabout.ensemble`, by module and name: value and place of each in the text."""
    found = {}
    for path in sorted((PACKAGE / ROOM).glob("*.py")):
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.Assign):
                names, values = (getattr(side, "elts", [side]) for side in (statement.targets[0], statement.value))
                for name, value in zip(names, values, strict=False):
                    if isinstance(name, ast.Name) and name.id.isupper() and _is_number(value):
                        found[f"{path.stem}.{name.id}"] = value
    return found


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def changed(value: Any, factor: float) -> Any:
    """A constant times a factor. Whole numbers stay whole, and at least 1."""
    return max(1, round(value * factor)) if isinstance(value, int) else value * factor


def rows(
    names: Sequence[str], targets: Sequence[str], seeds: Sequence[int], file: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Yields a row for each target and seed: first without a change, then for each constant and factor.

    A factor that leaves a constant as it is has no rows. Rows that `file` holds are reused, and new ones are added to
    it. Raises KeyError for an unknown constant, RuntimeError if a process fails.
    """
    stored, places = Rows(file), constants()
    values = {(name, factor): changed(places[name].value, factor) for name in names for factor in FACTORS}
    changes = [(name, factor, value) for (name, factor), value in values.items() if value != places[name].value]
    for name, factor, value in [(None, 1.0, None), *changes]:
        change = {"constant": name, "factor": factor, "value": value}
        asked = [change | {"target": target, "seed": seed} for target in targets for seed in seeds]
        lacking = [known for known in asked if stored.find(known) is None]
        made = iter(_process(None if name is None else (name, places[name], value), lacking) if lacking else ())
        for known in asked:
            yield stored.row(known, lambda made=made: next(made))


def _process(change: tuple[str, ast.Constant, Any] | None, asked: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outcomes of runs, from a process that imports a copy of the package with a change."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / PACKAGE.name
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        if change is not None:
            name, place, value = change
            path = copy / ROOM / f"{name.partition('.')[0]}.py"
            lines = path.read_bytes().splitlines(keepends=True)
            line = lines[place.lineno - 1]
            lines[place.lineno - 1] = line[: place.col_offset] + repr(value).encode() + line[place.end_col_offset :]
            path.write_bytes(b"".join(lines))
        what = "the default" if change is None else f"the default with {change[0]} = {change[2]}"
        return answer(what, __name__, asked, {"PYTHONPATH": folder, "JAX_ENABLE_X64": "1"})


def run(known: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome and the figures of a run; an outcome named after the error, and no draws, if it raises one."""
    model = sets.load(known["target"])
    try:
        row = wild.run(model, known["seed"])
    except Exception as error:
        row = {"outcome": type(error).__name__, "ess": 0.0, "rhat": None, "gradients": 1}
    return {name: row[name] for name in ("outcome", *FIGURES)}


def summary(made: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For each constant and factor: runs with other draws, those not right, and ESS per gradient as a ratio.

    The ratio is to runs without a change, a geometric mean over the runs with other draws that did not fail.
    """
    base = {(row["target"], row["seed"]): row for row in made if row["constant"] is None}
    found = []
    for name, factor in dict.fromkeys((row["constant"], row["factor"]) for row in made if row["constant"]):
        own = [row for row in made if (row["constant"], row["factor"]) == (name, factor)]
        pairs = [(row, base[row["target"], row["seed"]]) for row in own]
        pairs = [(row, before) for row, before in pairs if any(row[name] != before[name] for name in FIGURES)]
        other, ratios = [row for row, _ in pairs], [_worth(row) / _worth(before) for row, before in pairs if row["ess"]]
        row = {"constant": name, "factor": factor, "value": own[0]["value"], "runs": len(own), "other": len(other)}
        wrong = [f"{each['target']}: {each['outcome']}" for each in other if each["outcome"] != wild.RIGHT]
        found.append(row | {"ratio": geometric_mean(ratios) if ratios else None, "not_right": wrong})
    return found


def _worth(row: Mapping[str, Any]) -> float:
    return row["ess"] / row["gradients"]


if __name__ == "__main__":
    print(json.dumps([run(known) for known in json.loads(sys.argv[1])]))
