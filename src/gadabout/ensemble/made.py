"""The moves that handovers describe: the only mapping from names to moves."""

from dataclasses import replace
from typing import Any

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.ensemble.choose import Move
from gadabout.ensemble.from_mixture import FromMixture, local_step
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.independence import Independence
from gadabout.ensemble.mixture import MOST_COORDINATES, fitted
from gadabout.ensemble.move import AbstractMove
from gadabout.ensemble.nuts import Nuts
from gadabout.ensemble.split_hmc import SplitHMC
from gadabout.ensemble.tails import Tails

HALVINGS = 14
"""halvings of a stride of NUTS at most"""
FINER = 0.5
"""share of local moves with finer steps among independence proposals, where split HMC has shorter ones"""
OFTEN, SELDOM = 4, 32
"""iterations from one local move to the next, for moves with more split HMC and for other independence proposals"""
DIAGONAL = (Move.INDEPENDENCE_DIAGONAL, Move.INDEPENDENCE_OFTEN_DIAGONAL)
WITH_MORE_LOCAL = (Move.INDEPENDENCE_OFTEN, Move.INDEPENDENCE_OFTEN_DIAGONAL)
"""independence proposals with standard deviations alone, and those with more split HMC between them"""


def move_of(handover: Handover) -> Move:
    """The move that was chosen."""
    assert handover.move is not None
    return list(Move)[int(handover.move)]


def nuts_chosen(handover: Handover) -> bool:
    """Whether NUTS was chosen."""
    return move_of(handover) in (Move.NUTS, Move.NUTS_DIAGONAL)


def made_move(density: AbstractDensity, handover: Handover) -> AbstractMove:
    """The chosen move with its learned parameters."""
    assert handover.step_size is not None
    step_size, move = float(handover.step_size), move_of(handover)
    if handover.mixture is not None:
        return FromMixture(density, handover.mixture, step_size)
    here = handover.coordinates
    if nuts_chosen(handover):
        return Nuts(density, here, step_size, halvings=HALVINGS)
    if move in DIAGONAL and here.dense:
        here = here.diagonal()
    shorter = 0.0 if handover.shorter is None else float(handover.shorter)
    if move is Move.SPLIT_HMC:
        repeats = 1 if handover.repeats is None else int(handover.repeats)
        return SplitHMC(density, here, step_size, repeats=repeats, shorter=shorter, finer=shorter)
    local = SplitHMC(density, here, step_size, shorter=shorter, finer=FINER if shorter else 0.0)
    assert handover.tails is not None
    assert handover.weights is not None
    period = OFTEN if move in WITH_MORE_LOCAL else SELDOM
    return Independence(local, Tails(*handover.tails), handover.weights, period)


def chosen(handover: Handover, move: Move, **learned: np.ndarray) -> Handover:
    """The handover with a move, and the parameters that it needs besides the coordinates and the step size."""
    return replace(handover, move=np.asarray(list(Move).index(move)), **learned)


def with_mixture(
    density: AbstractDensity,
    ends: np.ndarray,
    rng: np.random.Generator,
    chains: int,
    target_acceptance: float = 0.8,
    least: float = 0.0,
) -> tuple[Handover | None, dict[str, Any]]:
    """The handover of chains spread by a mixture over the modes near `ends` (m, n), or None, and the evidence on it.

    It is None if the mixture is of no use, or if a proposal is worth less than `least` draws. In the latter case the
    evidence is empty, since a mixture may be fitted again later.
    """
    mixture, told = fitted(density, ends, rng) if ends.shape[1] <= MOST_COORDINATES else (None, {})
    if mixture is None:
        return None, told
    if told["mixture_efficiency"] < least:
        return None, {}
    x, step_size = local_step(density, mixture, rng, chains, target_acceptance)
    return chosen(Handover(x, step_size=np.asarray(step_size)), Move.MIXTURE, **mixture.arrays()), told
