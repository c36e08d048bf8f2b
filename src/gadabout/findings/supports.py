"""Findings on points that no sampler can use: log π is −∞ beyond a border, or the gradient is NaN."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.findings.records import MOST_NAMED, Finding
from gadabout.starts import SAFE_BRANCHES

MOST_OUTSIDE = 1e-3
"""share of proposals with log π = −∞ above which a border is reported"""
MOST_UNDEFINED = 1e-3
"""share of gradients that are NaN where log π is finite above which they are reported"""
MOST_ASKED, MOST_COORDINATES = 4, 300
"""`MOST_ASKED`: positions from which borders are searched for. `MOST_COORDINATES`: largest number of coordinates for
which they are."""


def undefined_gradients(density: AbstractDensity, choice: Mapping[str, Any], names: list[str]) -> list[Finding]:
    """A finding on gradients that are NaN where log π is finite, at starts or in the run; at most one.

    Args:
        density: the density that was evaluated, with its counts.
        choice: the evidence of the run; `undefined_starts` counts starts that were drawn again for this reason.
        names: names of the flat position's coordinates.
    """
    share, starts = density.undefined / max(density.gradients, 1), int(choice.get("undefined_starts", 0))
    if not (starts or share > MOST_UNDEFINED):
        return []
    order = np.argsort(-density.undefined_in, kind="stable")
    variables = [names[i] for i in order[:MOST_NAMED] if density.undefined_in[i]]
    problem = (
        f"the gradient of the log density with respect to {', '.join(variables[:3])} is NaN where its value is finite, "
        f"at {density.undefined:,} of {density.gradients:,} positions: no trajectory enters there"
        + (f", and {starts} starts were drawn anew" if starts else "")
    )
    common = {"variables": variables, "figure": float(share), "limit": MOST_UNDEFINED}
    return [Finding("gradient", problem, SAFE_BRANCHES, **common)]


def border(
    density: AbstractDensity, stats: Mapping[str, np.ndarray], x: np.ndarray | None, names: list[str]
) -> list[Finding]:
    """A finding on proposals of the sampling stage beyond a border, where log π is −∞; at most one.

    Args:
        density: the density that was evaluated, with its counts.
        stats: statistics of the sampling stage by name, (chain, draw) each.
        x: positions of chains, (chains, n), from which variables with a border are searched for; None for no search.
        names: names of the flat position's coordinates.
    """
    events = stats.get("nonfinite")
    if events is None or not events.size or not events.mean() > MOST_OUTSIDE:
        return []
    if density.outside <= density.invalid + density.undefined:
        return []
    variables = [] if x is None else [names[i] for i in bounded(density, x)[:MOST_NAMED]]
    where = f" of {', '.join(variables[:3])}{' and others' if len(variables) > 3 else ''}" if variables else ""
    problem = (
        f"the log density is −∞ beyond a border{where}: {int(events.sum()):,} of {events.size:,} proposals in the "
        "sampling stage ended there and were rejected"
    )
    remedy = "give the border by `transforms=` of gadabout.Model, such as {'sigma': 'positive'} or {'x': (0, 1)}"
    share = float(events.mean())
    chains = [] if events.any(1).all() else np.flatnonzero(events.any(1)).tolist()
    return [Finding("border", problem, remedy, chains, variables, share, MOST_OUTSIDE)]


def bounded(density: AbstractDensity, x: np.ndarray) -> np.ndarray:
    """The coordinates along whose axes log π is −∞ at twice the range of the positions x (chains, n)."""
    few, n = x[:MOST_ASKED], x.shape[1]
    if n > MOST_COORDINATES or len(x) < 2:
        return np.empty(0, int)
    steps = 2 * np.concatenate([np.diag(np.ptp(x, 0)), -np.diag(np.ptp(x, 0))])
    value = density.value((few[:, None] + steps).reshape(-1, n)).reshape(len(few), 2, n)
    return np.flatnonzero((value == -np.inf).any((0, 1)))


def probe(density: AbstractDensity, x: np.ndarray) -> None:
    """Evaluates a density at draws x (draws, n) that it did not make, and one sd around them, to fill its counts."""
    noise = np.random.default_rng(0).standard_normal(x.shape)
    density.value_and_grad(np.concatenate([x, x + x.std(0) * noise]))
