"""The figure of a run: its way to the target, what it learned, the posterior, and the coordinate to look at first."""

import warnings
from pathlib import Path

import numpy as np
import xarray as xr

from gadabout.cli.panels import MAX_INTERVALS, adaptation, intervals, log_density, worst_coordinate
from gadabout.cli.summary import Summary
from gadabout.plotting import Figure, canvas, save

ROWS_PER_PANEL = 11
"""Intervals that fit beside one panel of the left column."""


def save_plot(tree: xr.DataTree, summary: Summary, target: str, path: Path) -> None:
    """Draws the figure of a run and writes it in the format of the path's suffix; raises as `files.whole_file` does."""
    figure = draw(tree, summary, target, target_acceptance(tree))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as letters of a file's name that the font lacks
        save(figure, path)


def draw(tree: xr.DataTree, summary: Summary, target: str, acceptance: float | None) -> Figure:
    """The figure; `acceptance` is the rate that the sampler steers to, if it has one."""
    figure = canvas(11, 7, gap=0.08)
    grid = figure.add_gridspec(3, 2, width_ratios=(1.75, 1))
    log_density(figure.add_subfigure(grid[0, 0]), tree)
    adaptation(figure.add_subfigure(grid[1, 0]), tree, acceptance)
    if summary.draws.shape[1]:
        worst_coordinate(figure.add_subfigure(grid[2, 0]), summary)
        rows = -(-min(len(summary.names), MAX_INTERVALS) // ROWS_PER_PANEL)
        intervals(figure.add_subfigure(grid[:rows, 1]), summary)
    figure.suptitle(_title(tree, summary, target), fontsize=11, parse_math=False)
    return figure


def target_acceptance(tree: xr.DataTree) -> float | None:
    """The acceptance rate that the sampler's adaptation steers to: the first setting of that name, None without one."""
    settings = tree.attrs["sampler_settings"].items()
    return next((float(value) for name, value in settings if name.endswith(".target_acceptance")), None)


def _title(tree: xr.DataTree, summary: Summary, target: str) -> str:
    chains, draws = len(summary.draws), summary.num_draws
    parts = [f"{target}", tree.attrs["sampler"], f"{chains} {'chain' if chains == 1 else 'chains'} × {draws:,} draws"]
    if np.isfinite(summary.rhat_max):
        parts.append(f"max R-hat {summary.rhat_max:.3f}")
    smallest = float(np.min(summary.ess["bulk"]))
    if np.isfinite(smallest):
        parts.append(f"min bulk ESS {smallest:,.0f}")
    return "   ·   ".join(parts)
