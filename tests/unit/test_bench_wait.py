"""`gadabout bench wait`: its arithmetic with numbers in place of processes, and one process of its own."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gadabout.benchmarks import wait
from gadabout.cli.bench import bench
from gadabout.files import PACKAGE


class Runner:
    """Seconds in place of processes: `against` takes eight times as long as the floor, the default twice, and more."""

    def __init__(self):
        self.calls = []

    def __call__(self, program, arguments, source):
        self.calls.append((program, *arguments, source))
        seconds = {"floor": 1.0, "default": 2.0}[program] if source == PACKAGE.parent else 8.0
        return seconds + (arguments[2] if program == "default" else 0)


def checkout(folder: Path) -> Path:
    (folder / "src" / "gadabout").mkdir(parents=True)
    (folder / "src" / "gadabout" / "__init__.py").touch()
    return folder


def test_rows_hold_medians_ranges_and_ratios_of_interleaved_processes(tmp_path):
    runner, other = Runner(), checkout(tmp_path)
    rows = wait.wait(["a", "b"], 3, "home", other, runner)
    assert [row["target"] for row in rows] == ["a", "b"]
    assert (rows[0]["floor"], rows[0]["default"], rows[0]["against"]) == (1, 4, 10)
    assert rows[0]["default_range"] == [3, 5]
    assert (rows[0]["ratio_to_floor"], rows[0]["ratio_to_against"]) == (4, 0.4)
    ours, theirs = PACKAGE.parent, tmp_path / "src"
    kinds = [("floor", ours), ("default", ours), ("default", theirs)]
    expected = [(program, "a", "home", seed, source) for seed in range(4) for program, source in kinds]
    assert runner.calls[:12] == expected  # seed 0 is not counted
    assert len(runner.calls) == 3 + 2 * 9


def test_a_folder_without_the_package_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no gadabout"):
        wait.wait(["a"], 1, against=tmp_path, run=Runner())


def test_a_process_of_its_own(monkeypatch):
    monkeypatch.setitem(wait.PROGRAMS, "floor", "assert problem.dim == 2 and seed == 5\n")
    assert wait.process("floor", ["correlated-2d", None, 5], PACKAGE.parent) > 0
    with pytest.raises(RuntimeError, match=r"floor on nowhere failed in a process of its own: .*nowhere"):
        wait.process("floor", ["nowhere", None, 5], PACKAGE.parent)


def test_the_command_prints_ratios(monkeypatch, tmp_path):
    monkeypatch.setattr(wait.wait, "__defaults__", (None, None, Runner()))
    shown = CliRunner().invoke(bench, ["wait", "ripley", "--against", str(checkout(tmp_path))])
    assert shown.exit_code == 0, shown.output
    assert "the floor, geometric mean: 4.00" in shown.output
    assert "geometric mean: 0.40" in shown.output.replace("\n", "")
