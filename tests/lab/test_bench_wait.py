"""`gadabout bench wait`: its arithmetic with numbers in place of processes, and one process of its own."""

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gadabout.cli.bench import bench
from gadabout.files import PACKAGE
from gadabout.lab.peers import wait


class Runner:
    """Seconds in place of processes: the floor takes 1, another checkout 8 + seed, everything else 2 + seed."""

    def __init__(self):
        self.calls = []

    def __call__(self, program, arguments, source, caches):
        self.calls.append((program, *arguments, source))
        seconds = {"floor": 1.0}.get(program, 2.0) if source == PACKAGE.parent else 8.0
        return seconds + (0 if program == "floor" else arguments[2])


def checkout(folder: Path) -> Path:
    (folder / "src" / "gadabout").mkdir(parents=True)
    (folder / "src" / "gadabout" / "__init__.py").touch()
    return folder


def test_rows_hold_medians_ranges_and_ratios_of_interleaved_processes(tmp_path):
    runner, other = Runner(), checkout(tmp_path)
    rows = wait.wait(["a", "b"], 3, "home", other, run=runner)
    assert [row["target"] for row in rows] == ["a", "b"]
    assert [rows[0][kind] for kind in ("floor", "default", "second", "against")] == [1, 4, 4, 10]
    assert rows[0]["default_range"] == [3, 5]
    assert [rows[0][f"ratio_to_{kind}"] for kind in ("floor", "second", "against")] == [4, 1, 0.4]
    ours, theirs = PACKAGE.parent, tmp_path / "src"
    kinds = [("floor", ours), ("default", ours), ("second", ours), ("default", theirs)]
    expected = [(program, "a", "home", seed, source) for seed in range(4) for program, source in kinds]
    assert runner.calls[:16] == expected  # seed 0 is not counted
    assert len(runner.calls) == 32


def test_the_quickest_peer_is_that_with_the_smallest_median_of_processes(tmp_path):
    path, runs = tmp_path / "peers.jsonl", {"meads": [9, 1, 8], "nuts": [7, 7, 9], "gadabout": [1, 1, 1]}
    rows = [{"target": "a", "peer": peer, "empty_seconds": s, "start": "process"} for peer in runs for s in runs[peer]]
    rows += [{"target": "a", "peer": "nuts", "seconds": 0.1}, {**rows[0], "target": "b", "empty_seconds": 0.1}]
    path.write_text("\n".join(map(json.dumps, rows)))
    (row,) = wait.wait(["a"], 1, peers=path, run=Runner())
    assert (row["peer_name"], row["peer"], row["peer_range"], row["ratio_to_peer"]) == ("nuts", 7, [7, 9], 3 / 7)
    with pytest.raises(ValueError, match="holds no process on c"):
        wait.wait(["c"], 1, peers=path, run=Runner())


def test_a_folder_without_the_package_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no gadabout"):
        wait.wait(["a"], 1, against=tmp_path, run=Runner())


def test_a_process_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setitem(wait.PROGRAMS, "floor", "assert problem.dim == 2 and seed == 5\n")
    assert wait.process("floor", ["correlated-2d", None, 5], PACKAGE.parent, tmp_path) > 0
    with pytest.raises(RuntimeError, match=r"floor on nowhere failed in a process of its own: .*nowhere"):
        wait.process("floor", ["nowhere", None, 5], PACKAGE.parent, tmp_path)


def test_only_the_second_process_has_a_cache(monkeypatch, tmp_path):
    folder = tmp_path / "gadabout" / "jax"
    for program, expected in (("floor", None), ("default", None), ("second", str(folder))):
        text = wait.PROGRAMS[program].replace(wait.DRAWS, "")
        check = f"assert jax.config.jax_compilation_cache_dir == {expected!r}\n"
        check += f"assert jax.config.jax_enable_compilation_cache is {expected is not None}\n"
        monkeypatch.setitem(wait.PROGRAMS, program, text + check)
        wait.process(program, ["correlated-2d", None, 5], PACKAGE.parent, tmp_path)


def test_the_command_prints_ratios(monkeypatch, tmp_path):
    monkeypatch.setattr(wait, "wait", partial(wait.wait, run=Runner()))
    shown = CliRunner().invoke(bench, ["wait", "ripley", "--against", str(checkout(tmp_path))])
    assert shown.exit_code == 0, shown.output
    assert "the floor, geometric mean: 4.00" in shown.output
    assert "the second process, geometric mean: 1.00" in shown.output
    assert "geometric mean: 0.40" in shown.output.replace("\n", "")
