"""Tables of our results: rows from repeats, as JSON, and as Markdown with the paper's row under each of ours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gadabout.lab.paper.methods import COLLECTED, Method
from gadabout.lab.paper.published import PAPER, SLIDES
from gadabout.lab.paper.repeats import TIMED, Repeat
from gadabout.lab.paper.session import QUICK, Session

HEADINGS = (
    "Method",
    "Time (s)",
    "Accept",
    "ESS (min, med, max)",
    "Min ESS/s (sd)",
    "Bulk ESS, min",
    "ESS of (x − mean)², min",
    "Gradients",
    "per draw",
    "Compile (s)",
)

CLOCK = ("Time (s)", "Min ESS/s (sd)", "Compile (s)")
"""columns of seconds, which the quick version leaves out: it has too few iterations for meaningful times"""

QUICK_NOTE = (
    f"The quick version: warm-up {QUICK}, {QUICK} draws, one repeat. Its figures cannot be compared with the "
    f"published ones, which are of {COLLECTED:,} draws after at least 500 iterations of warm-up; times are left out."
)

QUANTILES = ("min", "median", "max")


@dataclass
class Outcome:
    """Results of an experiment: rows and measures for the JSON, Markdown, and paths of the written pictures."""

    name: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    measures: dict[str, Any] = field(default_factory=dict)
    markdown: str = ""
    pictures: list[Path] = field(default_factory=list)


def table(session: Session, name: str, titles: dict[str, str], num_repeats: int = 10) -> Outcome:
    """The table called `name`, with a panel for each target in `titles`."""
    wanted = [(target, method) for target in titles for method in session.methods(target)]
    num_repeats = session.repeats or num_repeats
    session.complete(name, wanted, num_repeats)
    rows, panels = [], [f"## {name.capitalize()}", *([QUICK_NOTE] if session.quick else [])]
    for target, title in titles.items():
        panel = [row(target, method, session.found(target, method, num_repeats)) for method in session.methods(target)]
        _choose(panel)
        rows += panel
        panels.append(f"**{title}**\n\n{markdown(panel, timed=not session.quick)}")
    return Outcome(name, rows, markdown="\n\n".join(panels) + "\n")


def row(target: str, method: Method, repeats: list[Repeat]) -> dict[str, Any]:
    """One row of the JSON: averages over repeats, and the published row for comparison."""
    accounts = [repeat.account for repeat in repeats]
    mean = lambda key: float(np.mean([account[key] for account in accounts]))
    spread = lambda key: {
        q: float(np.mean([account[key][q] for account in accounts])) for q in ("min", "median", "max")
    }
    speeds = [account["ess"]["min"] / account["seconds"] for account in accounts]
    published, slides = (source.get(target, {}).get(method.published) for source in (PAPER, SLIDES))
    return {
        "target": target,
        "method": method.label,
        "published": published and published.as_json(),
        "slides": slides and slides.as_json(),
        "ours": {
            "seconds": mean("seconds"),
            "acceptance_rate": mean("acceptance_rate"),
            "ess": spread("ess"),
            "min_ess_per_second": {
                "mean": float(np.mean(speeds)),
                "sd": float(np.std(speeds, ddof=1)) if len(speeds) > 1 else None,
            },
            "bulk_ess": spread("bulk_ess"),
            "square_ess": spread("square_ess"),
            "gradient_evaluations": round(mean("gradient_evaluations")),
            "gradients_per_draw": mean("gradients_per_draw"),
            "compile_seconds": max(account["compile_seconds"] for account in accounts),
            "repeats": len(accounts),
        },
        "note": _note(method, len(accounts)),
        "printed": True,
    }


def _note(method: Method, repeats: int) -> str | None:
    """Remarks on how the row was made: repeats run together, scaled figures, fewer repeats; None if there are none."""
    notes = []
    if method.together:
        notes.append(
            f"ESS from {repeats} repeats run together as vectorised chains; time of one chain alone over {TIMED:,} "
            "iterations of each phase, scaled"
        )
    if method.scale > 1:
        notes.append(f"{method.num_draws:,} draws, ESS and sampling time scaled to {COLLECTED:,}")
    if method.num_repeats is not None:
        notes.append(f"{repeats} {'repeat' if repeats == 1 else 'repeats'}")
    return "; ".join(notes) or None


def _choose(panel: list[dict[str, Any]]) -> None:
    """Marks the HMC rows to print: that with the best mean Min ESS/s and that of the paper; in Table 7 all three."""
    hmc = [row for row in panel if row["method"].startswith("HMC")]
    if hmc and not hmc[0]["target"].startswith("mnist"):
        best = max(hmc, key=lambda row: row["ours"]["min_ess_per_second"]["mean"])
        for row in hmc:
            row["printed"] = row is best or row["published"] is not None


def markdown(panel: Iterable[dict[str, Any]], timed: bool = True) -> str:
    """The printed rows as a Markdown table, with the published row in italics under each and the notes below.

    The row of the authors' slides, if any, follows the published row. Columns of seconds are included if `timed`.
    """
    lines: list[list[str]] = []
    notes: list[str] = []
    for row in panel:
        if not row["printed"]:
            continue
        if row["note"] and row["note"] not in notes:
            notes.append(row["note"])
        mark = f" [{notes.index(row['note']) + 1}]" if row["note"] else ""
        ours = row["ours"]
        extra = [
            f"{ours['bulk_ess']['min']:,.0f}",
            f"{ours['square_ess']['min']:,.0f}",
            f"{ours['gradient_evaluations']:,}",
            f"{ours['gradients_per_draw']:,.1f}",
            f"{ours['compile_seconds']:.1f}",
        ]
        lines.append([f"{row['method']}{mark}", *_cells(ours), *extra])
        for source in filter(row.get, ("published", "slides")):
            lines.append([f"*{source}*", *(f"*{cell}*" for cell in _cells(row[source])), *[""] * len(extra)])
    kept = [i for i, heading in enumerate(HEADINGS) if timed or heading not in CLOCK]
    table, *lines = ([line[i] for i in kept] for line in (HEADINGS, *lines))
    return markdown_table(table, lines) + "".join(f"\n\n[{i}] {note}." for i, note in enumerate(notes, 1))


def markdown_table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table, with the first column aligned to the left and the others to the right."""
    rows = [headings, ["---", *["---:"] * (len(headings) - 1)], *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def section(title: str, text: Iterable[str], picture: Path) -> str:
    """The section of a figure: heading, paragraphs, picture."""
    return "\n\n".join([f"## {title}", *text, f"![{title}]({picture.name})"]) + "\n"


def _cells(figures: dict[str, Any]) -> list[str]:
    ess, speed = figures["ess"], figures["min_ess_per_second"]
    sd = "" if speed["sd"] is None else f" ({_short(speed['sd'])})"
    return [
        f"{figures['seconds']:.3g}" if figures["seconds"] < 100 else f"{figures['seconds']:,.0f}",
        f"{figures['acceptance_rate']:.3f}",
        ", ".join(f"{ess[key]:,.1f}" if ess[key] < 100 else f"{ess[key]:,.0f}" for key in QUANTILES),
        f"{_short(speed['mean'])}{sd}",
    ]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
