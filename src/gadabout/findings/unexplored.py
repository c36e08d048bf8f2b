r"""Findings on mass that the draws do not show: farther out than all of them, or where chains seldom enter or leave.

Let π/Z be the density of draws x, m their mean, and y = m + r (x − m), in all n coordinates or in one. Let the mass
where the draws are be 1. Then, for any r > 0, the mass of a region is the mean over draws of $r^n π(y)/π(x)$, or of
$r π(y)/π(x)$, counted only if y is in the region. Beyond twice the range of thousands of draws there is next to no
mass, however heavy the tails are; by Markov's inequality the estimate seldom says otherwise.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.findings.records import MOST_NAMED, Finding
from gadabout.findings.run import other_move

RADII, OF_ONE = 1.6 ** np.arange(1, 21), 4.0 ** np.arange(1, 8)
"""`RADII`: factors r for all coordinates, up to 12,000. `OF_ONE`: factors r for one coordinate, up to 16,000."""
MOST_COORDINATES = 50
"""largest number of coordinates that are also tried one by one"""
DRAWS, FEWEST = 32, 100
"""`DRAWS`: draws from which mass is searched for. `FEWEST`: smallest number of draws whose range is used."""
OUT = 2.0
"""multiple of the draws' range, about their mean, beyond which mass counts as unexplored"""
MOST_MASS = 0.1
"""mass found there above which it is reported, relative to the mass where the draws are"""
SAME = 1e-4
"""tolerance, both relative and absolute in nats, for log π at a draw against its recorded `lp`"""
LEAST_STAY, CHANCE = 40, 1e-6
"""`LEAST_STAY`: smallest number of rejections in a row that is reported. `CHANCE`: probability of as many in the run,
by its own share of rejections, below which they are reported."""


def unexplored(density: AbstractDensity, x: np.ndarray, lp: np.ndarray, names: list[str]) -> list[Finding]:
    """A finding on mass farther out than the draws; at most one.

    Args:
        density: the density of flat positions.
        x: draws, (draws, n), in the coordinates of the density; nothing is found if log π at them differs from `lp`.
        lp: the recorded log π of these draws, (draws,).
        names: names of the flat position's coordinates.
    """
    if len(x) < FEWEST or not np.isfinite(x).all():
        return []
    which = np.linspace(0, len(x) - 1, DRAWS).astype(int)
    n, some, here, centre = x.shape[1], x[which], density.value(x[which]), x.mean(0)
    if not np.allclose(here, lp[which], rtol=SAME, atol=SAME):
        return []
    scales = RADII[:, None] * np.ones(n)
    if 1 < n <= MOST_COORDINATES:
        alone = 1 + (OF_ONE[:, None, None] - 1) * np.eye(n)
        scales = np.concatenate([scales, alone.reshape(-1, n)])
    away = scales[:, None] * (some - centre)
    outside = (away < (x.min(0) - centre) * OUT) | (away > (x.max(0) - centre) * OUT)
    far = outside.any(2)
    value = np.full(far.shape, -np.inf)
    value[far] = density.value(centre + away[far])
    log_weights = np.log(scales).sum(1)[:, None] + np.where(np.isnan(value), -np.inf, value) - here
    weights = np.exp(np.minimum(log_weights, 100.0))
    worst = int(np.argmax(weights.mean(1)))
    mass = float(weights[worst].mean())
    if not mass > MOST_MASS:
        return []
    share = weights[worst] @ outside[worst]
    variables = [names[int(i)] for i in np.argsort(-share, kind="stable")[:MOST_NAMED] if share[i] > 0]
    problem = (
        f"the density has about {mass:.2g} times as much mass, or more, farther out in {', '.join(variables[:3])} than "
        f"{OUT:g} times the range of all draws as where the draws are"
    )
    remedy = "start farther out, with `init`, or use another parametrisation: draws are of a narrow part of the law"
    return [Finding("unexplored", problem, remedy, [], variables, mass, MOST_MASS)]


def stays(stats: Mapping[str, np.ndarray], choice: Mapping[str, Any]) -> list[Finding]:
    """A finding on chains of the default that stood still far longer than chance explains; at most one.

    Args:
        stats: statistics of the sampling stage by name, (chain, draw) each.
        choice: the default's account of how its draws were made.
    """
    accepted = stats.get("accepted") if choice.get("move") else None
    if accepted is None or not accepted.any():
        return []
    chance = max(1 - accepted.mean(), 1 / accepted.size)
    limit = max(LEAST_STAY, float(np.log(CHANCE / accepted.size) / np.log(chance))) if chance < 1 else np.inf
    longest = np.array([_longest(row) for row in ~accepted.astype(bool)])
    chains = np.flatnonzero(longest > limit).tolist()
    if not chains:
        return []
    most = int(longest.max())
    problem = (
        f"chains {chains} rejected up to {most} proposals in a row, where {chance:.1%} of all are rejected: they stood "
        "where the density is far higher than proposals allow for; how much mass is there is known from few visits"
    )
    other = other_move(choice)
    remedy = "use more num_draws and compare, or start chains in different places" + (
        f", or use {other}" if other else ""
    )
    return [Finding("stays", problem, remedy, chains=chains, figure=float(most), limit=limit)]


def _longest(events: np.ndarray) -> int:
    """The length of the longest run of True in events (draws,)."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[0], events.astype(int), [0]])))
    return int(np.max(bounds[1::2] - bounds[::2], initial=0))
