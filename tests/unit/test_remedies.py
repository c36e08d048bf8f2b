"""What a finding advises can be done by the sampler that drew, and is something else than what it did."""

import re

import numpy as np
import pytest

import gadabout as gad
from gadabout.driver import Completed
from gadabout.ensemble.choose import Move
from gadabout.findings import run

COMPILED = {"recipe": ({}, True), "recipe, per chain": ({}, False)}
DREW = COMPILED | {str(move): ({"move": str(move), "modes": [0, 1]}, True) for move in Move}


def advice(choice, pooled):
    """The remedies of all findings of a run in which everything went wrong."""
    shape = (4, 200)
    rates = np.broadcast_to(np.array([0.8, 0.8, 0.01, 0.0])[:, None], shape)
    wrong = np.ones(shape, bool)
    stats = {"acceptance_rate": rates, "accepted": rates > 0, "diverging": wrong, "nonfinite": wrong}
    stats |= {"discontinuous": wrong, "lp": np.full(shape, -1e9, np.float32)}
    learned = {"target_acceptance": np.array([0.99])}
    found = run.found_in_run(Completed(), None, 200, stats, learned, choice=choice, pooled=pooled)
    evidence = choice | {"settled": False, "modes_seen_once": 0.5}
    found += run.few_starts(1, 4) + run.unsettled(evidence) + run.unseen_modes(evidence, ["x"])
    kinds = {finding.kind for finding in found}
    assert {"lagging", "frozen", "diverging", "nonfinite", "coarse", "acceptance", "starts"} <= kinds
    return [finding.problem + ": " + finding.remedy for finding in found]


@pytest.mark.parametrize("name", DREW)
def test_no_remedy_is_what_drew_or_cannot_be_followed(name):
    choice, pooled = DREW[name]
    for said in advice(choice, pooled):
        for move in re.findall(r"default\(move='(.*?)'\)", said):
            assert choice, f"a recipe drew: {said}"
            gad.default(move=move)
            assert not name.startswith(move), f"{name} drew: {said}"
            assert name != "mixture", f"no other move crosses from mode to mode: {said}"
        assert "adapt='per-chain'" not in said or name == "recipe", f"{name} drew: {said}"
        assert "step size" not in said or name in COMPILED, f"the default takes no step size: {said}"


def test_each_has_a_remedy_for_chains_that_lag():
    """The remedies that the law forbids elsewhere are there where they help."""
    assert any("adapt='per-chain'" in said for said in advice(*DREW["recipe"]))
    assert sum("default(move='nuts')" in said for said in advice(*DREW["split-hmc"])) >= 3


@pytest.mark.parametrize(
    ("name", "bug", "drew"),
    [
        ("other_move", lambda choice: "default(move='nuts')", "nuts-diagonal"),
        ("for_some_chains", lambda choice, pooled: "use adapt='per-chain'", "split-hmc"),
        ("for_divergences", lambda choice: "use a smaller step size", "nuts"),
    ],
)
def test_the_remedies_of_old_are_found(monkeypatch, name, bug, drew):
    monkeypatch.setattr(run, name, bug)
    with pytest.raises(AssertionError):
        test_no_remedy_is_what_drew_or_cannot_be_followed(drew)
