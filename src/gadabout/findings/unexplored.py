r"""What draws do not show: posterior mass farther out than all of them, and places that chains seldom find or leave.

Let π/Z be the density of draws x, m their mean, and y = m + r (x − m), in all n coordinates or in one. Then the mean of
$r^n π(y)/π(x)$, or of $r π(y)/π(x)$, over draws with y in a region is the mass of that region, if that of where draws
are is 1, for any r > 0. Beyond twice the range of thousands of draws there is next to no mass, however heavy tails are;
by Markov's inequality it seldom seems otherwise.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.findings.records import MOST_NAMED, Finding
from gadabout.findings.run import other_move

RADII, OF_ONE = 1.6 ** np.arange(1, 21), 4.0 ** np.arange(1, 8)
"""r of all coordinates and of one, up to 12,000 and more"""
MOST_COORDINATES = 50
"""beyond which coordinates are not tried one by one"""
DRAWS, FEWEST = 32, 100
"""draws from which mass is looked for, and draws of all chains that a range is taken from"""
OUT = 2.0
"""ranges of draws, about their mean, beyond which mass is unexplored"""
MOST_MASS = 0.1
"""of the mass where draws are, that may be found there"""
SAME = 1e-4
"""nats, relative, by which the density at a draw may differ from its recorded `lp`"""
LEAST_STAY, CHANCE = 40, 1e-6
"""rejections in a row that are reported at the least, and the chance of so many by the run's own share of rejections"""


def unexplored(density: AbstractDensity, x: np.ndarray, lp: np.ndarray, names: list[str]) -> list[Finding]:
    """Mass that is farther out than draws are; at most one finding.

    Args:
        density: of the flat positions.
        x: draws, (draws, n), in the coordinates of the density; if log π is another there, nothing is found.
        lp: their recorded log π, (draws,).
        names: of the flat position's coordinates.
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
    """Chains of the default that stood far longer than chance explains; at most one finding.

    Args:
        stats: statistics of the sampling stage by name, (chain, draw) each.
        choice: what the default says of how its draws were made.
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
    """The length of the longest row of events (draws,)."""
    bounds = np.flatnonzero(np.diff(np.concatenate([[0], events.astype(int), [0]])))
    return int(np.max(bounds[1::2] - bounds[::2], initial=0))
