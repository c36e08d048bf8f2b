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

from gadabout import programs, targets
from gadabout.cli.app import app
from gadabout.cli.bench_samplers import show_cold
from gadabout.lab.peers import peer_cold, peer_picture, peer_samplers, peers, stan
from gadabout.model import Model
from gadabout.targets import wild


def run(seconds, q, rhat_max: float | None = 1.0, right=None):
    figures = {"q": q, "q_per_second": q / seconds, "rhat_max": rhat_max, "right": right}
    return {"seconds": seconds, "compile_seconds": 2 * seconds, **figures}


def row(peer, speed, target="t", repeats=3):
    return {"target": target, "peer": peer, "q_per_second": speed, "repeats": repeats, "failures": 0}


def test_summary_of_runs():
    found = peers.summary([run(1.0, 100.0, 1.01), run(3.0, 900.0, 1.04), run(2.0, 400.0, 1.02)])
    assert (found["q"], found["seconds"]) == (400, 2)
    assert (found["q_per_second"], found["q_per_second_range"]) == (200, [100, 300])
    assert (found["compile_seconds"], found["rhat_max"], found["right"], found["failures"]) == (6, 1.04, None, 0)
    assert peers.summary([run(1.0, 100.0), run(1.0, 100.0) | {"q_per_second": 0.0}])["failures"] == 1


@pytest.mark.parametrize(("verdicts", "right"), [([True, True], True), ([True, False], False), ([None, None], None)])
def test_right_in_every_run(verdicts, right):
    assert peers.summary([run(1.0, 1.0, right=each) for each in verdicts])["right"] is right


@pytest.mark.parametrize(
    ("q", "rhat_max", "right", "failed"),
    [
        (1_000.0, 1.009, None, False),
        (1_000.0, 1.013, None, True),
        (1_000.0, None, True, False),
        (1_000.0, 1.0, False, True),
        (400.0, 1.029, True, False),
        (400.0, 1.031, True, True),
        (0.0, 1.3, None, False),  # a chain that says nothing of itself counts for no more than `FEWEST` draws
    ],
)
def test_a_run_whose_chains_differ_or_that_is_wrong_failed(q, rhat_max, right, failed):
    assert peers.failed(run(1.0, q, rhat_max, right), chains=4) is failed


@pytest.mark.parametrize(
    ("shift", "spread", "counts"), [(0.0, 1.0, True), (1.0, 1.0, False), (0.0, 2.0, False)], ids=str
)
def test_failures_count_for_nothing_and_few_draws_for_little(shift, spread, counts):
    model, rng = targets.load("correlated-2d"), np.random.default_rng(0)
    assert model.covariance is not None
    drawn = shift + spread * rng.multivariate_normal(np.zeros(2), model.covariance, (4, 1_000))
    found = peers._measured(model, lambda seed: (drawn, 2.0), 1)
    assert found["q_per_second"] == (found["q"] / 2 if counts else 0)
    few = peers._measured(model, lambda seed: (drawn[:, :12], 2.0), 1)
    assert few["q"] < peers.FEWEST
    assert few["q_per_second"] in (0.0, peers.FEWEST / 2)


def test_ratio_is_to_the_best_of_others_that_ran_with_fresh_seeds():
    rows = [row("gadabout", 6.0), row("gadabout-nuts", 9.0), row("blackjax", 2.0), row("numpyro", 8.0, repeats=0)]
    found = peers.ranked([*rows, row("nutpie", 3.0)])
    assert [each["peer"] for each in found] == ["gadabout-nuts", "numpyro", "gadabout", "nutpie", "blackjax"]
    assert {each["peer"]: each["ratio"] for each in found}["gadabout"] == 2
    assert peers.ranked([row("gadabout", 6.0)])[0]["ratio"] is None


def test_overall_is_a_geometric_mean_and_failures_are_told():
    rows = [
        {**row("gadabout", 1.0, target), "ratio": ratio, "failures": failures}
        for target, ratio, failures in (("a", 2.0, 0), ("b", 8.0, 0), ("c", 4.0, 1), ("d", None, 0))
    ]
    mean, count, failing = peers.overall([*rows, {**row("nutpie", 1.0), "ratio": 50.0}])
    assert (mean, count, failing) == (pytest.approx(4.0), 3, ["c"])
    assert peers.overall([]) == (None, 0, [])
    assert peers.overall([rows[0], {**rows[1], "ratio": 0.0}])[0] == 0


def sampler(q_per_draw, warmup, per_draw):
    """Runs in place of which stand figures that grow with the number of draws."""
    asked = []

    def measure(draws):
        asked.append(draws)
        return {"draws": draws, "q": q_per_draw * draws, "seconds": warmup + per_draw * draws}

    return measure, asked


@pytest.mark.parametrize(("q_per_draw", "wanted"), [(1.0, [250, 5_657]), (20.0, [250]), (1_000.0, [250, 10])])
def test_draws_are_tuned(q_per_draw, wanted):
    measure, asked = sampler(q_per_draw, 1.0, 0.0)
    assert peers.tuned(measure, 5_657.0)[-1]["draws"] == wanted[-1]
    assert asked == wanted


