"""Figures 3 to 6: log-target traces of the collected phase, a small panel for each method."""

from typing import Any

import numpy as np

from gadabout import plotting
from gadabout.lab.paper.methods import Method
from gadabout.lab.paper.published import PAPER
from gadabout.lab.paper.session import Session
from gadabout.lab.paper.table import Outcome, markdown_table, section
from gadabout.plotting import Axes
from gadabout.targets import Problem

Traces = dict[str, np.ndarray]
WIDEST = 15.0
"""largest width of a figure in inches"""
CONSTANTS = (
    "Log target of the collected phase of the first repeat, with the constants that sampling leaves out: of the "
    "Gaussian, or of a regression's prior N(0, I)."
)


def log_target_figure(
    session: Session, name: str, titles: dict[str, str], remark: str = "", columns: int = 4
) -> Outcome:
    """Makes the figure `name`: the paper's methods on each target in `titles`; panels of a target share a scale."""
    shown = {target: _shown(session, target) for target in titles}
    session.complete(name, [(target, method) for target, methods in shown.items() for method in methods], 1)
    traces: dict[str, Traces] = {}
    for target, methods in shown.items():
        constant = _constant(session.problem(target))
        traces[target] = {m.label: session.found(target, m, 1)[0].series["lp"] + constant for m in methods}
    columns = min(columns, max(len(found) for found in traces.values()))
    rows = {target: -(-len(found) // columns) for target, found in traces.items()}
    figure = plotting.canvas(max(min(3.1 * columns, WIDEST), 5.0), 2.1 * sum(rows.values()) + 0.5 * len(rows))
    grid = figure.add_gridspec(len(rows), 1, height_ratios=list(rows.values()))
    for i, (target, found) in enumerate(traces.items()):
        block = figure.add_subfigure(grid[i])
        block.suptitle(titles[target], fontsize=10, x=0.01, ha="left", parse_math=False)
        _panels(list(block.subplots(rows[target], columns, sharey=True, squeeze=False).flat), found)
    picture = plotting.save(figure, session.out / f"{name}.png")
    measures = {target: {label: _measures(lp) for label, lp in found.items()} for target, found in traces.items()}
    text = [CONSTANTS, *([remark] if remark else [])]
    text += [part for target, title in titles.items() for part in (f"**{title}**", _table(measures[target]))]
    document = section(name.replace("figure", "Figure "), text, picture)
    return Outcome(name, measures={"log_target": measures}, markdown=document, pictures=[picture])


def _shown(session: Session, target: str) -> list[Method]:
    """The methods of the paper's figure: those with a published row, with AM and NUTS as the paper ran them."""
    published = PAPER.get(target) or PAPER["mnist-56-as-published"]
    left_out = ("AM, as written", "NUTS, adapted metric")
    return [m for m in session.methods(target) if m.published in published and m.label not in left_out]


def _constant(problem: Problem) -> float:
    """Log constant: normalises a Gaussian, or makes a regression's target the joint density of weights and labels."""
    covariance = np.eye(problem.dim) if problem.covariance is None else problem.covariance
    return -0.5 * float(np.linalg.slogdet(2 * np.pi * covariance)[1])


def _panels(panels: list[Axes], found: Traces) -> None:
    low, high = typical_range(list(found.values()))
    for axes, (label, lp) in zip(panels, found.items(), strict=False):
        plotting.trace(axes, lp)
        plotting.heading(axes, label)
        axes.set_ylim(low, high)
        if remark := outside(lp, low, high):
            plotting.note(axes, remark)
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    plotting.tidy(*panels[: len(found)])
    for axes in panels[: len(found)]:
        axes.set_xlabel("draw", fontsize=8)
        if axes.get_subplotspec().is_first_col():  # pyright: ignore
            axes.set_ylabel("log target", fontsize=8)


def typical_range(traces: list[np.ndarray]) -> tuple[float, float]:
    """Limits that show the higher half of the traces nearly in full: a chain that has not converged lies below."""
    finite = sorted((trace[np.isfinite(trace)] for trace in traces), key=lambda trace: -np.median(trace))
    arrived = [np.quantile(trace, (0.0005, 0.9995)) for trace in finite[: -(-len(finite) // 2)]]
    low, high = np.min(arrived), np.max(arrived)
    margin = 0.1 * max(high - low, 1e-6)
    return float(low - margin), float(high + margin)


def outside(lp: np.ndarray, low: float, high: float) -> str:
    """Text on the draws of a trace outside the panel's limits; empty if they are below 1 % on each side."""
    below, above = np.mean(~(lp >= low)), np.mean(lp > high)
    if max(below, above) < 0.01:
        return ""
    side, share = ("below", below) if below > above else ("above", above)
    hidden = lp[~(lp >= low)] if side == "below" else lp[lp > high]
    return f"{share:.0%} of draws {side}, mean {np.mean(hidden):,.0f}"


def _measures(lp: np.ndarray) -> dict[str, Any]:
    return {"mean": float(np.mean(lp, dtype=np.float64)), "sd": float(np.std(lp, dtype=np.float64)), "draws": len(lp)}


def _table(measures: dict[str, dict[str, Any]]) -> str:
    lines = [(label, f"{m['mean']:,.2f}", f"{m['sd']:.2f}", f"{m['draws']:,}") for label, m in measures.items()]
    return markdown_table(("Method", "log target, mean", "sd", "draws"), lines)
