"""The command line as a process of its own."""

import json
import subprocess
import sys


def test_sample_in_a_process_of_its_own(tmp_path):
    """With no sampler and no target named."""
    command = [sys.executable, "-m", "gadabout.cli", "sample", "--warmup", "500", "--draws", "500", "--json", "a.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "breast-cancer, default" in done.stdout
    assert "gadabout sampling: 500/500 iterations" in done.stderr
    figures = json.loads((tmp_path / "a.json").read_text())
    assert figures["target"] == "breast-cancer"
    assert figures["num_chains"] == 16
    assert figures["gradient_evaluations"] > 16 * 100  # of the iterations that are looked at alone
    assert figures["findings"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