def test_what_takes_two_minutes_at_once_is_not_made_longer():
    measure, asked = sampler(0.1, 100.0, 0.1)
    peers.tuned(measure, 5_657.0)
    assert max(asked) == 250


def test_a_slow_run_is_as_long_as_two_minutes_allow():
    """Of 50 s of warm-up and a hundredth a draw, 7,000 draws; the first guess takes all seconds to be of draws."""
    measure, asked = sampler(0.1, 50.0, 0.01)
    found = peers.tuned(measure, 5_657.0)[-1]
    assert asked[:3] == [250, 571, 7_000]
    assert found["draws"] == 7_000
    assert found["seconds"] == pytest.approx(peers.MOST_SECONDS)


def test_chains_are_tuned_and_the_best_two_others_run_again(monkeypatch, tmp_path):
    """Samplers of a known speed: each is independent draws in two seconds, and so many more a draw of each chain."""
    made = []

    def prepare(peer, cost):
        def prepared(model, chains, draws):
            root = np.linalg.cholesky(model.covariance)

            def run(seed):
                made.append((peer, chains, draws, seed))
                return np.random.default_rng((seed, chains, draws)).standard_normal(
                    (chains, draws, 2)
                ) @ root.T, peers.BRIEF + cost * draws

            return run

        return peer_samplers.Peer(prepared)

    costs = {"gadabout": 0.01, "a": 0.02, "b": 0.03, "c": 0.04}
    monkeypatch.setattr(peers, "PEERS", {peer: prepare(peer, cost) for peer, cost in costs.items()})
    file = tmp_path / "rows.jsonl"
    found = {each["peer"]: each for each in peers.compare("correlated-2d", list(costs), 2, file=file)}
    assert {peer: each["repeats"] for peer, each in found.items()} == {"gadabout": 2, "a": 2, "b": 2, "c": 0}
    for each in found.values():
        assert each["chains"] == 64
        assert 4_000 <= each["q"] <= 8_000
        assert peers.TUNING_SEED not in [run["seed"] for run in each["runs"]] or each["repeats"] == 0
    assert found["gadabout"]["ratio"] == found["gadabout"]["q_per_second"] / found["a"]["q_per_second"]
    assert [peer for peer, *_, seed in made if seed == 1] == ["gadabout", "a", "b"]

    count = len(made)
    again = {each["peer"]: each for each in peers.compare("correlated-2d", list(costs), 3, file=file)}
    assert [(peer, seed) for peer, *_, seed in made[count:]] == [("gadabout", 3), ("a", 3), ("b", 3)]
    assert again["c"]["runs"] == found["c"]["runs"]
    assert peer_picture.draw(list(again.values()), tmp_path / "peers.svg").stat().st_size > 0

    cold = {"target": "correlated-2d", "peer": "a", "chains": 4, "draws": 30, "seed": 1, "start": "process"}
    file.write_text(json.dumps(cold | {"empty_seconds": 9.0, "warm_seconds": 3.0, "q": 1_000.0}) + "\n")
    plain = peers.compare("correlated-2d", list(costs), 1, draws=30, file=file)
    assert [(each["chains"], each["draws"], each["repeats"]) for each in plain] == [(4, 30, 1)] * 4


def test_draws_that_are_enough():
    assert peer_cold.enough({"q": 1_000.0, "draws": 1_000}) == 1_200
    assert peer_cold.enough({"q": 1e9, "draws": 1_000}) == 4
    assert peer_cold.enough({"q": 1.0, "draws": 1_000}) is None
    assert peer_cold.enough({"q": 0.0, "draws": 1_000}) is None


