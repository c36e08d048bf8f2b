r"""E-BFMI: the share of the energy's variance that new momenta make; if it is small, energies are explored slowly.

It is $\sum_t (E_t - E_{t-1})^2 / \sum_t (E_t - \bar E)^2$ for each chain (Betancourt 2016).
"""

from collections.abc import Mapping

import numpy as np

from gadabout.findings.records import Finding

SMALLEST = 0.3
"""E-BFMI below which energies, and therefore tails, are explored slowly (as in Stan and ArviZ)"""
FEWEST = 100
"""smallest number of draws of a chain from which E-BFMI is computed"""


def slow_energies(stats: Mapping[str, np.ndarray]) -> list[Finding]:
    """A finding on chains with a small E-BFMI, from statistics (chain, draw); at most one."""
    energy = stats.get("energy")
    if energy is None or energy.shape[1] < FEWEST:
        return []
    fractions = bfmi(energy)
    low = np.flatnonzero(fractions < SMALLEST)
    if not len(low):
        return []
    worst = float(fractions[low].min())
    chains = [] if len(low) == len(fractions) else low.tolist()
    who = f"chains {chains}" if chains else "all chains"
    problem = f"the energy changes little from one momentum to the next in {who}: E-BFMI is down to {worst:.2f}"
    remedy = "write the model the other way, or with lighter tails; more draws help where R-hat and ESS are right"
    return [Finding("bfmi", problem, remedy, chains=chains, figure=worst, limit=SMALLEST)]


def bfmi(energy: np.ndarray) -> np.ndarray:
    """E-BFMI of each chain, from energies (chain, draw); NaN if an energy is not finite, or if none changes."""
    energy = energy.astype(float)
    square = np.sum((energy - energy.mean(1, keepdims=True)) ** 2, 1)
    return np.where(square > 0, np.sum(np.diff(energy) ** 2, 1) / np.where(square > 0, square, 1), np.nan)
