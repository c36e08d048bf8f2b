"""The choice of the move that makes the draws, by what a trial of split HMC says, and by trials of those in question.

A pure function of draws and counts, never of the clock. There is doubt where three trajectories in a thousand diverge,
a chain accepts less than half of what the median chain accepts or stands still for longer than chance explains, or an
R-hat is above 1.1. Independence proposals are taken where the Gaussian fits: where one is worth `FINE_EFFICIENCY`
draws, if the Pareto k̂ of their importance weights is below 0.7 (0.5 with standard deviations alone). Else independence
proposals, where they reach all places, and NUTS, where others are worth little or there is doubt, are tried beside
split HMC, and that is taken whose gradients are worth most (`Pilot._worth`). Where a chain lags behind or stands still
although steps were shortened, split HMC is taken only if NUTS takes gradients without end: findings say what draws are
worth then. NUTS has the whole covariance only where trajectories would be `MUCH_LONGER` without correlations: where
scales differ from place to place a covariance says less than it seems to.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np

from gadabout.diagnostics import tail_size

FINE_PARETO_K, LARGEST_PARETO_K = 0.5, 0.7
"""of importance weights: below the one their variance is finite, and from the other on they are of no use"""
COVERED_PARETO_K = 0.35
"""with a quarter the variance of squared weights is finite; some room for the error of k̂"""
LEAST_EFFICIENCY = 0.05
"""of an independence proposal: with less, chains stay where they are for long"""
FINE_EFFICIENCY = 0.45
"""with less, or a k̂ that is not fine, split HMC comes four times as often: chains stay where few would free them"""
LITTLE, WAITING = 0.015, 4.0
"""draws that a gradient is worth, with which NUTS is tried as well, and how much less one of NUTS counts for: a short
trial flatters it, and every tick waits for the one before"""
TOO_FEW = 0.025
"""the share of independent draws with which a run of usual length has too few: 400 of 16,000"""
MOST_REPEATS, MOST_GRADIENTS = 8, 32
"""of a draw of split HMC"""
OPTIMISM = 2.0
"""times as many independent draws may be promised as are made: places that a chain leaves seldom are seldom visited"""
GRADIENT, VALUE, TURN = 1.0, 0.5, 0.5
"""the cost of one evaluation in a batch, and what a move costs beside it that has to wait for the one before"""
MUCH_LONGER = 10.0
"""times as many steps as with correlations: less is not worth what they cost where tails are long"""
ERRORS = 2.0
"""standard errors by which k̂ has to be away from its bound"""


class Move(StrEnum):
    """The moves that may be chosen, by their public names."""

    NUTS = "nuts"
    NUTS_DIAGONAL = "nuts-diagonal"
    SPLIT_HMC = "split-hmc"
    INDEPENDENCE = "independence"
    INDEPENDENCE_DIAGONAL = "independence-diagonal"
    INDEPENDENCE_OFTEN = "independence-often"
    MIXTURE = "mixture"


WORDS = {
    Move.NUTS: "NUTS with halved steps",
    Move.NUTS_DIAGONAL: "NUTS with halved steps",
    Move.SPLIT_HMC: "split HMC",
    Move.INDEPENDENCE: "independence proposals",
    Move.INDEPENDENCE_DIAGONAL: "independence proposals",
    Move.INDEPENDENCE_OFTEN: "independence proposals with more split HMC between them",
    Move.MIXTURE: "proposals from a mixture",
}


def wanted(evidence: Mapping[str, Any], shape: tuple[int, ...], most: tuple[int, int]) -> int:
    """How many iterations more a trial needs, after draws of a shape (t, chains, n): as many again, or none.

    There are at most `most`: where only k̂ is left to decide, and where there is doubt.

    With M draws in the tail k̂ has the standard error (1 + k)/√M (Vehtari et al. 2024), and k/(1 + k), which the
    evidence holds, one of (1 − k/(1 + k))/√M.
    """
    made, draws = shape[0], shape[0] * shape[1]
    if evidence["doubt"]:
        return max(min(made, most[1] - made), 0)
    if "pareto_k" not in evidence or decide({**evidence, "pareto_k": 0.0}) is not Move.INDEPENDENCE:
        return 0
    k = evidence["pareto_k"]
    if abs(k - largest_pareto_k(evidence)) >= ERRORS * (1 - k) / np.sqrt(tail_size(draws)):
        return 0
    return max(min(made, most[0] - made), 0)


def far_from_gaussian(evidence: Mapping[str, Any]) -> bool:
    """Whether the Gaussian fits so badly that other coordinates may pay, and moves are tried."""
    return bool(evidence["doubt"]) or evidence.get("independence_efficiency", 0.0) < FINE_EFFICIENCY


def largest_pareto_k(evidence: Mapping[str, Any]) -> float:
    """From which k̂ on independence proposals are not taken: with standard deviations alone no cycle is shorter."""
    return FINE_PARETO_K if evidence.get("diagonal") else LARGEST_PARETO_K


def covered(evidence: Mapping[str, Any]) -> bool:
    """Whether independence proposals may be tried where they are no fine fit.

    A trial is too short to show places that they reach seldom, as a neck, and from `COVERED_PARETO_K` on an ESS does
    not tell how wrong the draws are that miss them.
    """
    return evidence.get("pareto_k", 1.0) < COVERED_PARETO_K and evidence["independence_efficiency"] > LEAST_EFFICIENCY


def repeats(move: Move, evidence: Mapping[str, Any]) -> int:
    """Trajectories of split HMC for a draw: as many as make a tenth of an independent one.

    They are `MOST_REPEATS`, and take `MOST_GRADIENTS`, at the most.
    """
    if move is not Move.SPLIT_HMC or "share" not in evidence:
        return 1
    most = min(MOST_REPEATS, MOST_GRADIENTS // evidence.get("gradients", 1.0))
    return int(max(min(np.ceil(0.1 / max(evidence["share"], 1e-3)), most), 1))


def waiting(evidence: Mapping[str, Any]) -> float:
    """How much less a gradient of NUTS counts for than one of split HMC: no less where that would make `TOO_FEW`."""
    return 1.0 if evidence["share"] * repeats(Move.SPLIT_HMC, evidence) < TOO_FEW else WAITING


def decide(evidence: Mapping[str, Any]) -> Move:
    """The move that the evidence speaks for: NUTS, split HMC or independence proposals (see `one_of_kind`)."""
    if "worth" in evidence:
        worth = evidence["worth"]
        if evidence.get("stuck") and worth.get("nuts"):
            worth = {name: each for name, each in worth.items() if name != "split-hmc"}
        return Move(max(worth, key=lambda name: worth[name]))
    if evidence["doubt"]:
        return Move.NUTS
    independent = evidence.get("independence_efficiency", 0.0)
    if evidence.get("pareto_k", 1.0) >= largest_pareto_k(evidence) or independent <= LEAST_EFFICIENCY:
        return Move.SPLIT_HMC
    local = evidence["efficiency"] / (TURN + GRADIENT * evidence["gradients"])
    return Move.INDEPENDENCE if independent / (OPTIMISM * VALUE) > local else Move.SPLIT_HMC


def one_of_kind(move: Move, evidence: Mapping[str, Any]) -> Move:
    """Which move of that kind the evidence speaks for; `correlated` is needed of it for NUTS."""
    if move is Move.NUTS:
        return Move.NUTS if evidence["correlated"] > MUCH_LONGER else Move.NUTS_DIAGONAL
    if move is not Move.INDEPENDENCE:
        return move
    if evidence.get("diagonal"):
        return Move.INDEPENDENCE_DIAGONAL
    efficiency, k = evidence.get("independence_efficiency", 1.0), evidence.get("pareto_k", 0.0)
    return move if efficiency >= FINE_EFFICIENCY and k < FINE_PARETO_K else Move.INDEPENDENCE_OFTEN


def why(evidence: Mapping[str, Any]) -> str:
    """The choice, `move` of the evidence, in one line; `named` says whether the user made it."""
    chosen = WORDS[Move(evidence["move"])]
    if evidence["named"]:
        return f"{chosen}, as named"
    if "modes" in evidence and evidence["move"] == Move.MIXTURE:
        share = f"a proposal is worth {evidence['mixture_efficiency']:.2f} draws"
        return f"{chosen} of {len(evidence['modes'])}, since there are several modes: {share}"
    if evidence["doubt"]:
        link = "although" if evidence["move"] == Move.SPLIT_HMC else "because with split HMC"
        return f"{chosen}, {link} {' and '.join(evidence['doubt'])}"
    local = f"a move of split HMC is worth {evidence['efficiency']:.2f} draws, in {evidence['gradients']:.1f} gradients"
    if "pareto_k" not in evidence:
        return f"{chosen}: {local}"
    efficiency, k = evidence["independence_efficiency"], evidence["pareto_k"]
    return f"{chosen}: {local}, an independence proposal {efficiency:.2f} (Pareto k̂ {k:.2f})"
