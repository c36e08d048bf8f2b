"""Pilot run: iterations with fixed θ whose draws are discarded, from which the move for the final draws is chosen.

Chains in modes of negligible mass restart from the positions of other chains, and θ is relearned. θ is also relearned
in two other cases. First, if draws contradict the fitted Gaussian: a chain that arrived late may have widened several
fits that agree. Second, if a slow chain, as in the neck of a funnel, was freed by temporarily shorter steps and no
layers of coordinates are found. Then eight times as many draws follow, in which other chains may enter the neck.

If the Gaussian fits badly, layers are searched for in the draws. Warm-up and run are repeated in layers that pay, with
some steps shorter. If trajectories diverge or chains stand still, the run is repeated with some steps shorter, then at
most twice with all steps half as long. Draws are doubled if there is doubt, or if only Pareto's k̂ decides and its
bound is within two standard errors, up to eight times as many draws. If chains still do not mix, they get a mixture to
propose from, provided that there are modes nearby.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gadabout.ensemble import choose
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.layering import SHORTER, Layering
from gadabout.ensemble.made import chosen, with_mixture
from gadabout.ensemble.modes import discarded_chains, distinct_starts, replacements
from gadabout.ensemble.move import State
from gadabout.ensemble.noncentring import placed
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
"""draws of all chains in a pilot run: `FOR_EACH` per coordinate, at least `FEWEST`, at most `MOST`"""
SHORTEST = 16
"""minimum number of iterations of a pilot run"""
LONGER = 8
"""maximum factor of iterations, in doubt or if tails leave the choice open; also the factor after a chain was freed"""
MANY_CHAINS, MEMORY = 16, 2**28
"""if there is doubt, more chains make as many iterations as `MANY_CHAINS` would, within `MEMORY` bytes of draws"""
FREEING, MOST_TIMES, MOST_TRIALS = 0.25, 3, 24
"""`FREEING`: factor of the step size that frees a slow chain. `MOST_TIMES`: its maximum power, and the maximum number
of repeats with shorter steps. `MOST_TRIALS`: maximum number of trials to free chains."""
MODES = 128
"""draws from which ascents to modes start"""
TOO_MANY = 1e-3
"""share of diverging trajectories above which the run is repeated with some steps shorter"""


@dataclass
class Pilot:
    """The pilot run of chains after warm-up, in the coordinates and with the step size that warm-up learned.

    Args:
        runs: the trials that it consists of.
        unfold: whether coordinates may have layers.
        names: names of the coordinates of x.
    """

    runs: PilotRuns
    unfold: bool = True
    names: Sequence[str] = ()

    def choose(
        self, begun: Handover, move: choose.Move | None, known: dict[str, Any]
    ) -> tuple[Handover, dict[str, Any]]:
        """The handover with the chosen move and its parameters, and the evidence: numbers and words.

        Args:
            begun: positions of the chains, the coordinates and the step size.
            move: the move, or None if it is to be chosen.
            known: evidence of the earlier stages.
        """
        begun, trial, anew = self._trial(begun, known)
        evidence, found = self._judged(trial)
        if self.unfold and begun.layers is None and choose.far_from_gaussian(evidence):
            begun, trial, learned = Layering(self.runs, begun.dense).layered(begun, trial, self.names)
            anew |= learned
            if begun.layers is not None:
                evidence, found = self._judged(trial)
        begun, trial, evidence, found = self._repeated(begun, trial, evidence, found)
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

    def _repeated(
        self, begun: Handover, trial: Trial, evidence: dict[str, Any], found: State
    ) -> tuple[Handover, Trial, dict[str, Any], State]:
        """The trial after repeats with shorter steps, and with more draws while these are wanted; and its evidence."""
        times, most = 0, self.most(begun.x.shape)
        while True:
            if times < MOST_TIMES and (trial.diverging > TOO_MANY or evidence["stuck"]):
                begun, times = self._with_shorter_steps(begun, times), times + 1
                begun, trial = self.runs.split_hmc(begun, len(trial.draws))
            elif more := choose.wanted(evidence, trial.draws.shape, most):
                begun, further = self.runs.split_hmc(begun, more)
                trial = trial.and_more(further.draws, further.stats)
            else:
                return begun, trial, evidence, found
            evidence, found = self._judged(trial)

    @staticmethod
    def _with_shorter_steps(begun: Handover, times: int) -> Handover:
        """The handover with some steps shorter; after `times` > 0 earlier calls, all steps are also halved."""
        assert begun.step_size is not None
        shrunk = begun.step_size * (0.5 if times else 1.0)
        return replace(begun, shorter=np.asarray(SHORTER), step_size=np.asarray(shrunk))

    @staticmethod
    def usual_length(shape: tuple[int, ...], chains: int | None = None) -> int:
        """Default iterations of a pilot run for positions of shape (chains, n); `chains` replaces their number."""
        wanted = min(max(FEWEST, FOR_EACH * shape[1]), MOST)
        return max(SHORTEST, -(-wanted // (chains or shape[0])))

    @classmethod
    def most(cls, shape: tuple[int, ...]) -> tuple[int, int]:
        """The maximum numbers of iterations: if tails alone leave the choice open, and if there is doubt."""
        usual, room = LONGER * cls.usual_length(shape), MEMORY // (8 * shape[0] * shape[1])
        return usual, max(usual, min(LONGER * cls.usual_length(shape, MANY_CHAINS), room))

    def _trial(self, begun: Handover, known: dict[str, Any]) -> tuple[Handover, Trial, dict[str, Any]]:
        """The handover and a trial after the necessary restarts of chains or of learning, and the evidence of these.

        If a slow chain was freed, layers are searched for at once: coordinates under layers have no necks.
        """
        length = self.usual_length(begun.x.shape)
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
        """A trial after the slow chains among those in `kept` ran alone with shorter steps.

        Their steps become four times shorter while one of them is slow, else four times longer. If none is slow at the
        original steps within `MOST_TRIALS`, a trial of all chains follows; else the result is the given handover and
        trial.
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
        """Chains spread by a mixture over modes near the draws of a trial, or None, and the mixture's diagnostics."""
        y = trial.flat[self.runs.rng.permutation(len(trial.flat))[:MODES]]
        x = placed(begun.coordinates.layers, y).x
        return with_mixture(self.runs.density, x, self.runs.rng, len(begun.x), self.runs.target_acceptance)

    def _judged(self, trial: Trial) -> tuple[dict[str, Any], State]:
        """Diagnostics of the draws, and the parameters of the best independence proposals.

        R-hat takes longest. It is computed only if the other diagnostics do not require more iterations.
        """
        found, theirs = best_independence(trial)
        evidence = diagnose(trial, rhat=False) | theirs
        if not choose.wanted(evidence, trial.draws.shape, self.most(trial.draws.shape[1:])):
            evidence = diagnose(trial) | theirs
        return evidence, found
