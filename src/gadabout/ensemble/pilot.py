"""A pilot run: iterations with θ standing still that nobody keeps, by which the move of the draws is chosen.

Chains that stand where there is next to no mass begin anew where others stand, and θ is learned again. It is learned
again, too, where draws belie the fitted Gaussian: a chain that arrived late may have widened several fits that agree;
and where a chain that was slow, as in the neck of a funnel, was freed by shorter steps for a while: then eight times as
many draws are made, in which others may go where it was. Where the Gaussian fits badly, layers of coordinates are
looked for in the draws, and learning and the run are done again in those that pay, with some steps shorter. Where
trajectories diverge, or chains stand still, the run is done again with some steps shorter, then with all steps half as
long, twice at the most. Where there is doubt, or only Pareto's k̂ is left to decide and its bound is within two of its
standard errors, as many draws again are made, until that is not so or they are eight times as many. Chains that do not
mix then are given a mixture to propose from, if some modes are near.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gadabout.density import AbstractDensity
from gadabout.ensemble import choose, unfolding
from gadabout.ensemble.coordinates import Coordinates, Noncentring, in_words, placed, unfolded
from gadabout.ensemble.curvature import Sample
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.made import HALVINGS, chosen, made_move, with_mixture
from gadabout.ensemble.modes import discarded_chains, distinct_starts, replacements
from gadabout.ensemble.move import AbstractMove, Draws, State
from gadabout.ensemble.nuts import LearningNuts, Nuts
from gadabout.ensemble.trial import (
    LARGEST_RHAT,
    Trial,
    best_independence,
    correlated,
    diagnose,
    effective_share,
    slow_chains,
    stretched,
)
from gadabout.ensemble.warmup import AGREEMENT, Warmup

FEWEST, MOST, FOR_EACH = 800, 1_600, 8
"""draws of all chains in a pilot run: 8 for each coordinate, but not fewer nor more than these"""
SHORTEST = 16
"""iterations of a pilot run at the least"""
LONGER = 8
"""times as many where there is doubt, and at most where tails leave the choice open"""
MANY_CHAINS, MEMORY = 16, 2**28
"""where there is doubt, more chains make as many iterations as these, in so many bytes of draws"""
SHORTER, MOST_TIMES, MOST_TRIALS = 0.25, 3, 6
"""by which steps are shortened to free a slow chain, how many times, and in how many trials"""
SOME = 0.2
"""the share of trajectories with shorter and with finer steps, where coordinates have layers, or chains stand still"""
TRIED, TRIED_NUTS = 96, 48
"""iterations of a move in question, and of NUTS, an iteration of which takes many gradients"""
PIECE, MOST_SPENT = 8, 10_000
"""iterations of NUTS in which its step size is learned at once, and gradients of a chain after which it is given up"""
MODES = 128
"""draws from which ascents to modes begin"""
TOO_MANY = 1e-3
"""the share of trajectories that diverge with which layers as people write them, and shorter steps, are tried"""
LAYERED = 300
"""iterations of a trial in coordinates with layers at the least: necks are seldom visited"""
UNFOLDED, WELL_UNFOLDED = 3, 0.06
"""times that layers of coordinates are looked for, and the Fisher divergence with layers that is small enough"""
RELEARNED = 250
"""iterations at most in which the Gaussian is learned again"""


@dataclass
class Pilot:
    """The pilot run of chains that warm-up left in these coordinates, with this step size.

    Args:
        density: log π.
        rng: the generator.
        target_acceptance: that the step size is steered to where it is learned again.
        unfold: whether coordinates may have layers.
        names: of the coordinates of x.
    """

    density: AbstractDensity
    rng: np.random.Generator
    target_acceptance: float = 0.8
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
        if self.unfold and choose.far_from_gaussian(evidence):
            begun, trial, learned = self._unfolded(begun, trial)
            anew |= learned
            if begun.layers is not None:
                evidence, found = self._judged(trial, most)
        times = 0
        while True:
            if times < MOST_TIMES and (trial.diverging > TOO_MANY or evidence["stuck"]):
                begun, times = self._with_shorter_steps(begun, times), times + 1
                begun, trial = self._run(begun, len(trial.draws))
            elif more := choose.wanted(evidence, trial.draws.shape, most):
                begun, further = self._run(begun, more)
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
            begun, evidence["worth"] = self._worth(begun, trial, evidence, found)
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
        return replace(begun, shorter=np.asarray(SOME), step_size=np.asarray(shrunk))

    def _worth(
        self, begun: Handover, trial: Trial, evidence: dict[str, Any], found: State
    ) -> tuple[Handover, dict[str, float]]:
        """What a gradient of each move in question is worth, in draws, and where chains stand after they were tried.

        By the slowest of the whitened coordinates and of their squares; a value counts as half a gradient. NUTS is
        tried where no other is worth much, or there is doubt, and counts for less (`choose.waiting`).
        """
        share = effective_share(trial.in_rows)
        evidence["share"] = share
        worth = {str(choose.Move.SPLIT_HMC): share / (choose.TURN + choose.GRADIENT * evidence["gradients"])}
        if choose.covered(evidence):
            handed = chosen(begun, choose.one_of_kind(choose.Move.INDEPENDENCE, evidence), **found)
            begun, worth["independence"] = self._tried(handed, made_move(self.density, handed))
        if evidence["doubt"] or max(worth.values()) < choose.LITTLE:
            others = [each for name, each in worth.items() if not (evidence["stuck"] and name == choose.Move.SPLIT_HMC)]
            waiting = choose.waiting(evidence)
            begun, alone = self._nuts_tried(begun, evidence, waiting * max(others, default=0.0))
            worth["nuts"] = alone / waiting
        return begun, {name: float(f"{each:.3g}") for name, each in worth.items()}

    def _nuts_tried(self, begun: Handover, evidence: dict[str, Any], best: float) -> tuple[Handover, float]:
        """The same of NUTS: nothing, if an iteration takes so many gradients that it would be worth less than `best`
        even were its draws independent, or learning its step size takes more than `MOST_SPENT` of a chain."""
        here = begun.coordinates
        if choose.one_of_kind(choose.Move.NUTS, evidence) is choose.Move.NUTS_DIAGONAL:
            here = here.diagonal()
        learner, spent = LearningNuts(self.density, TRIED_NUTS, HALVINGS), 0.0
        state = learner.init(begun.x, here, self.rng)
        for done in range(0, TRIED_NUTS, PIECE):
            before = self.density.gradients
            state, _ = learner.advance(state, self.rng, PIECE)
            piece = (self.density.gradients - before) / len(begun.x)
            spent += piece
            hopeless = done > 0 and PIECE / piece < best
            if hopeless or spent > MOST_SPENT:
                return begun, 0.0
        move = Nuts(self.density, *learner.learned(state), halvings=HALVINGS)
        return self._tried(replace(begun, x=learner.positions(state)), move, TRIED_NUTS)

    def _tried(self, begun: Handover, move: AbstractMove, iterations: int = TRIED) -> tuple[Handover, float]:
        """Where chains stand after a move was tried, and what a gradient of it is worth."""
        before = self.density.gradients + choose.VALUE * self.density.values
        state, drawn = move.advance(move.init(begun.x, self.rng), self.rng, iterations)
        spent = self.density.gradients + choose.VALUE * self.density.values - before
        made = drawn["lp"].size
        share = effective_share(_as_trial(drawn, begun.coordinates).in_rows)
        local = choose.TURN * float(np.mean(drawn["gradient_evaluations"] > 0))
        return replace(begun, x=move.positions(state)), share / (spent / made + local)

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

    def _run(self, begun: Handover, iterations: int, shortened: float = 1.0) -> tuple[Handover, Trial]:
        """Where chains stand after iterations of split HMC, with steps shortened by a factor, and the trial."""
        assert begun.step_size is not None
        handed = replace(begun, step_size=np.asarray(begun.step_size * shortened))
        move = made_move(self.density, chosen(handed, choose.Move.SPLIT_HMC))
        state, drawn = move.advance(move.init(begun.x, self.rng), self.rng, iterations)
        return replace(begun, x=move.positions(state)), _as_trial(drawn, begun.coordinates)

    def _trial(self, begun: Handover, length: int, known: dict[str, Any]) -> tuple[Handover, Trial, dict[str, Any]]:
        """A trial after chains, or learning, began anew, where they had to; and what is said of that."""
        begun, trial = self._run(begun, length)
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
        if discarded.any() or freed.any() or stretch > AGREEMENT:
            anew |= {"stretch": stretch}
            flat = trial.draws[:, ~discarded].reshape(-1, trial.draws.shape[-1])
            begun = self._learn_anew(replace(begun, x=begun.x[replacements(discarded)]), flat)
            begun, trial = self._run(begun, LONGER * length if freed.any() else length)
        return begun, trial, anew

    def _free(self, begun: Handover, trial: Trial, kept: np.ndarray) -> tuple[Handover, Trial]:
        """A trial after steps four times shorter while a chain that is `kept` is slow, else four times longer.

        The last is with steps as they were, if chains get so far in `MOST_TRIALS`; else the trial is the one before.
        """
        now, times = trial, 0
        for _ in range(MOST_TRIALS):
            times += 1 if slow_chains(now.stats)[kept].any() else -1
            if times > MOST_TIMES:
                break
            begun, now = self._run(begun, len(trial.draws), SHORTER**times)
            if not times and not slow_chains(now.stats)[kept].any():
                return begun, now
        return begun, trial

    def _learn_anew(self, begun: Handover, draws: np.ndarray) -> Handover:
        """The handover after another warm-up that begins with the Gaussian of draws (draws, n)."""
        assert begun.factor is not None
        factor = np.sqrt(draws.var(0) + np.finfo(float).tiny)
        if begun.factor.ndim == 2:
            factor = np.linalg.cholesky(np.diag(0.1 * factor**2) + 0.9 * np.cov(draws.T).reshape(len(factor), -1))
        return self._learn_from(replace(begun, mean=draws.mean(0), factor=factor))[0]

    def _learn_from(self, begun: Handover) -> tuple[Handover, bool]:
        """The handover after another warm-up that begins with its coordinates, and whether that settled."""
        warmup = Warmup(self.density, RELEARNED, self.target_acceptance)
        state = warmup.init(begun.x, begun.coordinates, self.rng)
        state, _ = warmup.advance(state, self.rng, RELEARNED)
        return learned(warmup, state), warmup.settled(state)

    def _unfolded(self, begun: Handover, trial: Trial) -> tuple[Handover, Trial, dict[str, Any]]:
        """The handover in coordinates with layers, and a trial there, where they pay; and what is said of that.

        Layers are looked for again in the draws that they made possible, until the divergence is small or no longer
        falls: new layers are compared with those before on draws made in the new ones, which may reach further.
        """
        sample, told, length = self._sample(begun, trial), {}, max(len(trial.draws), LAYERED)
        here = self._divergence(sample, begun.coordinates.layers, begun.dense)
        for _ in range(UNFOLDED):
            if here < (unfolding.SMALL if begun.layers is None else WELL_UNFOLDED):
                break
            layers, predicted = unfolding.layers_for(self.density, sample, begun.dense, self.rng)
            if not layers or predicted >= unfolding.GAIN * here:
                break
            there, further, settled = self._under(layers, begun, sample, length)
            sample = self._sample(there, further)
            before, here = (self._divergence(sample, each, begun.dense) for each in (begun.coordinates.layers, layers))
            if not here < before:
                break
            begun, trial = there, further
            told |= {"settled": settled}
        if begun.layers is not None and trial.diverging > TOO_MANY:  # a fit that ends where draws do
            layers = unfolding.plain_layers(self.density, sample, begun.coordinates.layers, begun.dense, self.rng)
            there, further, settled = self._under(layers, begun, sample, length)
            if further.diverging < 0.5 * trial.diverging:
                begun, trial, sample = there, further, self._sample(there, further)
                told |= {"settled": settled}
        both = (self._divergence(sample, layers, begun.dense) for layers in ((), begun.coordinates.layers))
        told |= {"fisher_divergence": [float(f"{each:.3g}") for each in both]}
        if begun.layers is not None:
            told |= {"coordinates": in_words(begun.coordinates.layers, self.names)}
        return begun, trial, told

    @staticmethod
    def _divergence(sample: Sample, layers: tuple[Noncentring, ...], dense: bool) -> float:
        return unfolding.fisher_divergence(sample.below(layers), dense)

    def _under(
        self, layers: tuple[Noncentring, ...], begun: Handover, sample: Sample, iterations: int
    ) -> tuple[Handover, Trial, bool]:
        """The handover after a warm-up in coordinates with layers, a trial there, and whether the warm-up settled."""
        here = unfolding.gaussian_of(sample.below(layers), begun.dense, layers)
        there, settled = self._learn_from(replace(begun, **here.arrays()))
        return *self._run(replace(there, shorter=np.asarray(SOME)), iterations), settled

    def _mixture(self, begun: Handover, trial: Trial) -> tuple[Handover | None, dict[str, Any]]:
        """Chains spread over the modes by a mixture, where some are near the draws of a trial; else None."""
        y = trial.flat[self.rng.permutation(len(trial.flat))[:MODES]]
        x = placed(begun.coordinates.layers, y).x
        return with_mixture(self.density, x, self.rng, len(begun.x), self.target_acceptance)

    def _sample(self, begun: Handover, trial: Trial) -> Sample:
        """Draws of a trial, of x, with the gradients of log π there."""
        y = trial.flat[np.sort(self.rng.permutation(len(trial.flat))[:MOST])]
        x = placed(begun.coordinates.layers, y).x
        grad = self.density.value_and_grad(x)[1]
        good = np.isfinite(grad).all(1)
        return Sample(x[good], grad[good])

    def _judged(self, trial: Trial, most: tuple[int, int]) -> tuple[dict[str, Any], State]:
        """What the draws say, and the parameters of the best independence proposals.

        R-hat takes longest, and is computed only where nothing else has more iterations made.
        """
        found, theirs = best_independence(trial)
        evidence = diagnose(trial, rhat=False) | theirs
        if not choose.wanted(evidence, trial.draws.shape, most):
            evidence = diagnose(trial) | theirs
        return evidence, found


def learned(warmup: Warmup, state: State) -> Handover:
    """What warm-up hands over."""
    here, step_size = Coordinates.of(state), warmup.rule.finished(state["rule"])
    x = here.x(state["chains.z"])
    return Handover(x, **here.arrays(), step_size=np.asarray(step_size))


def _as_trial(drawn: Draws, coordinates: Coordinates) -> Trial:
    x = drawn["position"]
    y = unfolded(coordinates.layers, x.reshape(-1, x.shape[-1]))
    stats = {name: rows for name, rows in drawn.items() if name != "position"}
    stats |= {"lp": drawn["lp"] + placed(coordinates.layers, y).log_det.reshape(x.shape[:2])}
    return Trial(y.reshape(x.shape), stats, replace(coordinates, layers=()))
