"""Figure 2: traces of the widest coordinate of Neal's Gaussian, and its scales as learned by four adaptive methods."""

from typing import Any

import numpy as np

from gadabout import plotting
from gadabout.lab.paper import likeness
from gadabout.lab.paper.session import Session
from gadabout.lab.paper.table import Outcome, markdown_table, section
from gadabout.plotting import OURS, TRUTH, Axes

TRACES = ("AM, as run", "gadRWM", "HMC-20", "gadMALAf")
DIAGONALS = ("AM, as run", "gadRWM", "gadMALAe", "gadMALAf")


def run(session: Session) -> Outcome:
    """Makes the figure from the first repeat of each method in its two rows."""
    methods = [method for method in session.methods("neal") if method.label in TRACES + DIAGONALS]
    session.complete("figure2", [("neal", method) for method in methods], 1)
    repeats = {method.label: session.found("neal", method, 1)[0] for method in methods}
    scales = np.sqrt(np.diagonal(np.asarray(session.problem("neal").covariance)))
    diagonals = {label: likeness.factor(repeats[label]) for label in DIAGONALS}
    measures: dict[str, Any] = {
        "correlation": {label: likeness.correlation(values, scales) for label, values in diagonals.items()},
        "relative_distance": {label: likeness.distance(values, scales) for label, values in diagonals.items()},
        "last_coordinate_sd": {label: float(repeats[label].series["last"].std()) for label in TRACES},
    }

    figure = plotting.canvas(12, 5.4)
    panels = figure.subplots(2, 4, sharey="row")
    for axes, label in zip(panels[0], TRACES, strict=True):
        plotting.trace(axes, repeats[label].series["last"])
        plotting.heading(axes, label)
        axes.set_xlabel("draw", fontsize=8)
    for axes, (label, values) in zip(panels[1], diagonals.items(), strict=True):
        _shape(axes, values, scales)
        plotting.heading(axes, f"{label}: correlation {measures['correlation'][label]:.3f}")
    panels[0, 0].set_ylabel("x₁₀₀", fontsize=8)
    panels[1, 0].set_ylabel("diagonal of L, scaled to the truth", fontsize=8)
    panels[1, 0].legend(fontsize=7.5, frameon=False, loc="upper left")
    panels[1, 0].set_ylim(bottom=0)
    plotting.tidy(*panels.flat)
    picture = plotting.save(figure, session.out / "figure2.png")
    return Outcome("figure2", measures=measures, markdown=_markdown(measures, picture), pictures=[picture])


def _shape(axes: Axes, values: np.ndarray, scales: np.ndarray) -> None:
    """Draws the truth, and the diagonal of L divided by the c for which c · truth is nearest to the diagonal."""
    coordinates = np.arange(1, len(values) + 1)
    axes.plot(coordinates, scales, color=TRUTH, linewidth=1.4, label="truth")
    scale = likeness.multiple(values, scales)
    axes.plot(coordinates, values / scale, ".", color=OURS, markersize=4, label="learned")
    plotting.note(axes, f"L ≈ {scale:.3f} × truth", 0.98, ha="right")
    axes.set_xlabel("coordinate", fontsize=8)


def _markdown(measures: dict[str, Any], picture) -> str:
    lines = [
        (label, f"{measures['correlation'][label]:.4f}", f"{measures['relative_distance'][label]:.3f}")
        for label in DIAGONALS
    ]
    text = (
        "Neal's Gaussian. The diagonal of L against the standard deviations 0.01, 0.02, …, 1 (the paper shows it and "
        "prints no figure):"
    )
    table = markdown_table(("Method", "correlation", "relative distance to a multiple"), lines)
    return section("Figure 2", [text, table], picture)
