"""The stages of the default plan: search, ascent, warm-up, pilot run, warm-up of NUTS if it was chosen, draws.

The progress of a stage is a dict of arrays: the handover, and the state of the stage under way.
"""

import time
from dataclasses import replace
from typing import Any, Literal

import equinox as eqx
import numpy as np

from gadabout.density import AbstractDensity
from gadabout.ensemble.ascent import Ascent, climb_to_typical_set
from gadabout.ensemble.choose import Move, why
from gadabout.ensemble.handover import Handover
from gadabout.ensemble.learning_nuts import LearningNuts
from gadabout.ensemble.made import HALVINGS, made_move, move_of, nuts_chosen, with_mixture
from gadabout.ensemble.mixture import MOST_COORDINATES
from gadabout.ensemble.modes import discarded_chains, distinct_starts, replacements, search_modes
from gadabout.ensemble.move import STATISTICS, TREE, Draws
from gadabout.ensemble.pilot import Pilot
from gadabout.ensemble.pilot_runs import PilotRuns, learned
from gadabout.ensemble.split_hmc import SplitHMC
from gadabout.ensemble.warmup import LONGEST_STEP, STEP_SIZE, Warmup
from gadabout.sampler import Learned
from gadabout.schedule import AbstractStage, Context

DENSE, MOST_DENSE = 300, 2_000
"""`DENSE`: coordinates up to which a covariance is fitted. `MOST_DENSE`: the same if a gradient takes at least as many
operations as the covariance has entries."""
SIFTING = 16
"""iterations that find chains in modes of negligible mass before warm-up"""
WITH_MOMENTUM = (Move.NUTS, Move.NUTS_DIAGONAL, Move.SPLIT_HMC)
"""moves that draw a momentum in every iteration, and so record an energy"""
AT_ONCE = 0.2
"""draws per proposal of a mixture from which on no other move is tried"""
COPIES = 8
"""copies of the draws of a pilot run that are in memory at once"""
Factor = Literal["auto", "dense", "diagonal"]
Progress = dict[str, Any]
"""arrays by name, or dicts of arrays"""


class AbstractHostStage(AbstractStage):
    """A stage of the default plan."""

    @property
    def on_host(self):
        return True

    def begin(self, context: Context, handover: Any) -> Progress:
        return {"handover": handover.arrays()}

    def length(self, context: Context) -> int:
        return 1

    def advance(self, context: Context, progress: Progress, done: int) -> tuple[Progress, int]:
        handed = self.work(context, Handover.of(progress["handover"]))
        return {"handover": handed.arrays()}, 1

    def work(self, context: Context, handover: Handover) -> Handover:
        """The handover after the whole work of a stage that consists of one piece."""
        return handover

    def end(self, context: Context, progress: Progress) -> Handover:
        return Handover.of(progress["handover"])

    def learned(self, progress):
        hidden = ("x", "move")
        return {name: values for name, values in progress["handover"].items() if name not in hidden}


class SearchStarts(AbstractHostStage):
    """Search for starts with finite log π and gradient; each is drawn at most `starts.tries` times."""

    def begin(self, context, handover: Learned | None):
        """`handover` holds the parameters learned in another run, if any."""
        n, chains = context.starts.layout.dim, context.settings.num_chains
        known = {}
        if handover is not None and handover.mean is not None and handover.factor is not None:
            dense = len(handover.factor.covariance_shape()) > 1
            factor = handover.factor.dense() if dense else handover.factor.deviations()
            known = {"mean": np.asarray(handover.mean, float), "factor": np.asarray(factor, float)}
        return {"handover": Handover(np.zeros((chains, n)), **known).arrays()}

    def work(self, context, handover):
        starts, density, chains = context.starts, context.density, context.settings.num_chains
        rng = context.rng.spawn(1)[0]  # a run that continues from stored starts draws none
        x = np.array(starts.rows(rng, chains), float)
        tries = np.ones(chains, int)
        value, grad = density.value_and_grad(x)
        context.compiled()
        for _ in range(starts.tries - 1):
            bad = ~(np.isfinite(value) & np.isfinite(grad).all(1))
            if not bad.any():
                break
            undefined = int(np.sum(np.isfinite(value) & np.isnan(grad).any(1)))
            if undefined:
                context.note({"undefined_starts": context.evidence.get("undefined_starts", 0) + undefined})
            x[bad] = np.asarray(starts.rows(rng, chains), float)[bad]
            tries[bad] += 1
            value[bad], grad[bad] = density.value_and_grad(x[bad])
        context.started(x, value, grad, tries)
        return replace(handover, x=x)


