"""The end of a run in the terminal: a table of coordinates, lines of totals, and warnings with their remedies."""

import re
from collections.abc import Sequence

import numpy as np
import xarray as xr
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gadabout.cli.errors import one_line, printable
from gadabout.cli.progress import duration
from gadabout.findings.draws import ess_needed, rhat_limit
from gadabout.reporting.reading import means
from gadabout.reporting.summary import Summary, spread

MAX_ROWS = 12
PLAIN_WIDTH = 100


def show(tree: xr.DataTree, summary: Summary, target: str, notes: Sequence[str]) -> None:
    """Prints the report of a run on stdout; `notes` are warnings that are not in the result's own attributes."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    if summary.draws.shape[1]:
        console.print(table(summary, f"{target}, {tree.attrs['sampler']}"))
        for line in [*totals(tree, summary), *each_chain(tree, console.width)]:
            console.print(line, soft_wrap=not console.is_terminal)
    for warning in told(tree, notes):
        console.print(f"[yellow]warning: {escape(warning)}[/]", soft_wrap=not console.is_terminal)


def table(summary: Summary, title: str) -> Table:
    """A table of the figures of each coordinate; of many coordinates, those with the smallest ESS.

    MCSE is the Monte Carlo standard error of the mean, its random error.
    """
    chains, _, n = summary.draws.shape
    shown = np.arange(n) if n <= MAX_ROWS else summary.worst(MAX_ROWS)
    caption = f"{chains} chains × {summary.num_draws:,} draws"
    caption += f", of which one in {summary.spacing} was looked at" if summary.spacing > 1 else ""
    if n > MAX_ROWS:
        caption += f"; the {MAX_ROWS} of {n} coordinates with the smallest ESS"
    result = Table(title=escape(printable(title)), caption=caption, title_justify="left", caption_justify="left")
    result.add_column("")  # in a narrow terminal names wrap, figures do not
    for heading in ("mean", "MCSE", "sd", "5 %", "95 %", "ESS bulk", "ESS tail", "R-hat"):
        result.add_column(heading, justify="right", no_wrap=True)
    for i in shown:
        x = summary.draws[:, :, i]
        sd = x.std(ddof=1) if x.size > 1 else float("nan")
        mcse = float(summary.mcse[i])
        moments = [f"{x.mean():.4g}", _judged(mcse, f"{mcse:.2g}", False)]
        moments += [f"{value:.4g}" for value in (sd, *np.quantile(x, (0.05, 0.95)))]
        ess = [float(summary.ess[kind][i]) for kind in ("bulk", "tail")]
        ess_cells = [_judged(value, f"{value:,.0f}", value < ess_needed(chains)) for value in ess]
        r = float(summary.rhat[i])
        limit = rhat_limit(np.asarray(min(ess)), summary.within[i], chains)
        r_cell = _judged(r, f"{r:.3f}", bool(r > limit))
        result.add_row(escape(printable(summary.names[i])), *moments, *ess_cells, r_cell)
    return result


def _judged(value: float, text: str, bad: bool) -> str:
    """Text of a cell: yellow if `bad`, a dash if `value` is NaN."""
    return "–" if np.isnan(value) else f"[yellow]{text}[/]" if bad else text


def totals(tree: xr.DataTree, summary: Summary) -> list[str]:
    """The lines under the table: ESS over all coordinates, acceptance, R-hat, time and work."""
    spreads = {kind: spread(summary.ess[kind]) for kind in ("bulk", "paper", "square")}
    labels = {"bulk": "bulk", "paper": "of one chain (Geyer)", "square": "of (x - mean)²"}
    ess = " · ".join(f"{labels[kind]} {' / '.join(f'{v:,.0f}' for v in s.values())}" for kind, s in spreads.items())
    seconds = tree.attrs["seconds_sampling"]
    per_second = spreads["bulk"]["min"] / seconds if seconds > 0 else float("nan")
    times = " · ".join(
        f"{name} {duration(tree.attrs[f'seconds_{key}'])}"
        for name, key in (("compile", "compile"), ("warm-up", "warmup"), ("sampling", "sampling"))
    )
    gradients = tree.attrs["gradient_evaluations"]
    rhat_max = _judged(summary.rhat_max, f"{summary.rhat_max:.3f}", False)
    early = tree.attrs.get("ending") == "satisfied"
    return [
        f"acceptance {summary.acceptance_rate:.2f} · max R-hat {rhat_max} · {gradients:,} gradient evaluations",
        f"ESS (min / median / max): {ess}",
        f"{times} · {per_second:,.0f} ESS/s (min bulk)",
        *([f"draws by {tree.attrs['choice']['why']}"] if "why" in tree.attrs.get("choice", {}) else []),
        *([f"--until is met after {summary.num_draws:,} draws of each chain"] if early else []),
    ]


def each_chain(tree: xr.DataTree, width: int) -> list[str]:
    """A line with the acceptance rate of each chain; no line for one chain, or if it exceeds `width`."""
    rates = means(tree, "sample_stats", "acceptance_rate")
    if rates is None or len(rates) < 2:
        return []
    line = "chains accept " + " ".join(f"{rate:.2f}".removeprefix("0") for rate in rates)
    return [line] if len(line) <= width else []


def told(tree: xr.DataTree, notes: Sequence[str]) -> list[str]:
    """Warnings of a result, each once, with command-line options in place of the arguments of `gadabout.sample`."""
    return list(dict.fromkeys(one_line(_in_options(text)) for text in [*tree.attrs["warnings"], *notes]))


OPTIONS = (
    (r"\bnum_(draws|warmup|chains)=", r"--\1 "),
    (r"\bnum_(draws|warmup|chains)\b", r"--\1"),
    (r"\badapt='per-chain'", "--adapt per-chain"),
    (r"the rule of `until`", "--until"),
    (r"\bdefault\(move='([a-z-]+)'\)", r"--sampler default:move=\1"),
    (r"with `init` or `init_per_chain`", "with --init"),
    (r"use float64, jax\.config\.update\('jax_enable_x64', True\)", "leave --float32 out"),
    (r"\bgad\.resume\b|\bgadabout\.resume\b", "gadabout resume"),
    (r"\badapt_for_ever=False\b", "adapt_for_ever=false in --sampler"),
)


def _in_options(text: str) -> str:
    for argument, option in OPTIONS:
        text = re.sub(argument, option, text)
    return text
