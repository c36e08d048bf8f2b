"""Figure 7: the scale that gadMALAf learns for each pixel of MNIST, 5 against 6, as an image."""

from typing import Any

import numpy as np

from gadabout import plotting
from gadabout.lab.paper import likeness
from gadabout.lab.paper.session import Session
from gadabout.lab.paper.table import Outcome, markdown_table, section

PIXELS = 28 * 28
TITLES = {"mnist-56-as-published": "as published: 497 sixes labelled as fives", "mnist-56": "correctly labelled"}


def run(session: Session) -> Outcome:
    """Makes the figure: the first 784 diagonal elements of L on both posteriors. The paper shows the first."""
    methods = {target: session.methods(target)[0] for target in TITLES}
    session.complete("figure7", methods.items(), 1)
    diagonals, measures = {}, {}
    for target, method in methods.items():
        diagonals[target] = likeness.factor(session.found(target, method, 1)[0])[:PIXELS]
        empty = ~np.any(np.asarray(session.problem(target).data)[:, :PIXELS], axis=0)
        measures[target] = _measures(diagonals[target], empty)

    figure = plotting.canvas(9, 4.1)
    panels = figure.subplots(1, 2)
    for axes, (target, values) in zip(panels, diagonals.items(), strict=True):
        image = axes.imshow(values.reshape(28, 28), cmap="gray", interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        plotting.heading(axes, f"Diagonal of L, {TITLES[target]}")
        figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02).ax.tick_params(labelsize=7)
    picture = plotting.save(figure, session.out / "figure7.png")
    return Outcome("figure7", measures=measures, markdown=_markdown(measures, picture), pictures=[picture])


def _measures(diagonal: np.ndarray, empty: np.ndarray) -> dict[str, Any]:
    """Means of the diagonal over pixels that are zero in every image, whose weights keep the prior, and over others."""
    return {
        "empty_pixels": int(empty.sum()),
        "mean_empty": float(diagonal[empty].mean()),
        "mean_others": float(diagonal[~empty].mean()),
        "smallest_other": float(diagonal[~empty].min()),
    }


def _markdown(measures: dict[str, Any], picture) -> str:
    headings = ("Labels", "pixels zero in all images", "their mean L", "mean L of the others", "ratio", "smallest L")
    lines = [
        (
            TITLES[target],
            str(m["empty_pixels"]),
            f"{m['mean_empty']:.4f}",
            f"{m['mean_others']:.4f}",
            f"{m['mean_empty'] / m['mean_others']:.2f}",
            f"{m['smallest_other']:.4f}",
        )
        for target, m in measures.items()
    ]
    text = (
        "The paper: at the border, where pixels take no part in the classification, gadMALAf learns a much higher "
        "variance, close to the prior's (whose standard deviation is 1). Brighter is larger."
    )
    return section("Figure 7", [text, markdown_table(headings, lines)], picture)