class Ascend(AbstractHostStage):
    """The ascent of every chain to the typical set, a first Gaussian, and a search for other modes.

    Parameters learned in another run replace the ascent and the Gaussian. If there seem to be several modes, `SIFTING`
    discarded iterations compare their masses. A chain in a mode of negligible mass restarts from the position of
    another chain (`sifted` in the evidence).

    Args:
        factor: "dense", "diagonal", or "auto", which is "dense" up to 300 coordinates, and up to 2,000 if a gradient
            takes at least as many operations as the covariance has entries.
        mixture: whether a mixture is fitted if there seem to be several modes.
    """

    factor: Factor = eqx.field(static=True, default="auto")
    mixture: bool = eqx.field(static=True, default=True)

    def work(self, context, handover):
        density, starts, kind = context.density, handover.x, kind_of(self.factor, context.density)
        if handover.mean is not None:
            here = handover.coordinates
            stood = Ascent(starts, here, len(starts), False)
            search = search_modes(density, starts, stood, context.rng)
            if (found := self._mixture(context, search.ends, search.apart)) is not None:
                return found
            wanted = here.factor if here.dense and kind == "dense" else here.deviations()
            return replace(handover, factor=np.diag(wanted) if kind == "dense" and wanted.ndim == 1 else wanted)
        ascent = climb_to_typical_set(density, starts, kind, names=context.starts.layout.labels)
        context.note({"distinct_starts": int(ascent.distinct), "apart": bool(ascent.apart)})
        context.note({"heavy_tails": dict(ascent.tails)} if ascent.tails else {})
        x, coordinates = ascent.positions, ascent.coordinates
        if context.starts.tries > 1:  # not if the user gives the start of each chain
            x, elsewhere, ends, apart = search_modes(density, starts, ascent, context.rng)
            context.note({} if elsewhere is None else {"started_elsewhere": int(elsewhere)})
            if (found := self._mixture(context, ends, apart)) is not None:
                return found
        handed = replace(handover, x=x, mean=coordinates.mean, factor=coordinates.factor)
        return self._sifted(context, handed)

    def _mixture(self, context, ends: np.ndarray, apart: bool) -> Handover | None:
        """Chains spread by a mixture over the separated modes near ends (m, n); None without a useful mixture."""
        if not (self.mixture and apart and context.density.dim <= MOST_COORDINATES):
            return None
        chains = context.settings.num_chains
        found, told = with_mixture(context.density, ends, context.rng, chains, least=AT_ONCE)
        context.note(told)
        return found

    def _sifted(self, context, handover: Handover) -> Handover:
        if not (context.evidence.get("started_elsewhere") or context.evidence.get("apart")):
            return handover
        move = SplitHMC(context.density, handover.coordinates, STEP_SIZE)
        state, drawn = move.advance(move.init(handover.x, context.rng), context.rng, SIFTING)
        discarded = discarded_chains(drawn["position"], drawn["lp"])
        if discarded.any():
            distinct = distinct_starts(context.evidence["distinct_starts"], discarded)
            context.note({"sifted": np.flatnonzero(discarded).tolist(), "distinct_starts": distinct})
        return replace(handover, x=move.positions(state)[replacements(discarded)])


class AbstractRecording(AbstractHostStage):
    """A stage whose iterations are recorded."""

    def _recorded(self, context, drawn: Draws, done: int, total: int, began: float, name: str) -> int:
        """Store the drawn iterations, and return the number of iterations done with them."""
        made = len(drawn["lp"]) if drawn else 0
        if made:
            context.keep(name, drawn, done, total, not self.draws, began)
        return done + made


