"""What the figures share: a canvas, a picture that is written whole or not at all, and the measures of likeness."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from gadabout.api.save import whole_file
from gadabout.experiments.repeats import Repeat

OURS, TRUTH, SECOND, MUTED = "#0072B2", "#009E73", "#D55E00", "#888888"
"""Colours of Okabe and Ito, which the colour-blind can tell apart."""
MAX_POINTS = 4_000


def canvas(width: float, height: float) -> Figure:
    """An empty figure, in inches, that belongs to no window."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=0.07, w_pad=0.06))
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> Path:
    """Writes a picture, complete or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        figure.savefig(partial, dpi=130)
    return path


def markdown(title: str, text: Iterable[str], picture: Path) -> str:
    """The section of a figure: heading, paragraphs, picture."""
    return "\n\n".join([f"## {title}", *text, f"![{title}]({picture.name})"]) + "\n"


def heading(axes: Axes, text: str) -> None:
    """A title above the left corner."""
    axes.set_title(text, fontsize=9, loc="left", parse_math=False)


def note(axes: Axes, text: str, x: float = 0.02, y: float = 0.03, **how: Any) -> None:
    """Small print inside a panel, in fractions of its sides."""
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    axes.text(x, y, text, transform=axes.transAxes, fontsize=7.5, bbox=box, zorder=5, **how)


def tidy(*row: Axes) -> None:
    """Small numbers, few of them, and no frame at the top and on the right."""
    for axes in row:
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        for axis, intervals in ((axes.xaxis, 4), (axes.yaxis, 5)):
            if axis.get_scale() == "linear":
                axis.set_major_locator(MaxNLocator(intervals))


def trace(axes: Axes, values: np.ndarray, colour: str = OURS) -> None:
    """The values of one chain by draw."""
    index, shown = thin(values)
    axes.plot(index, shown, color=colour, linewidth=0.35 if len(shown) > 1_000 else 0.8)
    axes.set_xlim(0, max(len(values), 1))


def thin(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most MAX_POINTS evenly spaced values, and their indices."""
    index = np.arange(0, len(values), -(-len(values) // MAX_POINTS) or 1)
    return index, values[index]


def factor(repeat: Repeat) -> np.ndarray:
    """L as a repeat keeps it: its diagonal, or the whole where the method keeps that, with any global scale in it."""
    learned = {name.rpartition(".")[2]: value for name, value in repeat.series.items() if name.startswith("learned.")}
    base = learned["matrix"] if "matrix" in learned else learned["scale"]
    return base * np.sqrt(learned.get("variance", 1.0))


def multiple(learned: np.ndarray, truth: np.ndarray) -> float:
    """The c for which c · truth is nearest to what was learned, in the Frobenius norm."""
    return float(np.sum(learned * truth) / np.sum(truth * truth))


def distance(learned: np.ndarray, truth: np.ndarray) -> float:
    """Relative Frobenius distance to the nearest multiple of the truth: 0 where proportional, 1 where unrelated."""
    return float(np.linalg.norm(learned - multiple(learned, truth) * truth) / np.linalg.norm(learned))


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of two arrays, entry by entry."""
    return float(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1])
