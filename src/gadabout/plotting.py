"""Figures: the only file that imports matplotlib, with the parts that figures of runs and of experiments share."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator
from scipy.stats import kstwobign, rankdata

from gadabout.files import whole_file

__all__ = [
    "CHAIN_COLOURS",
    "MAX_POINTS",
    "MUTED",
    "OURS",
    "SECOND",
    "TRUTH",
    "Axes",
    "Figure",
    "MaxNLocator",
    "SubFigure",
    "canvas",
    "data_uri",
    "heading",
    "note",
    "ranks",
    "save",
    "thin",
    "tidy",
    "trace",
]

OURS, TRUTH, SECOND, MUTED = "#0072B2", "#009E73", "#D55E00", "#888888"
"""Colours of Okabe and Ito, which colour-blind readers can distinguish."""
CHAIN_COLOURS = (OURS, "#E69F00", TRUTH, "#CC79A7", "#56B4E9", SECOND, "#8C6D1F", "#333333")
"""The colours of chains: the same with a darker yellow."""
MAX_POINTS = 4_000
CHANCE = 0.01
"""probability that any chain leaves the band of the ranks if the chains agree"""
GRID = 201
"""number of ranks at which the chains' distributions are drawn"""


def canvas(width: float, height: float, gap: float = 0.07) -> Figure:
    """An empty figure that belongs to no window; sizes in inches, `gap` above and below each panel."""
    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(h_pad=gap, w_pad=0.06))
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> Path:
    """Writes a figure in the format of the path's suffix, completely or not at all; raises like `files.whole_file`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        figure.savefig(partial, dpi=130)
    return path


def data_uri(figure: Figure) -> str:
    """The figure as a data URI, for a page that needs no separate file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def heading(axes: Axes, text: str) -> None:
    """Adds a title above the left corner."""
    axes.set_title(text, fontsize=9, loc="left", parse_math=False)


def note(axes: Axes, text: str, x: float = 0.02, y: float = 0.03, **how: Any) -> None:
    """Adds small text inside a panel; `x` and `y` are fractions of its width and height."""
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    axes.text(x, y, text, transform=axes.transAxes, fontsize=7.5, bbox=box, zorder=5, **how)


def tidy(*row: Axes, across: int | None = 4, up: int | None = 5) -> None:
    """Sets small tick labels, and removes the frame at the top and on the right.

    A linear axis gets at most `across` (x) or `up` (y) intervals, unless that is None.
    """
    for axes in row:
        axes.tick_params(labelsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        for axis, intervals in ((axes.xaxis, across), (axes.yaxis, up)):
            if intervals is not None and axis.get_scale() == "linear":
                axis.set_major_locator(MaxNLocator(intervals))


def trace(axes: Axes, values: np.ndarray, colour: str = OURS) -> None:
    """Plots the values (draw,) of one chain against the draw."""
    index, shown = thin(values)
    axes.plot(index, shown, color=colour, linewidth=0.35 if len(shown) > 1_000 else 0.8)
    axes.set_xlim(0, max(len(values), 1))


def thin(values: np.ndarray, most: int = MAX_POINTS) -> tuple[np.ndarray, np.ndarray]:
    """The indices of at most `most` evenly spaced values along the first axis, and the values there."""
    index = np.arange(0, len(values), -(-len(values) // most) or 1)
    return index, values[index]


def ranks(axes: Axes, draws: np.ndarray, within: float, every: int = 1) -> None:
    """Plots the distribution of each chain's ranks among all draws (chain, draw), minus the uniform one.

    Only one chain in `every` is drawn. The band is Kolmogorov's for each chain's own ESS, `within` in all, as the
    number of independent draws. Any of the C chains leaves it by chance with the probability CHANCE.
    """
    chains, count = draws.shape
    ranked = rankdata(draws).reshape(draws.shape) / (draws.size + 1)
    grid = np.linspace(0, 1, GRID)
    for number, own in enumerate(ranked[::every]):
        below = np.searchsorted(np.sort(own), grid, side="right") / count
        axes.plot(grid, below - grid, color=CHAIN_COLOURS[number % len(CHAIN_COLOURS)], linewidth=0.8)
    if np.isfinite(within) and chains > 1:
        half = kstwobign.isf(CHANCE / chains) / np.sqrt(max(within / chains, 1.0)) * np.sqrt((chains - 1) / chains)
        axes.fill_between([0, 1], -half, half, color=MUTED, alpha=0.25, linewidth=0)
    axes.set_xlim(0, 1)
