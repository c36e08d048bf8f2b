"""Intervals from the library's standard errors cover the truth at their nominal rate."""

import numpy as np

from gadabout.lab.verify.frame import Figure, Found, Item, Parts
from gadabout.lab.verify.runs import many

LEAST, MOST = 0.93, 0.97
LEVEL = 0.95


def run(full: bool, store: Parts) -> Found:
    """Coverage in 1,000 runs on every target in the full version, in 30 on one target in the quick one."""
    figures, all_runs = [], 0
    for target, parts in many(full, store).items():
        runs = sum(part["runs"] for part in parts)
        all_runs += runs
        error = np.sqrt(LEVEL * (1 - LEVEL) / runs)
        low, high = (LEAST, MOST) if full else (LEVEL - 4 * error, min(1.0, LEVEL + 4 * error))
        for kind, said in (("mean", "the mean"), ("square", "the second moment")):
            share = sum(np.sum(part[kind]) for part in parts) / (runs * len(parts[0][kind]))
            what = f"{target}: 95 % intervals of {said} that hold it, {runs:,} runs, all coordinates"
            figures.append(Figure(what, f"{share:.1%}", f"{low:.0%} to {high:.0%}", bool(low <= share <= high)))
        what = f"{target}: error of standard errors that shows, at this number of runs and one coordinate"
        figures.append(Figure(what, f"about {_detectable(low, error):.0%}"))
    shares = [figure.value for figure in figures if figure.wanted]
    told = f"95 % intervals hold the truth in {min(shares)} to {max(shares)} of {all_runs:,} runs"
    return Found(figures, told)


def _detectable(low: float, error: float) -> float:
    """Relative deficit of standard errors at which coverage falls below `low` in 95 of 100 cases."""
    from scipy.stats import norm

    covered = low - 1.645 * error
    return float(1 - norm.isf((1 - covered) / 2) / norm.isf((1 - LEVEL) / 2))


COVERAGE = Item(
    "coverage",
    "Standard errors are as large as the errors",
    "an ESS that is too large or too small, chains that are not where their law should be",
    run,
)
