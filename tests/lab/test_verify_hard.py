"""Hard targets: draws are right, flagged or refused; and the judging itself."""

import numpy as np
import pytest

from gadabout.lab.verify import hard
from gadabout.lab.verify.hard_targets import beside, easy, moments, shell
from gadabout.lab.verify.hard_targets import hard as targets

HARD, EASY = targets(), easy()
SOON = ("two far modes", "spike and slab", "spike aside", "flat along x₀ + x₁", "−log π")
"""hard targets of the ordinary suite"""


def failed(name, seed):
    row = hard.judged(HARD[name], seed)
    return row if row["outcome"] in (hard.WRONG, hard.FAILED) else None


@pytest.mark.parametrize("name", SOON)
def test_some_hard_targets_are_not_wrong_without_a_word(name):
    assert failed(name, 1) is None


@pytest.mark.long
@pytest.mark.parametrize("seed", hard.SEEDS)
@pytest.mark.parametrize("name", [name for name in HARD if name not in SOON])
def test_hard_targets_are_not_wrong_without_a_word(name, seed):
    assert failed(name, seed) is None


@pytest.mark.long
@pytest.mark.parametrize("name", EASY)
def test_nothing_is_said_of_easy_targets(name):
    """No false flag in 30 runs: seldom where more than one in ten is false."""
    row = hard.judged(EASY[name], 1)
    assert (row["outcome"], row["kinds"]) == (hard.RIGHT, [])


def test_there_are_forty_and_more():
    assert len(HARD) >= 40
    assert len(EASY) == 30
    assert set(hard.QUICK) <= set(HARD)


def test_truths_by_quadrature_are_those_of_formulas():
    normal = beside(lambda x: -0.5 * (x - 1) ** 2 / 4, -30, 30)
    np.testing.assert_allclose(normal.truth.values, [1, 0, 0, 4, 1, 1], atol=1e-9)
    np.testing.assert_allclose(shell(2, 3.0, 0.01).truth.values, [0, 0, 4.5, 4.5], rtol=1e-4)


def test_wrong_draws_are_judged_wrong_and_right_ones_right():
    """|error| of six expectations below 4.9 standard errors: a false alarm in 6·10⁻⁶."""
    target = hard.Hard(lambda x: 0.0, np.zeros(3), moments(np.zeros(3), np.ones(3)))
    x = np.random.default_rng(0).standard_normal((8, 1_000, 3))
    assert hard.errors(target, x) < 4.9
    assert hard.errors(target, 1.1 * x) > 4.9
    assert hard.errors(target, x + 0.1) > 4.9
    assert hard.errors(target, np.zeros_like(x)) == np.inf
