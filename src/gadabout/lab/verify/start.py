"""The default's draws have the target's law from the first on, although the length of warm-up depends on draws."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gadabout.lab.verify.frame import Figure, Found, Item, Parts, bound
from gadabout.lab.verify.runs import FIRST, many

MOMENTS = (("mean", "sd"), ("second moment", "variances"))


def run(full: bool, store: Parts) -> Found:
    """Bias over 1,000 runs on every target in the full version, over 30 on one target in the quick one."""
    found = {target: (sum(part["runs"] for part in parts), *bias(parts)) for target, parts in many(full, store).items()}
    asked = sum(each.size for _, each, _ in found.values())
    figures, largest, shows = [], 0.0, np.zeros(len(FIRST))
    for target, (runs, off, error) in found.items():
        limit = bound(asked, runs)
        shows = np.maximum(shows, (limit + 1.645) * error.max((1, 2)))
        for row, first in enumerate(FIRST):
            for column, (moment, unit) in enumerate(MOMENTS):
                t = np.abs(off[row, column] / error[row, column])
                worst = t.argmax()
                what = f"{target}: bias of the {moment} over the first {first:,} of each chain's draws, {runs:,} runs"
                value = f"{off[row, column, worst]:+.4f} ± {error[row, column, worst]:.4f} {unit}, |t| {t[worst]:.1f}"
                figures.append(Figure(what, value, f"|t| below {limit:.2f}", bool(t[worst] < limit)))
                largest = max(largest, t[worst])
    told = f"bias: largest |t| {largest:.1f}; in 95 of 100 cases shows {shows[0]:.2f} (first draws) or {shows[-1]:.4f}"
    return Found(figures, f"{told} sd or variances (all draws)")


def bias(parts: Sequence[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """The mean over runs of the error of moments of first draws, and its standard error: shape (len(FIRST), 2, n)."""
    runs = sum(part["runs"] for part in parts)
    sums, squares = np.moveaxis(np.sum([part["errors"] for part in parts], 0), 1, 0)
    off = sums / runs
    return off, np.sqrt((squares / runs - off**2) / (runs - 1))


START = Item(
    "start",
    "Draws of the default are where the target is, from the first on",
    "draws that are kept before the chains have arrived; a warm-up whose end leans on what it saw",
    run,
)
