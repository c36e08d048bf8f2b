"""The end of a run in the terminal: a table of coordinates, lines of totals, and warnings with their remedies."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gadabout.cli.progress import duration
from gadabout.cli.summary import Summary, spread

MAX_ROWS = 12
RHAT_LIMIT = 1.01
RHAT_DISAGREEMENT = 1.05
ESS_PER_CHAIN = 100
PLAIN_WIDTH = 100


def show(tree: xr.DataTree, summary: Summary, target: str, notes: Sequence[str]) -> None:
    """Prints the report of a run on stdout; `notes` are warnings that are not in the result's own attributes."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    if summary.draws.shape[1]:
        console.print(table(summary, f"{target}, {tree.attrs['sampler']}"))
        for line in totals(tree, summary):
            console.print(line, soft_wrap=not console.is_terminal)
    for warning in dict.fromkeys([*tree.attrs["warnings"], *notes, *remedies(tree, summary)]):
        console.print(f"[yellow]warning: {escape(warning)}[/]", soft_wrap=not console.is_terminal)


def table(summary: Summary, title: str) -> Table:
    """The figures of each coordinate, or of those with the smallest ESS where there are many.

    MCSE is the Monte Carlo standard error of the mean: what is left of chance in it.
    """
    chains, draws, n = summary.draws.shape
    shown = np.arange(n) if n <= MAX_ROWS else summary.worst(MAX_ROWS)
    caption = f"{chains} chains × {draws:,} draws"
    if n > MAX_ROWS:
        caption += f"; the {MAX_ROWS} of {n} coordinates with the smallest ESS"
    result = Table(title=escape(title), caption=caption, title_justify="left", caption_justify="left")
    result.add_column("", no_wrap=True)
    for heading in ("mean", "MCSE", "sd", "5 %", "95 %", "ESS bulk", "ESS tail", "R-hat"):
        result.add_column(heading, justify="right", no_wrap=True)
    for i in shown:
        x = summary.draws[:, :, i]
        sd = x.std(ddof=1) if x.size > 1 else float("nan")
        mcse = float(summary.mcse[i])
        moments = [f"{x.mean():.4g}", _judged(mcse, f"{mcse:.2g}", False)]
        moments += [f"{value:.4g}" for value in (sd, *np.quantile(x, (0.05, 0.95)))]
        ess = [float(summary.ess[kind][i]) for kind in ("bulk", "tail")]
        ess_cells = [_judged(value, f"{value:,.0f}", value < ESS_PER_CHAIN * chains) for value in ess]
        r = float(summary.rhat[i])
        result.add_row(escape(summary.names[i]), *moments, *ess_cells, _judged(r, f"{r:.3f}", r > RHAT_LIMIT))
    return result


def _judged(value: float, text: str, bad: bool) -> str:
    """A cell: yellow where it is bad, a dash where there is no value."""
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
        *([f"--until is met after {summary.draws.shape[1]:,} draws of each chain"] if early else []),
    ]


def remedies(tree: xr.DataTree, summary: Summary) -> list[str]:
    """Warnings about R-hat and ESS, each with what to do."""
    chains, draws, n = summary.draws.shape
    if draws == 0:
        return ["no draws were made: there is nothing to summarise"]
    found = []
    bad = int(np.sum(summary.rhat > RHAT_LIMIT))
    if bad:
        largest = float(np.nanmax(summary.rhat))
        remedy = f"more --warmup (now {tree.attrs['num_warmup']}) and " if largest > RHAT_DISAGREEMENT else ""
        found.append(
            f"R-hat is above {RHAT_LIMIT} for {bad} of {n} coordinates (largest {largest:.2f}): the chains "
            f"do not agree yet; try {remedy}more --draws (now {tree.attrs['num_draws']})"
        )
    smallest = np.nanmin([summary.ess["bulk"], summary.ess["tail"]]) if draws >= 4 else float("nan")
    if smallest < ESS_PER_CHAIN * chains:
        found.append(
            f"the smallest ESS per chain is {smallest / chains:.0f}, below {ESS_PER_CHAIN}, too few for quantiles and "
            f"R-hat; try --draws {_enough_draws(tree.attrs['num_draws'], smallest / chains)}"
        )
    if "until" in tree.attrs and tree.attrs.get("ending") == "completed":
        found.append(f"all {draws:,} draws were made and --until is not met; try more --draws")
    if chains == 1:
        found.append("one chain has no R-hat: nothing tells whether it has converged; use --chains 4")
    return found


def _enough_draws(draws: int, ess_per_chain: float) -> int:
    """A round number of draws that should give twice the ESS that is needed, at most 100 times the present number."""
    wanted = draws * min(100.0, max(2.0, 2 * ESS_PER_CHAIN / ess_per_chain))
    step = 10 ** int(np.log10(wanted))
    return int(np.ceil(wanted / step)) * step
