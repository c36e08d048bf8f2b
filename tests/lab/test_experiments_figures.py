"""What the paper's figures are drawn and measured with."""

import numpy as np
import pytest

from gadabout import plotting
from gadabout.lab.paper import likeness, traces
from gadabout.lab.paper.repeats import Repeat

TRUTH = np.array([[2.0, 0.5], [0.5, 1.0]])


def test_distance_to_a_multiple_is_zero_where_proportional_and_one_where_unrelated():
    assert likeness.multiple(3.0 * TRUTH, TRUTH) == pytest.approx(3.0)
    assert likeness.distance(3.0 * TRUTH, TRUTH) == pytest.approx(0.0, abs=1e-15)
    assert likeness.distance(np.array([[1.0, 0.0], [0.0, -2.0]]), TRUTH) == pytest.approx(1.0)


def test_distance_to_a_multiple_is_the_smallest_over_multiples():
    learned = np.array([[1.0, 0.7], [0.7, 0.4]])
    others = [np.linalg.norm(learned - c * TRUTH) / np.linalg.norm(learned) for c in np.linspace(0, 1, 2_001)]
    assert likeness.distance(learned, TRUTH) == pytest.approx(min(others), rel=1e-5)
    assert likeness.distance(learned, TRUTH) <= min(others)


def test_correlation_sees_shape_and_not_scale():
    assert likeness.correlation(0.1 * TRUTH, TRUTH) == pytest.approx(1.0)
    assert likeness.correlation(-TRUTH, TRUTH) == pytest.approx(-1.0)
    assert likeness.correlation(np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])) == pytest.approx(-0.5)


@pytest.mark.parametrize("length", [0, 1, 3_999, 4_000, 4_001, 20_000])
def test_thinned_traces_are_short_and_keep_their_places(length):
    values = np.arange(length) * 2.0
    index, shown = plotting.thin(values)
    assert len(shown) <= plotting.MAX_POINTS
    np.testing.assert_array_equal(shown, 2.0 * index)
    assert len(shown) > plotting.MAX_POINTS / 2 or len(shown) == length


def test_a_global_scale_is_part_of_the_factor():
    scales = np.array([0.5, 2.0])
    am = Repeat({}, {"learned.proposal.factor.multiplier": np.array(2.0), "learned.proposal.factor.base.scale": scales})
    gad = Repeat({}, {"lp": np.zeros(3), "learned.proposal.factor.matrix": scales})
    np.testing.assert_array_equal(likeness.factor(am), 2.0 * scales)
    np.testing.assert_array_equal(likeness.factor(gad), scales)


def test_traces_share_the_range_of_those_that_have_arrived():
    draws = np.random.default_rng(0).normal(-50.0, 7.0, (5, 1_000))
    draws[3:] -= np.array([[100.0], [3_000.0]])
    low, high = traces.typical_range(list(draws))
    assert -100 < low < draws[:3].min()
    assert high > draws[:3].max()
    assert traces.outside(draws[0], low, high) == ""
    assert traces.outside(draws[4], low, high).startswith("100% of draws below, mean -3,0")


def test_a_draw_that_is_not_finite_is_outside():
    lp = np.where(np.arange(100) < 50, -np.inf, 0.0)
    assert traces.typical_range([lp])[0] < 0 < traces.typical_range([lp])[1]
    assert traces.outside(lp, -1.0, 1.0) == "50% of draws below, mean -inf"


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "made" / "figure.png"
    figure = plotting.canvas(2, 1)
    plotting.trace(figure.subplots(), np.arange(5.0))
    assert plotting.save(figure, path).read_bytes().startswith(b"\x89PNG")

    def fail(partial, **_):
        partial.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plotting.save(figure, path)
    assert [file.name for file in path.parent.iterdir()] == ["figure.png"]