class LearnGaussian(AbstractRecording):
    """Windows of split HMC until fits agree (`ensemble.warmup`), for at most half of `num_warmup` iterations."""

    target_acceptance: float = 0.8

    @property
    def statistics(self):
        return STATISTICS

    def _warmup(self, context) -> Warmup:
        return Warmup(context.density, context.settings.num_warmup // 2, float(self.target_acceptance))

    def begin(self, context, handover):
        if handover.mixture is not None:
            return {"handover": handover.arrays()}
        return {"state": self._warmup(context).init(handover.x, handover.coordinates, context.rng)}

    def length(self, context):
        if "state" not in context.progress:
            return 0
        warmup = self._warmup(context)
        return context.done if warmup.over(context.progress["state"]) else warmup.length

    def advance(self, context, progress, done):
        began, warmup = time.perf_counter(), self._warmup(context)
        end = next(end for end in warmup.ends if end > done)
        state, drawn = warmup.advance(progress["state"], context.rng, context.piece(done, end, warmup=True))
        return {"state": state}, self._recorded(context, drawn, done, end, began, "warmup")

    def end(self, context, progress):
        if "state" not in progress:
            context.note({"settled": True, "warmup_iterations": 0})
            return Handover.of(progress["handover"])
        warmup = self._warmup(context)
        warm_started = not warmup.length and context.learned is not None
        made = int(progress["state"]["counts"][5])
        context.note({"settled": warm_started or warmup.settled(progress["state"]), "warmup_iterations": made})
        return learned(warmup, progress["state"])

    def learned(self, progress):
        if "state" not in progress:
            return super().learned(progress)
        state = progress["state"]
        return {"mean": state["mean"], "factor": state["factor"], "step_size": np.exp(state["rule"][3])}


class ChooseMove(AbstractHostStage):
    """A pilot run, and the choice of the move for the draws (`ensemble.pilot`, `ensemble.choose`)."""

    move: str | None = eqx.field(static=True, default=None)
    target_acceptance: float = 0.8
    unfold: bool = eqx.field(static=True, default=True)

    def memory(self, context):
        n, chains = context.starts.layout.dim, context.settings.num_chains
        iterations = max(Pilot.most((chains, n)))
        made = f"the {iterations:,} iterations on {n:,} coordinates of the pilot run"
        return COPIES * n * 8 * chains * iterations, f"num_chains = {chains:,}: {made}"

    def work(self, context, handover):
        if handover.mixture is not None:
            told = {"move": str(Move.MIXTURE), "named": False, "doubt": []}
            context.note(told | {"why": why(context.evidence | told)})
            return handover
        runs = PilotRuns(context.density, context.rng, float(self.target_acceptance))
        pilot = Pilot(runs, self.unfold, context.starts.layout.labels)
        named = None if self.move is None else Move(self.move)
        handed, evidence = pilot.choose(handover, named, context.evidence)
        context.note(evidence)
        return handed


class LearnNuts(AbstractRecording):
    """Adaptation of NUTS's step size and metric, for half of `num_warmup` iterations; nothing for other moves."""

    @property
    def statistics(self):
        return STATISTICS | TREE

    def _learner(self, context) -> LearningNuts:
        return LearningNuts(context.density, iterations=context.settings.num_warmup // 2, halvings=HALVINGS)

    def begin(self, context, handover):
        if not nuts_chosen(handover) or not context.settings.num_warmup // 2:
            return {"handover": handover.arrays()}
        here = handover.coordinates
        if move_of(handover) is Move.NUTS_DIAGONAL:
            here = here.diagonal()
        state = self._learner(context).init(handover.x, here, context.rng)
        return {"handover": handover.arrays(), "state": state}

    def length(self, context):
        return context.settings.num_warmup // 2 if "state" in context.progress else 0

    def advance(self, context, progress, done):
        began, total = time.perf_counter(), self.length(context)
        piece = context.piece(done, total, warmup=True)
        state, drawn = self._learner(context).advance(progress["state"], context.rng, piece)
        return progress | {"state": state}, self._recorded(context, drawn, done, total, began, "warmup of NUTS")

    def end(self, context, progress):
        handed = Handover.of(progress["handover"])
        if "state" not in progress:
            return handed
        learner, before = self._learner(context), context.evidence.get("warmup_iterations", 0)
        context.note({"warmup_iterations": before + context.settings.num_warmup // 2})
        here, step_size = learner.learned(progress["state"])
        x = learner.positions(progress["state"])
        return replace(handed, x=x, mean=here.mean, factor=here.factor, step_size=np.asarray(step_size))


class DrawChosen(AbstractRecording):
    """The draws that are kept, by the chosen move with fixed θ."""

    target_acceptance: float = 0.8

    @property
    def statistics(self):
        return STATISTICS | TREE

    @property
    def draws(self):
        return True

    def begin(self, context, handover):
        state = made_move(context.density, handover).init(handover.x, context.rng)
        return {"handover": handover.arrays(), "state": state}

    def length(self, context):
        return context.settings.num_draws * context.settings.thinning

    def advance(self, context, progress, done):
        began, total, ahead = time.perf_counter(), self.length(context), progress.get("ahead", {})
        piece, state = context.piece(done, total, warmup=False), progress["state"]
        missing = piece - (len(ahead["lp"]) if ahead else 0)
        if missing > 0:
            move = made_move(context.density, Handover.of(progress["handover"]))
            state, drawn = move.advance(state, context.rng, missing)
            ahead = {name: np.concatenate([ahead[name], rows]) for name, rows in drawn.items()} if ahead else drawn
        drawn = {name: rows[:piece] for name, rows in ahead.items()}
        left = {name: rows[piece:] for name, rows in ahead.items()}
        if move_of(Handover.of(progress["handover"])) not in WITH_MOMENTUM:
            drawn.pop("energy", None)
        done = self._recorded(context, drawn, done, total, began, "sampling")
        after = {"handover": progress["handover"], "state": state}
        return after | ({"ahead": left} if len(left["lp"]) else {}), done

    def verdict(self, progress):
        """The target acceptance, for NUTS and for split HMC with steps below `LONGEST_STEP`; else empty."""
        handed = Handover.of(progress["handover"])
        steps = np.asarray(handed.step_size)
        steered = nuts_chosen(handed) or (move_of(handed) is Move.SPLIT_HMC and bool(steps < 0.99 * LONGEST_STEP))
        return {"target_acceptance": np.asarray([self.target_acceptance])} if steered else {}


def kind_of(factor: Factor, density: AbstractDensity) -> Literal["dense", "diagonal"]:
    """The kind of factor that is fitted. Operations are counted, not timed, since timings vary from day to day."""
    n = density.dim
    if factor != "auto":
        return factor
    dear = DENSE < n <= MOST_DENSE and density.operations >= n**2
    return "dense" if n <= DENSE or dear else "diagonal"
