"""The figure of a run: log density, adaptation, posterior intervals, and the coordinate with the smallest ESS."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr

from gadabout.plotting import (
    CHAIN_COLOURS,
    OURS,
    SECOND,
    Axes,
    Figure,
    SubFigure,
    canvas,
    heading,
    ranks,
    save,
    thin,
    tidy,
)
from gadabout.reporting.reading import target_acceptance
from gadabout.reporting.summary import Summary

WARMUP_SHADE = "#EEEEEE"
ACCEPTANCE_COLOUR, LEARNED_COLOUR = OURS, SECOND
MAX_POINTS = 2_000
MAX_INTERVALS = 32
ROWS_PER_PANEL = 11
"""Intervals that fit beside one panel of the left column."""


def save_plot(tree: xr.DataTree, summary: Summary, target: str, path: Path) -> None:
    """Draws the figure of a run and writes it in the format of the path's suffix; raises as `files.whole_file` does."""
    figure = draw(tree, summary, target, target_acceptance(tree.attrs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for example of letters that the font lacks
        save(figure, path)


def draw(tree: xr.DataTree, summary: Summary, target: str, acceptance: float | None) -> Figure:
    """The figure; `acceptance` is the sampler's target acceptance rate, None without one."""
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


def _title(tree: xr.DataTree, summary: Summary, target: str) -> str:
    chains, draws = len(summary.draws), summary.num_draws
    parts = [f"{target}", tree.attrs["sampler"], f"{chains} {'chain' if chains == 1 else 'chains'} × {draws:,} draws"]
    if np.isfinite(summary.rhat_max):
        parts.append(f"max R-hat {summary.rhat_max:.3f}")
    smallest = float(np.min(summary.ess["bulk"]))
    if np.isfinite(smallest):
        parts.append(f"min bulk ESS {smallest:,.0f}")
    return "   ·   ".join(parts)


def log_density(panel: SubFigure, tree: xr.DataTree) -> None:
    """Draws the log density of all chains, in warm-up (shaded) and in sampling, side by side on one scale."""
    warmup, sampling = _stat(tree, "warmup_sample_stats", "lp"), _stat(tree, "sample_stats", "lp")
    stages = [(name, lp) for name, lp in (("warm-up", warmup), ("sampling", sampling)) if lp.size]
    row = panel.subplots(1, max(len(stages), 1), sharey=True, squeeze=False, gridspec_kw={"wspace": 0.02})[0]
    for axes, (name, lp) in zip(row, stages, strict=False):
        _chains(axes, lp, tree.attrs["thinning"])
        if name == "warm-up":
            axes.set_facecolor(WARMUP_SHADE)
        axes.set_xlabel(f"iteration of {name}", fontsize=8)
    tidy(*row, across=5)
    row[0].set_ylabel("log density", fontsize=8)
    settled = sampling if sampling.size else warmup[:, warmup.shape[1] // 2 :]
    if np.isfinite(settled).any():
        low, high = np.nanmin(settled), max(np.nanmax(settled), np.nanmax(warmup, initial=-np.inf))
        margin = max(high - low, 1e-9)
        row[0].set_ylim(low - (0.6 if warmup.size else 0.08) * margin, high + 0.08 * margin)
    heading(row[0], "Log density by chain")


def adaptation(panel: SubFigure, tree: xr.DataTree, target_acceptance: float | None) -> None:
    """Draws the running acceptance rate of warm-up with its target, and on a second axis β or the step size."""
    group = "warmup_sample_stats" if "warmup_sample_stats" in tree else "sample_stats"
    accepted = _stat(tree, group, "acceptance_rate")
    axes = panel.subplots()
    if accepted.size:
        window = max(accepted.shape[1] // 100, 1)
        means = accepted[:, : accepted.shape[1] // window * window].reshape(len(accepted), -1, window).mean((0, 2))
        x = (np.arange(len(means)) + 0.5) * window * tree.attrs["thinning"]
        axes.plot(x, means, color=ACCEPTANCE_COLOUR, linewidth=1.2)
        if target_acceptance is not None:
            axes.axhline(target_acceptance, color=ACCEPTANCE_COLOUR, linewidth=0.9, linestyle="--")
        axes.set_xlim(0, accepted.shape[1] * tree.attrs["thinning"])
    axes.set_ylim(0, 1)
    stage = "warm-up" if group == "warmup_sample_stats" else "sampling"
    axes.set_xlabel(f"iteration of {stage}", fontsize=8)
    axes.set_ylabel("acceptance rate", fontsize=8, color=ACCEPTANCE_COLOUR)
    tidy(axes, across=5)
    learned = _learned(axes, tree, group)
    aim = "" if target_acceptance is None else f" (dashed: its aim, {target_acceptance:g})"
    heading(axes, f"Adaptation: acceptance rate{aim}{f' and {learned}' if learned else ''}")


def _learned(axes: Axes, tree: xr.DataTree, group: str) -> str:
    """Draws β or the step size on a second axis; returns its name, or an empty string if neither is recorded."""
    for statistic, label in (("beta", "β, weight of the entropy"), ("step_size", "step size")):
        values = _stat(tree, group, statistic)
        if values.size:
            twin = axes.twinx()
            shared = bool((values == values[:1]).all())
            for chain in values[:1] if shared else values:
                x, y = _thinned(chain, tree.attrs["thinning"])
                twin.plot(x, y, color=LEARNED_COLOUR, linewidth=1.2 if shared else 0.7, alpha=1 if shared else 0.7)
            twin.set_yscale("log" if values.min() > 0 and values.max() > 5 * values.min() else "linear")
            twin.set_ylabel(label, fontsize=8, color=LEARNED_COLOUR)
            twin.tick_params(labelsize=7)
            twin.tick_params(which="minor", labelsize=0, labelright=False)
            twin.spines["top"].set_visible(False)
            return label.partition(",")[0]
    return ""


def worst_coordinate(panel: SubFigure, summary: Summary) -> None:
    """Draws trace and ranks, chain by chain, of the coordinate with the smallest bulk ESS."""
    i = int(summary.worst(1)[0])
    x = summary.draws[:, :, i]
    several = len(x) > 1 and x.shape[1] > 3
    row = panel.subplots(1, 1 + several, squeeze=False, gridspec_kw={"width_ratios": (3, 2)[: 1 + several]})[0]
    _chains(row[0], x, summary.spacing)
    row[0].set_xlabel("draw", fontsize=8)
    row[0].set_ylabel(summary.names[i], fontsize=8, parse_math=False)
    if several:
        ranks(row[1], x, float(summary.within[i]))
        row[1].set_xlabel("rank among all draws, as a share", fontsize=8)
        heading(row[1], "Ranks less uniform; grey: by chance")
    tidy(*row)
    ess = summary.ess["bulk"][i]
    heading(row[0], f"{summary.names[i]}, the smallest bulk ESS{f' ({ess:,.0f})' if np.isfinite(ess) else ''}")


def intervals(panel: SubFigure, summary: Summary) -> None:
    """Draws median, 50 % and 90 % intervals of at most 32 coordinates, those with the smallest ESS."""
    n = len(summary.names)
    shown = np.sort(summary.worst(MAX_INTERVALS))
    x = summary.draws[:, :, shown].reshape(-1, len(shown))
    low, lower, middle, upper, high = np.quantile(x, (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
    rows = np.arange(len(shown))
    axes = panel.subplots()
    axes.axvline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
    axes.hlines(rows, low, high, color=OURS, linewidth=1.2)
    axes.hlines(rows, lower, upper, color=OURS, linewidth=4)
    axes.plot(middle, rows, "o", color="white", markeredgecolor=OURS, markersize=4.5)
    axes.set_yticks(rows, [summary.names[i] for i in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    tidy(axes, across=5, up=None)
    title = "Posterior: median, 50 % and 90 %"
    heading(axes, title if n <= MAX_INTERVALS else f"{title}\n(the {MAX_INTERVALS} of {n} with the smallest ESS)")


def _stat(tree: xr.DataTree, group: str, name: str) -> np.ndarray:
    """A statistic of shape (chain, draw); of shape (0, 0) if it is not recorded."""
    if group not in tree or name not in tree[group]:
        return np.zeros((0, 0))
    return np.asarray(tree[group][name], np.float64)


def _thinned(values: np.ndarray, thinning: int) -> tuple[np.ndarray, np.ndarray]:
    """Iterations and values of at most MAX_POINTS points of a trace."""
    index, shown = thin(values, MAX_POINTS)
    return index * thinning, shown


def _chains(axes: Axes, values: np.ndarray, thinning: int) -> None:
    """Draws the traces (chain, draw) in the chains' colours."""
    for chain, colour in zip(values, _colours(len(values)), strict=True):
        axes.plot(*_thinned(chain, thinning), color=colour, linewidth=0.6, alpha=0.8)
    axes.set_xlim(0, max(values.shape[1] * thinning, 1))


def _colours(count: int) -> Iterator[str]:
    return (CHAIN_COLOURS[i % len(CHAIN_COLOURS)] for i in range(count))
