"""A pilot run: iterations with θ standing still that nobody keeps, by which the move of the draws is chosen.

Chains that stand where there is next to no mass begin anew where others stand, and θ is learned again. It is learned
again, too, where draws belie the fitted Gaussian: a chain that arrived late may have widened several fits that agree;
and where a chain that was slow, as in the neck of a funnel, was freed by shorter steps for a while, if no layers of
coordinates are found: then eight times as many draws are made, in which others may go where it was. Where the Gaussian
fits badly, layers are looked for in the draws, and learning and the run are done again in those that pay, with some
steps shorter. Where trajectories diverge, or chains stand still, the run is done again with some steps shorter, then
with all steps half as long, twice at the most. Where there is doubt, or only Pareto's k̂ is left to decide and its bound
is within two of its standard errors, as many draws again are made, until that is not so or they are eight times as
many. Chains that do not mix then are given a mixture to propose from, if some modes are near.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gadabout.ensemble import choose
from gadabout.ensemble.coordinates import placed
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.layering import SHORTER, Layering
from gadabout.ensemble.made import chosen, with_mixture
from gadabout.ensemble.modes import discarded_chains, distinct_starts, replacements
from gadabout.ensemble.move import State
from gadabout.ensemble.pilot_runs import PilotRuns
from gadabout.ensemble.trial import (
    LARGEST_RHAT,
    Trial,
    best_independence,
    correlated,
    diagnose,
    effective_share,
    median_rate,
    slow_chains,
    stretched,
)
from gadabout.ensemble.warmup import AGREEMENT
from gadabout.ensemble.worth import worth_of_moves

FEWEST, MOST, FOR_EACH = 800, 1_600, 8
"""draws of all chains in a pilot run: 8 for each coordinate, but not fewer nor more than these"""
SHORTEST = 16
"""iterations of a pilot run at the least"""
LONGER = 8
"""times as many where there is doubt, and at most where tails leave the choice open"""
MANY_CHAINS, MEMORY = 16, 2**28
"""where there is doubt, more chains make as many iterations as these, in so many bytes of draws"""
FREEING, MOST_TIMES, MOST_TRIALS = 0.25, 3, 24
"""by which steps are shortened to free a slow chain, how many times, and in how many trials"""
MODES = 128
"""draws from which ascents to modes begin"""
TOO_MANY = 1e-3
"""the share of trajectories that diverge with which the run is done again with some steps shorter"""


@dataclass
class Pilot:
    """The pilot run of chains that warm-up left in these coordinates, with this step size.

    Args:
        runs: that it is made of.
        unfold: whether coordinates may have layers.
        names: of the coordinates of x.
    """

    runs: PilotRuns
    unfold: bool = True
    names: Sequence[str] = ()

    def choose(
        self, begun: Handover, move: choose.Move | None, known: dict[str, Any]
    ) -> tuple[Handover, dict[str, Any]]:
        """The handover with the chosen move and its parameters, and the evidence: numbers and words.

        Args:
            begun: where chains stand, the coordinates and the step size.
            move: the move if it is not to be chosen.
            known: the evidence of the stages before.
        """
        length = self.usual_length(begun.x.shape)
        begun, trial, anew = self._trial(begun, length, known)
        most = self.most(begun.x.shape)
        evidence, found = self._judged(trial, most)
        if self.unfold and begun.layers is None and choose.far_from_gaussian(evidence):
            begun, trial, learned = Layering(self.runs, begun.dense).layered(begun, trial, self.names)
            anew |= learned
            if begun.layers is not None:
                evidence, found = self._judged(trial, most)
        times = 0
        while True:
            if times < MOST_TIMES and (trial.diverging > TOO_MANY or evidence["stuck"]):
                begun, times = self._with_shorter_steps(begun, times), times + 1
                begun, trial = self.runs.split_hmc(begun, len(trial.draws))
            elif more := choose.wanted(evidence, trial.draws.shape, most):
                begun, further = self.runs.split_hmc(begun, more)
                trial = trial.and_more(further.draws, further.stats)
            else:
                break
            evidence, found = self._judged(trial, most)
        if move is None and evidence["rhat"] > LARGEST_RHAT and "modes" not in known:
            mixture, told = self._mixture(begun, trial)
            if mixture is not None:
                evidence |= anew | told | {"move": str(choose.Move.MIXTURE), "named": False}
                return mixture, evidence | {"why": choose.why(evidence)}
        evidence["correlated"] = correlated(trial.draws)
        if move is None and choose.far_from_gaussian(evidence):
            evidence["share"] = effective_share(trial.in_rows)
            begun, evidence["worth"] = worth_of_moves(self.runs, begun, evidence, found)
        picked = choose.one_of_kind(choose.decide(evidence) if move is None else move, evidence)
        evidence |= anew | {"move": str(picked), "named": move is not None}
        repeats = choose.repeats(picked, evidence)
        handed = chosen(begun, picked, repeats=np.asarray(float(repeats)), **found)
        return handed, evidence | {"repeats": repeats, "why": choose.why(evidence)}

    @staticmethod
    def _with_shorter_steps(begun: Handover, times: int) -> Handover:
        """The handover with some steps shorter, after it was given so `times` before: then all are half as long."""
        assert begun.step_size is not None
        shrunk = begun.step_size * (0.5 if times else 1.0)
        return replace(begun, shorter=np.asarray(SHORTER), step_size=np.asarray(shrunk))

    @staticmethod
    def usual_length(shape: tuple[int, ...], chains: int | None = None) -> int:
        """Iterations of a pilot run where nothing speaks for more, of positions of a shape (chains, n)."""
        wanted = min(max(FEWEST, FOR_EACH * shape[1]), MOST)
        return max(SHORTEST, -(-wanted // (chains or shape[0])))

    @classmethod
    def most(cls, shape: tuple[int, ...]) -> tuple[int, int]:
        """The most iterations: where tails alone leave the choice open, and where there is doubt."""
        usual, room = LONGER * cls.usual_length(shape), MEMORY // (8 * shape[0] * shape[1])
        return usual, max(usual, min(LONGER * cls.usual_length(shape, MANY_CHAINS), room))

    def _trial(self, begun: Handover, length: int, known: dict[str, Any]) -> tuple[Handover, Trial, dict[str, Any]]:
        """A trial after chains, or learning, began anew, where they had to; and what is said of that.

        Where a slow chain was freed, layers are looked for at once: the necks are not there in the coordinates below.
        """
        begun, trial = self.runs.split_hmc(begun, length)
        discarded, anew = discarded_chains(trial.draws, trial.stats["lp"]), {}
        freed = slow_chains(trial.stats) & ~discarded
        if freed.any():
            begun, trial = self._free(begun, trial, ~discarded)
            freed, discarded = freed & ~slow_chains(trial.stats), discarded_chains(trial.draws, trial.stats["lp"])
        stretch = stretched(trial, ~discarded)
        if discarded.any():
            distinct = distinct_starts(known.get("distinct_starts", len(discarded)), discarded)
            anew = {"started_anew": np.flatnonzero(discarded).tolist(), "distinct_starts": distinct}
        if freed.any():
            anew |= {"led_out": np.flatnonzero(freed).tolist()}
        if freed.any() and not discarded.any() and self.unfold:
            there, further, learned = Layering(self.runs, begun.dense).layered(begun, trial, self.names)
            if there.layers is not None:
                return there, further, anew | learned
        if discarded.any() or freed.any() or stretch > AGREEMENT:
            anew |= {"stretch": stretch}
            flat = trial.draws[:, ~discarded].reshape(-1, trial.draws.shape[-1])
            begun, settled = self.runs.warmup_from(replace(begun, x=begun.x[replacements(discarded)]), flat)
            anew |= {"settled": True} if settled else {}
            begun, trial = self.runs.split_hmc(begun, LONGER * length if freed.any() else length)
        return begun, trial, anew

    def _free(self, begun: Handover, trial: Trial, kept: np.ndarray) -> tuple[Handover, Trial]:
        """A trial after the slow of the chains that are `kept` were led on alone, with shorter steps.

        Their steps are four times shorter while one of them is slow, else four times longer. If they get as far as
        steps as they were in `MOST_TRIALS`, a trial of all chains follows; else the trial is the one before.
        """
        slow, usual, x = slow_chains(trial.stats) & kept, median_rate(trial.stats), begun.x.copy()
        still, times = True, 0
        for _ in range(MOST_TRIALS):
            times += 1 if still else -1
            if times > MOST_TIMES:
                break
            led, alone = self.runs.split_hmc(replace(begun, x=x[slow]), len(trial.draws), FREEING**times)
            x[slow], still = led.x, slow_chains(alone.stats, usual).any()
            if not times and not still:
                return self.runs.split_hmc(replace(begun, x=x), len(trial.draws))
        return begun, trial

    def _mixture(self, begun: Handover, trial: Trial) -> tuple[Handover | None, dict[str, Any]]:
        """Chains spread over the modes by a mixture, where some are near the draws of a trial; else None."""
        y = trial.flat[self.runs.rng.permutation(len(trial.flat))[:MODES]]
        x = placed(begun.coordinates.layers, y).x
        return with_mixture(self.runs.density, x, self.runs.rng, len(begun.x), self.runs.target_acceptance)

    def _judged(self, trial: Trial, most: tuple[int, int]) -> tuple[dict[str, Any], State]:
        """What the draws say, and the parameters of the best independence proposals.

        R-hat takes longest, and is computed only where nothing else has more iterations made.
        """
        found, theirs = best_independence(trial)
        evidence = diagnose(trial, rhat=False) | theirs
        if not choose.wanted(evidence, trial.draws.shape, most):
            evidence = diagnose(trial) | theirs
        return evidence, found
