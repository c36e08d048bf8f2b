"""Effective draws per gradient of the candidate moves, from short trials."""

from dataclasses import replace
from typing import Any

from gadabout.ensemble import choose
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.learning_nuts import LearningNuts
from gadabout.ensemble.made import HALVINGS, chosen, made_move
from gadabout.ensemble.move import State
from gadabout.ensemble.nuts import Nuts
from gadabout.ensemble.pilot_runs import PilotRuns

TRIED, TRIED_NUTS = 96, 48
"""iterations of independence proposals, and of NUTS, where an iteration takes many gradients"""
PIECE, MOST_SPENT = 8, 10_000
"""`PIECE`: iterations of NUTS between checks of its cost. `MOST_SPENT`: gradients of a chain after which NUTS ends."""


def worth_of_moves(
    runs: PilotRuns, begun: Handover, evidence: dict[str, Any], found: State
) -> tuple[Handover, dict[str, float]]:
    """The handover after the trials, and the effective draws per gradient of each move, by its name.

    Effective draws are those of the slowest of the whitened coordinates and of their squares; a value counts as half a
    gradient. NUTS is tried if no other move is worth much, or there is doubt. It counts for less (`choose.waiting`).

    Args:
        runs: the trials of the pilot run.
        begun: positions of the chains, and the learned parameters.
        evidence: evidence of the trial of split HMC, with the `share` of its draws that are independent.
        found: parameters of the best independence proposals.
    """
    split_hmc = evidence["share"] / (choose.TURN + choose.GRADIENT * evidence["gradients"])
    worth = {str(choose.Move.SPLIT_HMC): split_hmc}
    if choose.covered(evidence):
        handed = chosen(begun, choose.one_of_kind(choose.Move.INDEPENDENCE, evidence), **found)
        begun, worth["independence"] = runs.of_move(handed, made_move(runs.density, handed), TRIED)
    if evidence["doubt"] or max(worth.values()) < choose.LITTLE:
        others = [each for name, each in worth.items() if not (evidence["stuck"] and name == choose.Move.SPLIT_HMC)]
        waiting = choose.waiting(evidence)
        begun, alone = _of_nuts(runs, begun, evidence, waiting * max(others, default=0.0))
        worth["nuts"] = alone / waiting
    return begun, {name: float(f"{each:.3g}") for name, each in worth.items()}


def _of_nuts(runs: PilotRuns, begun: Handover, evidence: dict[str, Any], best: float) -> tuple[Handover, float]:
    """The handover after a trial of NUTS, and its effective draws per gradient.

    The trial ends with 0 draws per gradient and unchanged positions in two cases: if an iteration takes so many
    gradients that NUTS would be worth less than `best` even with independent draws, or if learning its step size takes
    more than `MOST_SPENT` gradients of a chain.
    """
    here = begun.coordinates
    if choose.one_of_kind(choose.Move.NUTS, evidence) is choose.Move.NUTS_DIAGONAL:
        here = here.diagonal()
    learner, spent = LearningNuts(runs.density, TRIED_NUTS, HALVINGS), 0.0
    state = learner.init(begun.x, here, runs.rng)
    for done in range(0, TRIED_NUTS, PIECE):
        before = runs.density.gradients
        state, _ = learner.advance(state, runs.rng, PIECE)
        piece = (runs.density.gradients - before) / len(begun.x)
        spent += piece
        hopeless = done > 0 and PIECE / piece < best
        if hopeless or spent > MOST_SPENT:
            return begun, 0.0
    move = Nuts(runs.density, *learner.learned(state), halvings=HALVINGS)
    return runs.of_move(replace(begun, x=learner.positions(state)), move, TRIED_NUTS, best)
