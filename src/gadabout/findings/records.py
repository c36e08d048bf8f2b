"""What is wrong with a result: records that a program can read, and the warnings that people see."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gadabout.files import json_value

if TYPE_CHECKING:
    import xarray as xr


class DiagnosticWarning(UserWarning):
    """The draws of a run do not deserve to be believed yet, by a figure computed from them."""


@dataclass(frozen=True)
class Finding:
    """One thing that a reader of the draws must know.

    Args:
        kind: one word on it, such as "rhat"; `DIAGNOSTICS` lists those that are judgements of the draws.
        problem: what was found, in words with its figures.
        remedy: what to do about it; empty where there is nothing to do.
        chains: which chains, counted from 0; empty where it is all of them.
        variables: coordinates by name and index, the worst first, no more than `MOST_NAMED`.
        figure: the worst figure; None where there is none or it is not finite.
        limit: the bound that the figure lies beyond, if there is one.
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
        """The finding as JSON, a Zarr store or any program wants it: words, numbers, lists and None."""
        return json_value(asdict(self))


def note(tree: "xr.DataTree", findings: Sequence[Finding]) -> None:
    """Adds findings to the attributes of a result: records as `findings`, their words as `warnings`."""
    tree.attrs["findings"] = [*tree.attrs.get("findings", []), *(finding.record() for finding in findings)]
    tree.attrs["warnings"] = [*tree.attrs.get("warnings", []), *(finding.text for finding in findings)]


def category(kind: str) -> type[UserWarning]:
    """The class of the warning that says a finding of this kind."""
    return DiagnosticWarning if kind in DIAGNOSTICS else UserWarning


DIAGNOSTICS = frozenset({"rhat", "halves", "ess", "few-draws", "acceptance", "unsettled", "cut-short"})
"""kinds that a short or badly tuned run brings about, warned of as `DiagnosticWarning`; all others are `UserWarning`"""

MOST_NAMED = 20
"""coordinates that a record names"""
