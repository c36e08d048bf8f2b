"""The command line as a process of its own."""

import json
import subprocess
import sys


def test_sample_in_a_process_of_its_own(tmp_path):
    command = [sys.executable, "-m", "gadabout.cli", "sample", "--warmup", "3000", "--draws", "500", "--json", "a.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "breast-cancer, gad-mala" in done.stdout
    assert "gadabout sampling: 500/500 iterations" in done.stderr
    figures = json.loads((tmp_path / "a.json").read_text())
    assert figures["target"] == "breast-cancer"
    assert figures["gradient_evaluations"] == 4 * 3500
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
