"""`gadabout bench peers`: what it chooses and reckons, and a small run."""

import json
import sys
import time
import warnings
from functools import partial

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from gadabout import targets
from gadabout.benchmarks import peer_cold, peer_samplers, peers
from gadabout.cli import bench_peers
from gadabout.cli.app import app
from gadabout.model import Model
from gadabout.targets import wild


def run(seconds, q, rhat_max: float | None = 1.0, right=None):
    figures = {"q": q, "q_per_second": q / seconds, "rhat_max": rhat_max, "right": right}
    return {"seconds": seconds, "compile_seconds": 2 * seconds, **figures}


def row(peer, speed, right: bool | None = None, target="t"):
    return {"target": target, "peer": peer, "q_per_second": speed, "right": right}


def test_summary_of_runs():
    found = peers.summary([run(1.0, 100.0, 1.01), run(3.0, 900.0, 1.04), run(2.0, 400.0, 1.02)])
    assert (found["q"], found["seconds"]) == (400, 2)
    assert (found["q_per_second"], found["q_per_second_range"]) == (200, [100, 300])
    assert (found["compile_seconds"], found["rhat_max"], found["right"]) == (6, 1.04, None)


@pytest.mark.parametrize(("verdicts", "right"), [([True, True], True), ([True, False], False), ([None, None], None)])
def test_right_in_every_run(verdicts, right):
    assert peers.summary([run(1.0, 1.0, right=each) for each in verdicts])["right"] is right


def test_ratio_is_to_the_best_of_others_that_is_not_wrong():
    rows = [row("gadabout", 6.0), row("gadabout-nuts", 9.0), row("blackjax", 2.0), row("numpyro", 8.0, right=False)]
    found = peers.ranked([*rows, row("nutpie", 3.0)])
    assert [each["peer"] for each in found] == ["gadabout-nuts", "numpyro", "gadabout", "nutpie", "blackjax"]
    assert {each["peer"]: each["ratio"] for each in found}["gadabout"] == 2
    assert peers.ranked([row("gadabout", 6.0)])[0]["ratio"] is None


def test_overall_is_a_geometric_mean_of_where_it_is_right():
    rows = [
        {**row("gadabout", 1.0, target=target, right=right), "ratio": ratio}
        for target, ratio, right in (("a", 2.0, True), ("b", 8.0, None), ("c", 100.0, False), ("d", None, None))
    ]
    mean, count, wrong = peers.overall([*rows, {**row("nutpie", 1.0), "ratio": 50.0}])
    assert (mean, count, wrong) == (pytest.approx(4.0), 2, ["c"])
    assert peers.overall([]) == (None, 0, [])


def test_draws_that_are_enough():
    assert peer_cold.enough({"q": 1_000.0, "draws": 1_000}) == 1_200
    assert peer_cold.enough({"q": 1e9, "draws": 1_000}) == 4
    assert peer_cold.enough({"q": 1.0, "draws": 1_000}) is None
    assert peer_cold.enough({"q": 0.0, "draws": 1_000}) is None


def test_right_by_a_known_covariance():
    model = targets.load("correlated-2d")
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_normal(np.zeros(2), model.covariance, (4, 1_000))
    assert peers.right(model, drawn) is True
    assert peers.right(model, drawn + 0.5) is False
    assert peers.right(model, 1.5 * drawn) is False
    assert peers.right(model, np.zeros_like(drawn)) is False


def test_right_by_the_truth_of_the_wild_set():
    drawn = wild.regressions.linear_raw_draws(np.random.default_rng(0), 4_000)
    model = wild.load("linear-raw")
    assert model.layout is not None
    x = np.concatenate([drawn[name].reshape(4, 1_000, -1) for name in model.layout.names], -1)
    assert peers.right(model, x) is True
    assert peers.right(model, x + x.std((0, 1))) is False
    assert peers.right(wild.load("funnel"), np.zeros((4, 100, 10))) is None


def test_start_is_drawn_anew_until_it_is_finite():
    model = Model(
        lambda x: jax.numpy.where(x[0] > 1, 0.0, jax.numpy.nan), start=lambda key: jax.random.normal(key, (2,))
    )
    keys = jax.random.split(jax.random.key(0), 20)
    assert jax.vmap(partial(peer_samplers.start, model))(keys)[:, 0].min() > 1


def test_missing_packages(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "nutpie", None)
    monkeypatch.setitem(sys.modules, "numpyro", None)
    names, lacking = peer_samplers.choose([])
    assert names == ["gadabout", "blackjax", "blackjax-dense", "blackjax-chees", "blackjax-meads"]
    assert lacking == ["numpyro", "nutpie"]
    assert peer_samplers.choose(["gadabout-nuts"]) == (["gadabout-nuts"], [])
    result = CliRunner().invoke(app, ["bench", "peers", "--peer", "nutpie"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert 'nutpie needs nutpie, which is not installed: pip install "gadabout[peers]"' in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--peer", "stan"], ["stan", "blackjax-dense"]),
        (["nowhere", "--peer", "gadabout"], ["nowhere"]),
        (["--draws", "3"], ["--draws", "at least 4"]),
        (["--chains", "1"], ["--chains", "at least 2"]),
        (["--repeats", "0"], ["--repeats", "at least 1"]),
    ],
)
def test_refusals(arguments, words):
    result = CliRunner().invoke(app, ["bench", "peers", *arguments])
    assert result.exit_code == 2
    assert all(word in result.stderr for word in words)


