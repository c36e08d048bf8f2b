"""The picture of `gadabout bench peers`: q against wall time, a panel for each target."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gadabout.lab.peers import OURS
from gadabout.plotting import CHAIN_COLOURS, MUTED, SECOND, canvas, heading, save, tidy

COLUMNS, WIDTH, HEIGHT = 4, 2.4, 2.2
"""`COLUMNS`: panels side by side. `WIDTH`, `HEIGHT`: size of a panel in inches."""
MARKS = "osD^vP*X"


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> Path:
    """Draws q against seconds for each run of `compare` that did not fail; tuning runs have small marks.

    Raises as `plotting.save` does.
    """
    names = list(dict.fromkeys(row["target"] for row in rows))
    peers = sorted({row["peer"] for row in rows}, key=lambda peer: (peer != OURS, peer))
    down, across = math.ceil(len(names) / COLUMNS), min(COLUMNS, len(names))
    figure = canvas(WIDTH * across + 1.6, HEIGHT * down + 0.3)
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for axes, name in zip(panels, names, strict=False):
        axes.set(xscale="log", yscale="log")
        for i, peer in enumerate(peers):
            for row in (row for row in rows if (row["target"], row["peer"]) == (name, peer)):
                _points(axes, row["trials"], i, 6)
                _points(axes, row["runs"] if row["repeats"] else [], i, 22)
        _same_speeds(axes)
        heading(axes, name)
        tidy(axes)
    for axes in panels[len(names) :]:
        axes.set_axis_off()
    for i, peer in enumerate(peers):
        panels[0].scatter([], [], s=22, color=_colour(i), marker=MARKS[i % len(MARKS)], label=peer)
    figure.legend(loc="outside right center", fontsize=7.5, frameon=False)
    figure.supxlabel("seconds, compilation left out", fontsize=8)
    figure.supylabel("q", fontsize=8)
    return save(figure, path)


def _points(axes: Any, runs: Sequence[Mapping[str, Any]], i: int, size: float) -> None:
    good = [run for run in runs if run["q_per_second"] > 0]
    x, y = [run["seconds"] for run in good], [run["q"] for run in good]
    axes.scatter(x, y, s=size, color=_colour(i), marker=MARKS[i % len(MARKS)], linewidths=0, zorder=3)


def _colour(i: int) -> str:
    """The colour of peer `i`; gadabout, which comes first, has one that stands out."""
    return SECOND if i == 0 else [each for each in CHAIN_COLOURS if each != SECOND][(i - 1) % (len(CHAIN_COLOURS) - 1)]


def _same_speeds(axes: Any) -> None:
    """Draws lines of equal q per second at powers of ten; each axis is widened to contain a power of ten."""
    (left, right), (low, high) = (_with_a_power(*limits) for limits in (axes.get_xlim(), axes.get_ylim()))
    for power in range(math.floor(math.log10(low / right)), math.ceil(math.log10(high / left)) + 1):
        axes.plot([left, right], [left * 10.0**power, right * 10.0**power], color=MUTED, linewidth=0.4, zorder=1)
    axes.set(xlim=(left, right), ylim=(low, high))
    axes.minorticks_off()


def _with_a_power(low: float, high: float) -> tuple[float, float]:
    """The limits, widened downwards if no power of ten lies between them."""
    below = 10.0 ** math.floor(math.log10(high))
    return min(low, below), high
