"""How the truth of built-in sets is made: figures and their errors, runs that disagree, the file, the command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gadabout.cli.app import app
from gadabout.lab.peers import truth
from gadabout.lab.peers.sturdy import STURDY
from gadabout.targets import sets, wild

RNG = np.random.default_rng(0)


def test_every_target_has_a_way_to_its_truth():
    assert set(sets.NAMES) == set(STURDY) | set(truth.EXACT)
    assert not set(STURDY) & set(truth.EXACT)
    assert set(truth.HEAVY) <= set(sets.NAMES)


@pytest.mark.parametrize("chains", [False, True])
def test_errors_are_those_of_independent_normals(chains):
    """Standard errors of mean, variance and quantiles of N(1, 4): 2/√N, 4 √(2/N), √(p(1 − p)/N)/density."""
    N, x = 40_000, RNG.normal(1, 2, (40_000, 3))
    figures = truth.of_chains(x.reshape(4, 10_000, 3), True) if chains else truth.of_independent(x)
    np.testing.assert_allclose(figures["mean_error"], 2 / np.sqrt(N), rtol=0.1)
    np.testing.assert_allclose(figures["variance_error"], 4 * np.sqrt(2 / N), rtol=0.1)
    expected = [2 * error / np.sqrt(N) for error in (2.11, 1.36, 1.25, 1.36, 2.11)]
    np.testing.assert_allclose(figures["quantiles_error"], np.array(expected)[:, None] * np.ones(3), rtol=0.25)
    for key, true in (("mean", 1), ("variance", 4)):
        assert (np.abs(figures[key] - true) < 5 * figures[f"{key}_error"]).all()
    np.testing.assert_allclose(figures["quantiles"][:, 0], [-2.29, -0.349, 1, 2.349, 4.29], atol=0.1)


def test_differences_are_counted_in_combined_errors():
    a = {"mean": np.zeros(2), "mean_error": np.full(2, 3.0), "variance": np.ones(2), "variance_error": np.ones(2)}
    b = a | {"mean": np.array([0.0, -10.0]), "mean_error": np.full(2, 4.0)}
    assert truth.largest_difference(a, b) == pytest.approx(2.0)


def test_runs_that_disagree_are_refused(monkeypatch):
    apart = lambda model, sampled, acceptance, seed, draws: RNG.normal(seed, 1, (8, 100, 7))
    monkeypatch.setattr(truth, "draws_of", apart)
    with pytest.raises(RuntimeError, match=r"ark: runs are .* standard errors apart"):
        truth.truth("ark", 0)


def test_draws_are_spread_over_symmetric_copies(monkeypatch):
    """Of three labels, drawn in one order, each has the mean of all three, and the variance between them."""
    centres = np.array([-2.0, 0.0, 5.0, 0.3, 0.2, 0.1, -0.5])
    draws = lambda model, sampled, acceptance, seed, draws: RNG.normal(centres, 0.1, (8, 2_000, 7))
    monkeypatch.setattr(truth, "draws_of", draws)
    document = truth.truth("mixture-labels", 0)
    assert document["method"].endswith("spread over symmetric copies")
    np.testing.assert_allclose(document["variables"]["mu"]["mean"], 1.0, atol=0.1)
    np.testing.assert_allclose(document["variables"]["mu"]["variance"], 26 / 3 + 0.01, rtol=0.05)
    np.testing.assert_allclose(document["variables"]["log_sigma"]["mean"], -0.5, atol=0.01)


def test_a_truth_goes_into_the_folder_of_its_set(tmp_path, monkeypatch):
    monkeypatch.setitem(sets.SETS, "modes", sets.SETS["modes"]._replace(folder=tmp_path / "truth"))
    path = truth.write(truth.truth("two-islands-2", 0, 1_000))
    assert path == tmp_path / "truth" / "two-islands-2.json"
    assert sets.truth("two-islands-2")["judge"] == "moments"


def test_a_truth_is_kept_and_read(tmp_path, monkeypatch):
    result = CliRunner().invoke(
        app, ["bench", "truth", "funnel", "banana", "--draws", "1000", "--folder", str(tmp_path)]
    )
    assert result.exit_code == 0, result.output
    monkeypatch.setattr(wild, "TRUTH", tmp_path)
    known = wild.truth("funnel")
    assert known["judge"] == "quantiles"
    assert known["command"] == "gadabout bench truth funnel --seed 0 --draws 1000"
    assert np.shape(known["variables"]["x"]["quantiles"]) == (9, 5)
    assert np.shape(known["variables"]["v"]["mean"]) == ()
    assert known == json.loads((tmp_path / "funnel.json").read_text())
    assert wild.truth("banana")["judge"] == "moments"


def test_an_unknown_name():
    result = CliRunner().invoke(app, ["bench", "truth", "neal"])
    assert result.exit_code == 2
    assert "'neal' is in none of the sets" in result.stderr