def test_side_by_side(tmp_path):
    """Two programs on a small target, and their rows."""
    names = ["--peer", "gadabout", "--peer", "blackjax"]
    arguments = ["bench", "peers", "correlated-2d", *names, "--chains", "8", "--draws", "100", "--repeats", "2"]
    result = CliRunner().invoke(app, [*arguments, "--json", str(tmp_path / "rows.json")])
    assert result.exit_code == 0, result.output
    assert "geometric mean (targets: 1)" in result.output
    rows = {row["peer"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert set(rows) == {"gadabout", "blackjax"}
    for each in rows.values():
        assert each["chains"] == 8
        assert [one["seed"] for one in each["runs"]] == [1, 2]
        assert each["runs"][0]["q"] != each["runs"][1]["q"]
    assert rows["gadabout"]["ratio"] == rows["gadabout"]["q_per_second"] / rows["blackjax"]["q_per_second"]


def test_a_failure_leaves_the_rows_before_it(tmp_path):
    names = ["correlated-2d", "nowhere", "--peer", "blackjax", "--draws", "20", "--repeats", "1"]
    result = CliRunner().invoke(app, ["bench", "peers", *names, "--json", str(tmp_path / "rows.json")])
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert [row["target"] for row in json.loads((tmp_path / "rows.json").read_text())] == ["correlated-2d"]


@pytest.mark.parametrize(
    "name", ["gadabout", "blackjax-dense", "blackjax-chees", "blackjax-meads", "numpyro", "nutpie-low-rank"]
)
def test_only_the_first_run_of_a_seed_compiles(name):
    peer, seen = peer_samplers.PEERS[name], peers.compilations()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if peer.package is not None:
            pytest.importorskip(peer.package)
        run = peer.prepare(targets.load("correlated-2d"), peer.chains, 50)
        counts, drawn = [len(seen)], []
        for seed in (0, 0, 1):
            drawn.append(run(seed)[0])
            counts.append(len(seen))
    assert drawn[0].shape == (peer.chains, 50, 2)
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])
    assert counts[0] < counts[1] == counts[2]


def test_a_run_that_compiles_is_made_again():
    programs = {}

    def draw(seed):
        if seed not in programs:
            programs[seed] = jax.jit(lambda key: seed + jax.random.normal(key, (4, 100, 2))).lower(jax.random.key(0))
            programs[seed] = programs[seed].compile()
            time.sleep(0.2)
        calls.append(seed)
        return np.asarray(programs[seed](jax.random.key(seed)))

    run = peer_samplers._clocked(draw)
    calls, model = [], targets.load("correlated-2d")
    first, second = peers._measured(model, run, 3), peers._measured(model, run, 3)
    assert calls == [3, 3, 3]
    assert first["compile_seconds"] > 0.15
    assert second["compile_seconds"] == 0
    assert first["q"] == second["q"]


def test_a_process_of_its_own(tmp_path):
    asked = {"target": "correlated-2d", "peer": "blackjax", "chains": 4, "draws": 20, "seed": 1, "data_home": None}
    found = peer_cold._process(asked, str(tmp_path))
    assert found["q"] > 0
    assert found["seconds"] > 0
    assert any(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match=r"blackjax on nowhere failed in a process of its own: .*nowhere"):
        peer_cold._process({**asked, "target": "nowhere"}, str(tmp_path))


def test_cold_rows(monkeypatch):
    """Processes in place of which numbers stand: repeats, two caches, and one peer that would need too many draws."""
    seconds = iter([9.0, 2.0, 7.0, 4.0])
    monkeypatch.setattr(peer_cold, "_process", lambda asked, programs: {"seconds": next(seconds), "q": 1_000.0})
    rows = [{"target": "t", "peer": name, "chains": 4, "draws": 100, "q": q} for name, q in (("a", 0.0), ("b", 50.0))]
    slow, never = peer_cold.cold(rows, repeats=2)
    assert (slow["peer"], slow["draws"], slow["q"]) == ("b", 2_400, 1_000)
    assert (slow["empty_seconds"], slow["empty_seconds_range"]) == (8, [7, 9])
    assert (slow["warm_seconds"], slow["warm_seconds_range"]) == (3, [2, 4])
    assert never["draws"] is never["q"] is never["warm_seconds"] is None
    assert bench_peers._cold_cells(never)[1] == "too many"
