"""The choice of the move that makes the draws, by a trial of split HMC and by trials of the moves in question.

It is a pure function of draws and counts, never of the clock. There is doubt where three trajectories in a thousand
diverge, a chain accepts less than half of what the median chain accepts or stands still for longer than chance
explains, or an R-hat is above 1.1. Independence proposals are chosen where the Gaussian fits: where one is worth
`FINE_EFFICIENCY` draws and the Pareto k̂ of their importance weights is below 0.7 (0.5 with standard deviations alone).
Otherwise trials follow: of independence proposals where these reach all places, and of NUTS where the other moves are
worth little or there is doubt. The move whose gradients are worth most is chosen (`worth.worth_of_moves`). Where a
chain lags behind or stands still although steps were shortened, split HMC is chosen only if NUTS takes too many
gradients; findings then report the worth of draws. NUTS has the full covariance only where trajectories would be
`MUCH_LONGER` without correlations: where scales differ from place to place, a covariance is not as informative.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np

FINE_PARETO_K, LARGEST_PARETO_K = 0.5, 0.7
"""Pareto k̂ of importance weights: below `FINE_PARETO_K` they have a variance, from `LARGEST_PARETO_K` on no use"""
LEAST_EFFICIENCY, BARELY = 0.05, 0.01
"""draws that an independence proposal is worth at the least if it is chosen in doubt or without a trial, and if it is
tried although k̂ is not below `FINE_PARETO_K`"""
FINE_EFFICIENCY = 0.45
"""draws that an independence proposal is worth where the Gaussian fits; with less, or a k̂ that is not fine, split HMC
comes eight times as often, since few proposals free a chain that is stuck"""
LITTLE, WAITING = 0.015, 4.0
"""`LITTLE`: draws that a gradient is worth, below which NUTS is tried as well. `WAITING`: divisor of the worth of NUTS,
whose warm-up takes about as many gradients as 1,000 draws"""
TOO_FEW = 0.025
"""share of independent draws below which a run of usual length has too few: 400 of 16,000"""
MOST_REPEATS, MOST_GRADIENTS = 8, 32
"""trajectories and gradients of a draw of split HMC at most"""
OPTIMISM = 2.0
"""factor by which independent draws may be overestimated: places that a chain seldom leaves are seldom visited"""
GRADIENT, VALUE, TURN = 1.0, 0.5, 0.5
"""costs in gradients: of one evaluation in a batch, and (`TURN`) of the wait of a move for the one before"""
MUCH_LONGER = 10.0
"""ratio of steps without correlations to steps with them: less is not worth their cost where tails are long"""
ERRORS = 2.0
"""standard errors by which k̂ must differ from a bound to be on one side of it"""


class Move(StrEnum):
    """The moves that may be chosen, by their public names; runs keep their numbers, so that new moves come last."""

    NUTS = "nuts"
    NUTS_DIAGONAL = "nuts-diagonal"
    SPLIT_HMC = "split-hmc"
    INDEPENDENCE = "independence"
    INDEPENDENCE_DIAGONAL = "independence-diagonal"
    INDEPENDENCE_OFTEN = "independence-often"
    MIXTURE = "mixture"
    INDEPENDENCE_OFTEN_DIAGONAL = "independence-often-diagonal"


WORDS = {
    Move.NUTS: "NUTS with halved steps",
    Move.NUTS_DIAGONAL: "NUTS with halved steps",
    Move.SPLIT_HMC: "split HMC",
    Move.INDEPENDENCE: "independence proposals",
    Move.INDEPENDENCE_DIAGONAL: "independence proposals",
    Move.INDEPENDENCE_OFTEN: "independence proposals with more split HMC between them",
    Move.INDEPENDENCE_OFTEN_DIAGONAL: "independence proposals with more split HMC between them",
    Move.MIXTURE: "proposals from a mixture",
}


def wanted(evidence: Mapping[str, Any], shape: tuple[int, ...], most: tuple[int, int]) -> int:
    """The number of further iterations a trial needs after draws of a shape (t, chains, n): as many again, or none.

    In total they are at most `most[0]` where only k̂ is left to decide, and `most[1]` where there is doubt.
    """
    made = shape[0]
    if evidence["doubt"]:
        return max(min(made, most[1] - made), 0)
    if "pareto_k" not in evidence or decide({**evidence, "pareto_k": 0.0}) is not Move.INDEPENDENCE:
        return 0
    if abs(evidence["pareto_k"] - largest_pareto_k(evidence)) >= ERRORS * evidence.get("pareto_k_error", 0.0):
        return 0
    return max(min(made, most[0] - made), 0)


def far_from_gaussian(evidence: Mapping[str, Any]) -> bool:
    """Whether the Gaussian fits so badly that other coordinates may pay and other moves are tried."""
    return bool(evidence["doubt"]) or evidence.get("independence_efficiency", 0.0) < FINE_EFFICIENCY


def largest_pareto_k(evidence: Mapping[str, Any]) -> float:
    """The k̂ from which on no independence proposals are chosen: with standard deviations alone no cycle is shorter."""
    return FINE_PARETO_K if evidence.get("diagonal") else LARGEST_PARETO_K


def covered(evidence: Mapping[str, Any]) -> bool:
    """Whether independence proposals may be tried where the Gaussian does not fit well.

    A trial is too short to visit places that they seldom reach, such as a neck. Where k̂ exceeds `FINE_PARETO_K` by more
    than its standard error, importance weights have no variance, and the ESS does not reveal how wrong draws without
    such places are. If k̂ is above it by less, the estimated efficiency counts as well, and in doubt, as the draws
    themselves may lack such places.
    """
    k, efficiency = evidence.get("pareto_k", 1.0), evidence.get("independence_efficiency", 0.0)
    if evidence["doubt"] and efficiency <= LEAST_EFFICIENCY:
        return False
    return k < FINE_PARETO_K or (k < FINE_PARETO_K + evidence.get("pareto_k_error", 0.0) and efficiency > BARELY)


def repeats(move: Move, evidence: Mapping[str, Any]) -> int:
    """Trajectories of split HMC for a draw: as many as make a tenth of an independent one; 1 for other moves.

    They are at most `MOST_REPEATS`, and take at most `MOST_GRADIENTS`.
    """
    if move is not Move.SPLIT_HMC or "share" not in evidence:
        return 1
    most = min(MOST_REPEATS, MOST_GRADIENTS // evidence.get("gradients", 1.0))
    return int(max(min(np.ceil(0.1 / max(evidence["share"], 1e-3)), most), 1))


def waiting(evidence: Mapping[str, Any]) -> float:
    """The divisor of the worth of NUTS: `WAITING`, or 1 where split HMC has too few independent draws (`TOO_FEW`)."""
    return 1.0 if evidence["share"] * repeats(Move.SPLIT_HMC, evidence) < TOO_FEW else WAITING


def decide(evidence: Mapping[str, Any]) -> Move:
    """The move that the evidence favours: NUTS, split HMC or independence proposals (see `one_of_kind`)."""
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
    """The variant of a move that the evidence favours; NUTS requires `correlated` in the evidence."""
    if move is Move.NUTS:
        return Move.NUTS if evidence["correlated"] > MUCH_LONGER else Move.NUTS_DIAGONAL
    if move is not Move.INDEPENDENCE:
        return move
    efficiency, k = evidence.get("independence_efficiency", 1.0), evidence.get("pareto_k", 0.0)
    fine, diagonal = efficiency >= FINE_EFFICIENCY and k < FINE_PARETO_K, evidence.get("diagonal")
    if fine:
        return Move.INDEPENDENCE_DIAGONAL if diagonal else Move.INDEPENDENCE
    return Move.INDEPENDENCE_OFTEN_DIAGONAL if diagonal else Move.INDEPENDENCE_OFTEN


def why(evidence: Mapping[str, Any]) -> str:
    """The reason for `move` of the evidence, in one line; `named` of the evidence says whether the user chose it."""
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
