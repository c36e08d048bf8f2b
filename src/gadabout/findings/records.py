"""Findings, the problems of a result: records for programs, and warnings for people."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gadabout.files import json_value

if TYPE_CHECKING:
    import xarray as xr


class DiagnosticWarning(UserWarning):
    """A warning that the draws of a run cannot be trusted yet, by a figure computed from them."""


@dataclass(frozen=True)
class Finding:
    """One fact that a reader of the draws must know.

    Args:
        kind: one word for it, such as "rhat"; `DIAGNOSTICS` lists the kinds that are judgements of the draws.
        problem: the problem in words, with its figures.
        remedy: the recommended action; empty if there is none.
        chains: the chains concerned, counted from 0; empty for all of them.
        variables: coordinates by name and index, the worst first, at most `MOST_NAMED`.
        figure: the worst figure; None if there is none or it is not finite.
        limit: the bound that the figure violates, if there is one.
    """

    kind: str
    problem: str
    remedy: str = ""
    chains: Sequence[int] = ()
    variables: Sequence[str] = ()
    figure: float | None = None
    limit: float | None = None

    @property
    def text(self) -> str:
        """Problem and remedy in one line."""
        return f"{self.problem}; {self.remedy}" if self.remedy else self.problem

    def record(self) -> dict[str, Any]:
        """The finding in a form for JSON, a Zarr store or any program: words, numbers, lists and None."""
        return json_value(asdict(self))


def note(tree: "xr.DataTree", findings: Sequence[Finding]) -> None:
    """Adds findings to the attributes of a result: records as `findings`, their text as `warnings`."""
    tree.attrs["findings"] = [*tree.attrs.get("findings", []), *(finding.record() for finding in findings)]
    tree.attrs["warnings"] = [*tree.attrs.get("warnings", []), *(finding.text for finding in findings)]


def category(kind: str) -> type[UserWarning]:
    """The class of the warning for a finding of this kind."""
    return DiagnosticWarning if kind in DIAGNOSTICS else UserWarning


DIAGNOSTICS = frozenset({"rhat", "halves", "ess", "few-draws", "acceptance", "unsettled", "cut-short"})
"""kinds that a short or badly tuned run causes, warned of as `DiagnosticWarning`; all others are `UserWarning`"""

MOST_NAMED = 20
"""largest number of coordinates that a record names"""
