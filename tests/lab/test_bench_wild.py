"""`gadabout bench wild`: what counts as right and as flagged, which targets run, rows that are kept, a small run."""

import json

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.findings import MOST_NAMED
from gadabout.lab.peers import wild as measured
from gadabout.lab.peers.truth import of_independent
from gadabout.targets import sets

RNG = np.random.default_rng(0)
KNOWN = of_independent(RNG.standard_normal((100_000, 2)))


def result(x, findings=(), rhat=1.0, ess=None):
    """What `sample` returns of draws (chain, draw, 2), as far as it is looked at."""
    n = x.shape[2]
    figures = {"rhat": rhat, "ess_bulk": x.size / n, "ess_tail": x.size / n if ess is None else ess}
    tree = {"posterior": xr.Dataset({"x": (("chain", "draw", "x_dim_0"), x)})}
    tree["posterior"] = tree["posterior"].assign_coords(x_dim_0=np.arange(n))
    tree |= {f"diagnostics/{kind}": xr.Dataset({"x": ("x_dim_0", np.full(n, each))}) for kind, each in figures.items()}
    tree = xr.DataTree.from_dict(tree)
    tree.attrs["findings"] = list(findings)
    return tree


def finding(names, figure: float | None = 1.3):
    return {"kind": "rhat", "variables": names, "figure": figure}


DRAWS = RNG.standard_normal((16, 500, 2))
OFF = DRAWS + np.array([0.0, 0.5])


@pytest.mark.parametrize(
    ("tree", "outcome"),
    [
        (result(DRAWS), "right"),
        (result(DRAWS, [finding(["x[0]"])]), "right"),
        (result(DRAWS, ess=399), "too few"),
        (result(DRAWS, [finding(["x[0]"])], rhat=1.118, ess=93), "too few"),
        (result(DRAWS, ess=401), "right"),
        (result(OFF, [finding(["x[1]"])], ess=93), "flagged"),
        (result(OFF, ess=93), "wrong without a word"),
        (result(DRAWS, rhat=1.1), "wrong without a word"),
        (result(DRAWS, [finding(["x[0]"])], rhat=1.1), "flagged"),
        (result(OFF), "wrong without a word"),
        (result(OFF, [finding(["x[0]"])]), "wrong without a word"),
        (result(OFF, [finding(["x[1]"])]), "flagged"),
        (result(OFF, [finding(["x[1]"], None)]), "wrong without a word"),
        (result(OFF, [finding([f"x[{i + 5}]" for i in range(MOST_NAMED)])]), "flagged"),
        (result(1.5 * DRAWS), "wrong without a word"),
        (result(0 * DRAWS), "wrong without a word"),
    ],
)
@pytest.mark.parametrize("keys", [("mean", "variance"), ("quantiles",)])
def test_right_or_flagged(tree, outcome, keys):
    row = measured.judged(tree, ["x"], KNOWN, keys)
    assert row["outcome"] == outcome
    assert json.loads(json.dumps(row)) == row


def test_without_a_truth():
    assert measured.judged(result(OFF), ["x"], None)["outcome"] == "no truth"
    assert measured.judged(result(OFF, ess=93), ["x"], None)["outcome"] == "too few"
    assert measured.judged(result(OFF, rhat=1.1), ["x"], None)["outcome"] == "wrong without a word"
    assert measured.judged(result(OFF, [finding(["x[0]"])], rhat=1.1), ["x"], None)["outcome"] == "flagged"


def test_summary_has_the_worst_of_each_target():
    row = {"target": "a", "outcome": "right", "off": 1.0, "rhat": 1.0, "ess": 50.0, "findings": [], "seconds": 1.0}
    rows = [row, row | {"outcome": "flagged", "off": 7.0, "rhat": 1.2, "findings": ["rhat"]}, row | {"ess": 20.0}]
    found, other = measured.summary([*rows, row | {"target": "b", "off": None}])
    assert found["outcomes"] == {"right": 2, "flagged": 1}
    assert (found["off"], found["rhat"], found["ess"], found["findings"]) == (7.0, 1.2, 20.0, ["rhat"])
    assert other["off"] is None


def test_the_command_keeps_its_rows_and_goes_on(tmp_path, monkeypatch):
    kept, asked = tmp_path / "rows.jsonl", []
    actual = measured.run
    monkeypatch.setattr(measured, "run", lambda model, seed: asked.append(seed) or actual(model, seed))
    arguments = ["bench", "wild", "eight-schools-noncentred", "--json", str(kept)]
    for seeds in ("1", "0,3"):
        result = CliRunner().invoke(app, [*arguments, "--seeds", seeds])
        assert result.exit_code == 0, result.output
    assert "seeds 0, 3" in result.output
    assert asked == [0, 3]
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [row["seed"] for row in rows] == [0, 3]
    assert all(row["off"] < 5 and row["gradients"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], sets.SETS["wild"].builders),
        (["--set", "hierarchical"], sets.SETS["hierarchical"].builders),
        (["--set", "modes"], sets.SETS["modes"].builders),
        (["--set", "curved"], sets.SETS["curved"].builders),
        (["bym2", "funnel"], ["bym2", "funnel"]),
    ],
)
def test_the_command_runs_a_set_or_names_of_any(arguments, names, monkeypatch):
    row = {"outcome": "right", "off": 1.0, "rhat": 1.0, "ess": 50.0, "findings": [], "seconds": 1.0}
    run = []
    monkeypatch.setattr(measured, "runs", lambda names, *_: run.extend(names) or [row | {"target": names[0]}])
    result = CliRunner().invoke(app, ["bench", "wild", *arguments])
    assert result.exit_code == 0, result.output
    assert run == list(names)


def test_the_truth_of_any_set_is_found():
    model = sets.load("two-islands-2")
    known, keys = measured.known_truth(model)
    assert known is not None
    assert known["mean"].shape == (2,)
    assert keys == ("mean", "variance")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], ["nowhere", "funnel"]),
        (["--seeds", "0"], ["--seeds", "at least 1"]),
        (["--seeds", "1,x"], ["'x'"]),
        (["--set", "mode"], ["'mode'", "modes"]),
        (["period", "--set", "modes"], ["--set", "whole set"]),
    ],
)
def test_refusals(arguments, words):
    result = CliRunner().invoke(app, ["bench", "wild", *arguments])
    assert result.exit_code == 2
    assert all(word in result.stderr for word in words)
