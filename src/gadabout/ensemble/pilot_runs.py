"""The parts of a pilot run: iterations of split HMC, of another move, and of warm-up, whose draws are discarded."""

from dataclasses import dataclass, replace

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.ensemble import choose
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.made import chosen, made_move
from gadabout.ensemble.move import AbstractMove, Draws, State
from gadabout.ensemble.noncentring import placed, unfolded
from gadabout.ensemble.trial import Trial, effective_share
from gadabout.ensemble.warmup import Warmup

RELEARNED = 250
"""maximum number of iterations in which the Gaussian is relearned"""


@dataclass
class PilotRuns:
    """Runs that start at the positions of a handover, and return a handover with the new positions.

    Args:
        density: log π.
        rng: random generator.
        target_acceptance: target acceptance probability where the step size is relearned.
    """

    density: AbstractDensity
    rng: np.random.Generator
    target_acceptance: float

    def split_hmc(self, begun: Handover, iterations: int, shortened: float = 1.0) -> tuple[Handover, Trial]:
        """The handover after iterations of split HMC with step size times `shortened`, and their draws as a trial."""
        assert begun.step_size is not None
        handed = replace(begun, step_size=np.asarray(begun.step_size * shortened))
        move = made_move(self.density, chosen(handed, choose.Move.SPLIT_HMC))
        state, drawn = move.advance(move.init(begun.x, self.rng), self.rng, iterations)
        return replace(begun, x=move.positions(state)), as_trial(drawn, begun.coordinates)

    def of_move(
        self, begun: Handover, move: AbstractMove, iterations: int, least: float = 0.0
    ) -> tuple[Handover, float]:
        """The handover after iterations of a move, and its effective draws per gradient.

        As soon as the move is worth less than `least` even if all of its draws are independent, the run ends with 0
        draws per gradient and unchanged positions.
        """
        cost = lambda: self.density.gradients + choose.VALUE * self.density.values
        before, made, pieces = cost(), len(begun.x) * iterations, []
        state, length = move.init(begun.x, self.rng), 1 if least else iterations
        for _ in range(0, iterations, length):
            state, drawn = move.advance(state, self.rng, length)
            pieces.append(drawn)
            if made < least * (cost() - before):
                return begun, 0.0
        spent, drawn = cost() - before, {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        share = effective_share(as_trial(drawn, begun.coordinates).in_rows)
        local = choose.TURN * float(np.mean(drawn["gradient_evaluations"] > 0))
        return replace(begun, x=move.positions(state)), share / (spent / made + local)

    def warmup(self, begun: Handover) -> tuple[Handover, bool]:
        """The handover after another warm-up from its coordinates, and whether the warm-up settled."""
        warmup = Warmup(self.density, RELEARNED, self.target_acceptance)
        state = warmup.init(begun.x, begun.coordinates, self.rng)
        state, _ = warmup.advance(state, self.rng, RELEARNED)
        return learned(warmup, state), warmup.settled(state)

    def warmup_from(self, begun: Handover, draws: np.ndarray) -> tuple[Handover, bool]:
        """The handover after another warm-up from the Gaussian of draws (draws, n), and whether the warm-up settled."""
        assert begun.factor is not None
        factor = np.sqrt(draws.var(0) + np.finfo(float).tiny)
        if begun.factor.ndim == 2:
            factor = np.linalg.cholesky(np.diag(0.1 * factor**2) + 0.9 * np.cov(draws.T).reshape(len(factor), -1))
        return self.warmup(replace(begun, mean=draws.mean(0), factor=factor))


def learned(warmup: Warmup, state: State) -> Handover:
    """The handover after warm-up: positions, coordinates and step size."""
    here, step_size = Coordinates.of(state), warmup.rule.finished(state["rule"])
    x = here.x(state["chains.z"])
    return Handover(x, **here.arrays(), step_size=np.asarray(step_size))


def as_trial(drawn: Draws, coordinates: Coordinates) -> Trial:
    """The trial of these draws, in the coordinates y under the layers, with the log density of y."""
    x = drawn["position"]
    y = unfolded(coordinates.layers, x.reshape(-1, x.shape[-1]))
    stats = {name: rows for name, rows in drawn.items() if name != "position"}
    stats |= {"lp": drawn["lp"] + placed(coordinates.layers, y).log_det.reshape(x.shape[:2])}
    return Trial(y.reshape(x.shape), stats, replace(coordinates, layers=()))
