"""Seconds from the call to q = 1,000: who runs, with how many draws, and what counts for those that fall short."""

import pytest

from gadabout.lab.peers.from_call import FIRST, MOST_SECONDS, compare, process, ratios, to_wanted

SECONDS = {"gadabout": 2.0, "numpyro": 8.0, "blackjax": 6.0, "nutpie": 9.0}


def runner(q, asked):
    """A stand-in for processes: q effective draws of the first run's, by peer; `asked` collects what was run."""

    def run(known):
        asked.append(known)
        share = q[known["peer"]] / FIRST
        return {"seconds": SECONDS[known["peer"]], "q": share * known["draws"], "good": True}

    return run


def test_all_peers_run_once_then_the_default_and_the_quickest_other():
    asked = []
    rows = compare(["bym2"], list(SECONDS), (1, 2, 3), run=runner(dict.fromkeys(SECONDS, 400.0), asked))
    seeds = {peer: [each["seed"] for each in asked if each["peer"] == peer] for peer in SECONDS}
    assert seeds == {"gadabout": [0, 1, 2, 3], "blackjax": [0, 1, 2, 3], "numpyro": [0, 1], "nutpie": [0, 1]}
    assert {each["draws"] for each in asked if each["seed"]} == {3_000}  # a fifth more than q = 1,000 takes
    assert ratios(rows) == {"bym2": 3.0}


def test_who_needs_too_many_draws_is_given_up_and_counts_as_the_limit():
    asked = []
    run = runner(dict.fromkeys(SECONDS, 400.0) | {"blackjax": 1.0}, asked)
    rows = compare(["bym2"], list(SECONDS), (1,), run=run)
    (lost,) = (row for row in rows if row["peer"] == "blackjax")
    assert (lost["seconds"], lost["good"]) == (MOST_SECONDS, 0)
    assert not any(each["peer"] == "blackjax" and each["seed"] for each in asked)


def test_who_falls_short_counts_as_if_q_grew_with_seconds():
    assert to_wanted({"seconds": 6.0, "q": 500.0}) == 12.0
    assert to_wanted({"seconds": 6.0, "q": 2_000.0}) == 6.0
    assert to_wanted({"seconds": 6.0, "q": 0.0}) == MOST_SECONDS


def test_rows_are_kept(tmp_path):
    asked, file = [], tmp_path / "rows.jsonl"
    for _ in range(2):
        rows = compare(["bym2"], ["gadabout", "numpyro"], (1,), file, runner(dict.fromkeys(SECONDS, 4_000.0), asked))
    assert len(asked) == 4
    assert [row["good"] for row in rows] == [1, 1]


def test_a_process_draws_and_judges():
    found = process({"target": "eight-schools-noncentred", "peer": "gadabout", "chains": 16, "draws": 500, "seed": 1})
    assert found["good"]
    assert found["q"] > 500
    assert found["seconds"] > 0


def test_an_unknown_target_and_a_process_that_fails_are_named():
    with pytest.raises(ValueError, match="nowhere"):
        compare(["nowhere"], ["gadabout"], (1,))
    with pytest.raises(RuntimeError, match="gadabout on nowhere failed"):
        process({"target": "nowhere", "peer": "gadabout", "chains": 16, "draws": 500, "seed": 1})