def test_right_by_a_known_covariance():
    model = targets.load("correlated-2d")
    assert model.covariance is not None
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
    assert names == ["gadabout", *(f"blackjax{kind}" for kind in ("", "-dense", "-chees", "-meads", "-mclmc"))]
    assert lacking == ["numpyro", "nutpie"]
    assert peer_samplers.choose(["gadabout-nuts"]) == (["gadabout-nuts"], [])
    result = CliRunner().invoke(app, ["bench", "peers", "--peer", "nutpie"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert 'nutpie needs nutpie, which is not installed: pip install "gadabout[peers]"' in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--peer", "jags"], ["jags", "blackjax-dense"]),
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


@pytest.mark.long
def test_side_by_side(tmp_path):
    """Two programs on a small target, and their rows."""
    names = ["--peer", "gadabout", "--peer", "blackjax"]
    arguments = ["bench", "peers", "correlated-2d", *names, "--chains", "8", "--draws", "100", "--repeats", "2"]
    file = tmp_path / "rows.jsonl"
    result = CliRunner().invoke(app, [*arguments, "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert "geometric mean (targets: 1)" in result.output
    runs = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(run["peer"], run["seed"]) for run in runs] == [(p, s) for s in (1, 2) for p in ("gadabout", "blackjax")]
    assert all((run["chains"], run["draws"]) == (8, 100) for run in runs)
    assert len({run["q"] for run in runs}) == 4
    assert CliRunner().invoke(app, [*arguments, "--json", str(file)]).output == result.output
    assert len(file.read_text().splitlines()) == 4


def test_a_failure_leaves_the_rows_before_it(tmp_path):
    file = tmp_path / "rows.jsonl"
    names = ["correlated-2d", "nowhere", "--peer", "blackjax", "--draws", "20", "--repeats", "1"]
    result = CliRunner().invoke(app, ["bench", "peers", *names, "--json", str(file)])
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    assert [json.loads(line)["target"] for line in file.read_text().splitlines()] == ["correlated-2d"]


def test_a_file_of_something_else_is_refused(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text('{"target": "a"}\n[1, 2]\n')
    result = CliRunner().invoke(app, ["bench", "peers", "correlated-2d", "--json", str(file)])
    assert result.exit_code == 2
    assert "line 2 of" in result.stderr
    assert file.read_text() == '{"target": "a"}\n[1, 2]\n'


@pytest.mark.parametrize(
    "name",
    ["gadabout", *(f"blackjax-{kind}" for kind in ("dense", "chees", "meads", "mclmc")), "numpyro", "nutpie-low-rank"],
)
def test_only_the_first_run_of_a_seed_compiles(name):
    programs.forget()
    peer, seen = peer_samplers.PEERS[name], peers.compilations()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if peer.package is not None:
            pytest.importorskip(peer.package)
        run = peer.prepare(targets.load("correlated-2d"), peer.usual, 50)
        counts, drawn = [len(seen)], []
        for seed in (0, 0, 1):
            drawn.append(run(seed)[0])
            counts.append(len(seen))
    assert drawn[0].shape == (peer.usual, 50, 2)
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
    assert calls == [3, 3, 3, 3]
    assert first["compile_seconds"] > 0.15
    assert second["compile_seconds"] == 0
    assert first["q"] == second["q"]


@pytest.mark.parametrize(("seconds", "counts"), [([0.3, 0.2], 0.2), ([2.5], 2.5)])
def test_a_brief_run_is_made_twice_and_the_second_counts(seconds, counts):
    drawn, left = np.random.default_rng(0).normal(size=(4, 100, 2)), list(seconds)
    found = peers._measured(targets.load("correlated-2d"), lambda seed: (drawn, left.pop(0)), 1)
    assert (found["seconds"], found["compile_seconds"], left) == (counts, 0, [])


def test_a_process_of_its_own(tmp_path):
    asked = {"target": "correlated-2d", "peer": "blackjax", "chains": 4, "draws": 20, "seed": 1, "data_home": None}
    found = peer_cold.process(asked, str(tmp_path))
    assert found["q"] > 0
    assert found["seconds"] > 0
    assert any(tmp_path.iterdir())
    with pytest.raises(RuntimeError, match=r"blackjax on nowhere failed in a process of its own: .*nowhere"):
        peer_cold.process({**asked, "target": "nowhere"}, str(tmp_path))


def test_cold_rows(monkeypatch, tmp_path, capsys):
    """Processes in place of which numbers stand: repeats, two caches, and one peer that would need too many draws."""
    seconds, file = iter([9.0, 2.0, 7.0, 4.0]), tmp_path / "rows.jsonl"
    monkeypatch.setattr(peer_cold, "process", lambda asked, programs: {"seconds": next(seconds), "q": 1_000.0})
    rows = [{"target": "t", "peer": name, "chains": 4, "draws": 100, "q": q} for name, q in (("a", 0.0), ("b", 50.0))]
    slow, never = peer_cold.cold(rows, 2, file=file)
    assert (slow["peer"], slow["draws"], slow["q"]) == ("b", 2_400, 1_000)
    assert (slow["empty_seconds"], slow["empty_seconds_range"]) == (8, [7, 9])
    assert (slow["warm_seconds"], slow["warm_seconds_range"]) == (3, [2, 4])
    assert peer_cold.cold(rows, 2, file=file) == [slow, never]  # no process is started
    assert never["draws"] is never["q"] is never["warm_seconds"] is None
    show_cold("t", [slow, never], 2)
    shown = capsys.readouterr().out
    assert "8.0 (7.0–9.0)" in shown
    assert "too many" in shown


def test_a_target_without_a_program_in_stan_is_refused():
    with pytest.raises(ValueError, match="no Stan program of 'banana', only of ark, "):
        stan.program(targets.model("banana"))
    data = stan.data_of(targets.model("ark"))
    assert (data["rows"], data["n"], np.shape(data["lags"])) == (195, 5, (195, 5))
    assert stan.data_of(targets.model("neal"))["rows"] == 100
    assert "x ~ normal(0, stds)" in stan.program(targets.model("neal"))


@pytest.mark.long
@pytest.mark.parametrize("name", ["neal", "ark", "arma11", "garch11", "eight-schools-noncentred", "hidden-markov"])
def test_programs_in_stan_have_the_moments_of_their_targets(name):
    """4 chains of 3,000 draws, by Stan's own NUTS: each mean and variance within 5 standard errors of the truth."""
    pytest.importorskip("httpstan")
    model = targets.model(name)
    drawn, _ = peer_samplers.PEERS["stan"].prepare(model, 4, 3_000)(0)
    assert peers.right(model, drawn)
