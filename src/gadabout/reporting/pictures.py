"""The figures of the page, each small and separate, so that a telephone shows them one below the other."""

import numpy as np

from gadabout import plotting
from gadabout.diagnostics import judged
from gadabout.findings.draws import ess_needed
from gadabout.plotting import CHAIN_COLOURS, MUTED, OURS, Axes, Figure, MaxNLocator, canvas, tidy
from gadabout.reporting.reading import MOST_CHAINS, MOST_POINTS, Draws, every

WIDTH, HEIGHT = 5.2, 2.3
STEPS = 12
"""Number of points along the draws at which the ESS is computed."""
FEWEST = 20
"""Smallest number of draws for a meaningful ESS."""
MOST_LABELLED, LONGEST = 16, 16


def trace(values: np.ndarray, across: str, up: str, iterations: int) -> Figure:
    """Traces of values (chain, point), evenly spaced over `iterations`; one line if all chains have equal values."""
    figure, axes = _empty()
    shared = len(values) > 1 and bool((values == values[:1]).all())
    x = np.arange(values.shape[1]) * (iterations / max(values.shape[1], 1))
    for c, chain in enumerate(values[:1] if shared else values):
        colour = OURS if shared else CHAIN_COLOURS[c % len(CHAIN_COLOURS)]
        axes.plot(x, chain, color=colour, linewidth=1.2 if shared else 0.5, alpha=1 if shared else 0.8)
    axes.set_xlim(0, max(iterations, 1))
    return _labelled(figure, axes, across, up)


def coordinate(draws: Draws, i: int) -> Figure:
    """The trace of one shown coordinate."""
    x = draws.values[:, :, i]
    thin = x[:: every(len(x), MOST_CHAINS), :: every(x.shape[1], MOST_POINTS)]
    return trace(thin, "draw", "value", draws.num_draws)


def ranks(draws: Draws, i: int) -> Figure:
    """The ranks of each chain's draws of one shown coordinate among all draws (see `plotting.ranks`)."""
    figure, axes = _empty()
    x = draws.values[:, :, i]
    plotting.ranks(axes, x, float(draws.within[draws.shown[i]]), every(len(x), MOST_CHAINS))
    return _labelled(figure, axes, "rank among all draws, as a share", "difference from uniform")


def ess_by_draws(draws: Draws, chosen: np.ndarray) -> Figure:
    """The smaller of bulk and tail ESS of some shown coordinates against the number of draws, and the required ESS."""
    figure, axes = _empty()
    total = draws.values.shape[1]
    counts = np.unique(np.linspace(max(FEWEST, total // STEPS), total, STEPS).astype(int))
    found = [judged(draws.values[:, :count][:, :, chosen]) for count in counts]
    ess = np.array([np.minimum(each.bulk, each.tail) for each in found]).reshape(-1, len(chosen))
    for number, column in enumerate(ess.T):
        name = draws.names[draws.shown[chosen[number]]]
        colour = CHAIN_COLOURS[number % len(CHAIN_COLOURS)]
        axes.plot(counts * draws.spacing, column, "o-", color=colour, markersize=2.5, linewidth=1, label=name)
    axes.axhline(ess_needed(draws.num_chains), color=MUTED, linewidth=1, linestyle="--")
    axes.set_ylim(bottom=0)
    for text in axes.legend(fontsize=6.5, frameon=False).get_texts():
        text.set_parse_math(False)
    return _labelled(figure, axes, "draws of each chain", "ESS")


def acceptance(rates: np.ndarray, aim: float | None) -> Figure:
    """The acceptance rate of each chain, and the target rate `aim`."""
    figure, axes = _empty()
    axes.plot(np.arange(len(rates)), rates, "o", color=OURS, markersize=4 if len(rates) < 100 else 2)
    if aim is not None:
        axes.axhline(aim, color=MUTED, linewidth=1, linestyle="--")
    axes.set_ylim(0, 1)
    return _counted(_labelled(figure, axes, "chain", "acceptance rate"))


def matrix(values: np.ndarray, labels: list[str] | None) -> Figure:
    """A square matrix, red above zero, blue below it."""
    figure = canvas(4.2, 3.5)
    axes = figure.subplots()
    most = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    figure.colorbar(image, ax=axes, shrink=0.9).ax.tick_params(labelsize=7)
    tidy(axes)
    if labels is not None and len(labels) <= MOST_LABELLED:
        short = [label if len(label) <= LONGEST else f"…{label[1 - LONGEST :]}" for label in labels]
        axes.set_xticks(range(len(short)), short, rotation=90, parse_math=False)
        axes.set_yticks(range(len(short)), short, parse_math=False)
    return figure


def vector(values: np.ndarray, label: str) -> Figure:
    """Values against their index."""
    figure, axes = _empty()
    axes.plot(np.arange(len(values)), values, "o", color=OURS, markersize=4 if len(values) < 100 else 2)
    if len(values) and values.min() > 0 and values.max() > 20 * values.min():
        axes.set_yscale("log")
        axes.tick_params(which="minor", labelsize=0)
    return _counted(_labelled(figure, axes, "coordinate", label))


def _counted(figure: Figure) -> Figure:
    """The figure with whole numbers as ticks of its horizontal axes."""
    for axes in figure.axes:
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    return figure


def _empty() -> tuple[Figure, Axes]:
    figure = canvas(WIDTH, HEIGHT)
    return figure, figure.subplots()


def _labelled(figure: Figure, axes: Axes, across: str, up: str) -> Figure:
    tidy(axes)
    axes.set_xlabel(across, fontsize=8, parse_math=False)
    axes.set_ylabel(up, fontsize=8, parse_math=False)
    return figure
