"""The rule of results.md that sets figures in bold judges every method that the paper publishes."""

import runpy
from pathlib import Path

import pytest

from gadabout.lab.paper.methods import methods

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "write_results.py"))
METHODS = [method.label for method in methods("neal")]


def cells(method, target="neal", acceptance=0.5, smallest=100.0, median=100.0):
    """The last three cells of the row, where the paper has 0.5, 100 and 100."""
    ours, published = (
        {"acceptance_rate": rate, "ess": {"min": low, "median": middle}}
        for rate, low, middle in ((acceptance, smallest, median), (0.5, 100.0, 100.0))
    )
    row = {"target": target, "method": method, "printed": True, "ours": ours, "published": published}
    return [cell.strip() for cell in SCRIPT["agreement"]([row]).splitlines()[-1].strip("|").split("|")][2:]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_judged_by_both_ess(method):
    assert cells(method, smallest=140.0)[1:] == ["**1.40**", "1.00"]
    assert cells(method, median=60.0)[1:] == ["1.00", "**0.60**"]
    assert cells(method, smallest=124.0, median=76.0)[1:] == ["1.24", "0.76"]
    assert cells(method, smallest=130.0)[1] == ("**1.30**" if method == "gadMALAf" else "1.30")
    assert cells(method, "mnist-56-as-published", smallest=130.0)[1] == "1.30"


@pytest.mark.parametrize("method", METHODS)
def test_acceptance_is_judged_where_it_is_steered(method):
    steered = method != "AM, as written" and not method.startswith("NUTS")
    assert cells(method, acceptance=0.56)[0] == ("**+0.060**" if steered else "")
    assert cells(method, acceptance=0.46)[0] == ("-0.040" if steered else "")
