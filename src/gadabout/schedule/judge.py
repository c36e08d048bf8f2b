"""To look at some iterations of a sampler that has learned a Gaussian, and to choose what draws are made with."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import numpy as np

from gadabout.adaptations.fitted_gaussian import AGREEMENT
from gadabout.diagnostics import tail_size
from gadabout.proposals import no_tails
from gadabout.proposals.scale_mixture import SCALES
from gadabout.schedule.evidence import (
    FEW_COORDINATES,
    Look,
    best_independence,
    correlated,
    seen_but_rhat,
    slow,
    stretched,
    theta_of,
    with_rhat,
)
from gadabout.schedule.modes import distinct_starts, negligible, others
from gadabout.schedule.stages import AbstractStage

MOVES = ("sturdy", "sturdy-diagonal", "local", "independence", "independence-diagonal", "independence-often")
FINE_PARETO_K, LARGEST_PARETO_K = 0.5, 0.7
"""of importance weights: below the one their variance is finite, and from the other on nothing is to be had of them"""
LEAST_EFFICIENCY = 0.05
"""of an independence proposal: with less, chains stay where they are for long"""
OFTEN = 0.45
"""with less, or a k̂ that is not fine, local moves come four times as often: chains stay where few would free them"""
OPTIMISM = 2.0
"""times as many independent draws may be promised as are made: places that a chain leaves seldom are seldom seen"""
GRADIENT, VALUE, TURN = 1.0, 0.5, 0.5
"""what one evaluation costs in a batch, and what a move costs beside it that has to wait for the one before"""
FEWEST, MOST, FOR_EACH = 800, 1_600, 8
"""draws of all chains that are looked at: 8 for each coordinate, but not fewer nor more than these"""
MUCH_LONGER = 10.0
"""times as many steps as with correlations: less is not worth what they cost where tails are long"""
LONGER = 8
"""times as many are looked at where there is doubt, and at most where tails leave it open"""
MANY_CHAINS, ROOM = 16, 2**28
"""where there is doubt, more chains are looked at for as many iterations as these, in so many bytes of draws"""
SHORTER, MOST_TIMES, MOST_LOOKS = 0.25, 3, 12
"""by which steps are shortened to lead a chain out of where it is slow, how many times, and in how many looks"""


class Judge(AbstractStage):
    """Looks at some iterations of a sampler with θ standing still, and chooses how to go on.

    There are three ways, of which stages in a `Chosen` after it stand for one to three each, in this order: a sturdier
    sampler, which is handed where chains stand and the fitted Gaussian, and the same with standard deviations alone;
    the same sampler, which goes on where it is; and independence proposals from the fitted Gaussian at several scales,
    with the tails of the draws, which is handed on, these with standard deviations alone, where they serve as well, and
    with more of the local moves between them, where a proposal is worth less than `OFTEN` of an independent draw, or
    the Pareto k̂ of its importance weights is above 0.5. The sturdier sampler has the whole Gaussian only where
    trajectories would be `MUCH_LONGER` without correlations (`correlated` in the evidence): where scales differ from
    place to place a covariance says less than it seems to.

    Chains that stand where there is no mass to speak of start anew first where others stand, and θ is learned again
    (`started_anew` in the evidence names them). It is also where draws belie the fitted Gaussian (`stretch` in the
    evidence is above `AGREEMENT`): a chain that arrived late may have widened all of several fits that agree. And it is
    where a chain was slow, as in a neck, and shorter steps, for a while, led it to where it is not (`led_out`): then
    eight times as many draws are looked at, in which others may go where it was. There is doubt, hence the first way,
    where one trajectory in a thousand diverges, a chain accepts less than half of what the median chain accepts or
    stands still for longer than chance explains, or an R-hat is above 1.1. The third is taken where half of what it
    promises is more independent draws for its cost than the second makes (by `independence_efficiency` and `score`, and
    a fixed table of costs, never by the clock), if that k̂ is below 0.7 (0.5 with standard deviations alone) and a
    proposal is worth a twentieth of an independent draw. Where there is doubt, or only k̂ is left to decide and that
    bound is within two of its standard errors, as many draws again are asked, until it is not so or they are eight
    times as many. Doubt asks as many iterations of 64 chains as of 16: R-hat of short chains is large because they are
    short, however many they are.

    Args:
        sampler: what was learned in the stage before.
        where: the lens from its kernel to what has a `mean` and a `factor`.
        move: "sturdy", "local" or "independence" if it is not to be chosen.
        num_iterations: how many are looked at, at the least (see `FEWEST`).
        name: what it is called in the display of progress.
    """

    sampler: Any
    where: Callable[[Any], Any] = eqx.field(static=True)
    move: str | None = eqx.field(static=True, default=None)
    num_iterations: int = eqx.field(static=True, default=16)
    name: str = eqx.field(static=True, default="choose")

    @property
    def samplers(self):
        return (self.sampler,)

    def likely(self, n):
        if self.move == "sturdy" or (self.move == "independence" and n > FEW_COORDINATES):
            return None  # either with correlations or without
        few = n <= FEW_COORDINATES
        return MOVES.index(self.move or ("independence" if few else "local"))

    def looks_at(self, engine):
        return self._most(engine)[1]

    def usual_length(self, engine, num_chains=None):
        """The number of iterations of a look where nothing speaks for more."""
        wanted = min(max(FEWEST, FOR_EACH * engine.starts.layout.dim), MOST)
        return max(self.num_iterations, -(-wanted // (num_chains or engine.settings.num_chains)))

    def _most(self, engine):
        """The most iterations that are looked at: where tails alone leave the choice open, and where there is doubt."""
        usual = LONGER * self.usual_length(engine)
        room = ROOM // (8 * engine.starts.layout.dim * engine.settings.num_chains)
        return usual, max(usual, min(LONGER * self.usual_length(engine, MANY_CHAINS), room))

    def begin(self, engine, warm):
        plain = theta_of(np.full(len(SCALES), 1 / len(SCALES)), no_tails(engine.starts.layout.dim))
        return engine.start(self.sampler, warm), plain

    def length(self, engine):
        return 1

    def advance(self, engine, progress, done):
        run, theta = progress
        length = self.usual_length(engine)
        run, look, anew = self._look(engine, run, length)
        most = self._most(engine)
        theta, evidence, more = self._judged(engine, theta, look, most)
        while more:
            run, *rest = engine.look(self.sampler, run, more)
            look = look.and_more(*rest)
            theta, evidence, more = self._judged(engine, theta, look, most)
        move = decide(evidence) if self.move is None else self.move
        if move == "sturdy":
            evidence["correlated"] = correlated(look.draws)
        move = one_of_kind(move, evidence)
        evidence |= anew | {"move": move, "named": self.move is not None}
        evidence["settled"] = engine.has_settled(self.sampler, run)
        engine.choose(MOVES.index(move), evidence | {"why": why(evidence)})
        return (run, theta), 1

    def _look(self, engine, run, length):
        """The run, and a look after chains started, or the sampler learned, anew, if they had to.

        And what is to be told of that.
        """
        run, look = self._seen(engine, run, length)
        look.begin()
        lost, anew = negligible(look.draws, look.stats["lp"]), {}
        freed = slow(look.stats) & ~lost
        if freed.any():
            run, look = self._led_out(engine, run, look, ~lost)
            freed, lost = freed & ~slow(look.stats), negligible(look.draws, look.stats["lp"])
        stretch = stretched(look, ~lost) if engine.settings.pooled else 0.0
        if lost.any():
            distinct = distinct_starts(engine.evidence, lost)
            anew = {"started_anew": np.flatnonzero(lost).tolist(), "distinct_starts": distinct}
        if freed.any():
            anew |= {"led_out": np.flatnonzero(freed).tolist()}
        if lost.any() or freed.any() or stretch > AGREEMENT:
            anew |= {"stretch": stretch}
            flat = look.draws[:, ~lost].reshape(-1, look.draws.shape[-1])
            run = engine.learn_anew(self.sampler, run, self.where, others(lost), flat)
            run, look = self._seen(engine, run, LONGER * length if freed.any() else length)
        return run, look, anew

    def _seen(self, engine, run, length):
        """The run, and a look at so many iterations."""
        run, draws, stats = engine.look(self.sampler, run, length)
        return run, Look(draws, stats, engine.fitted(run, self.where), engine.seen_by)

    def _led_out(self, engine, run, look, kept):
        """A look after steps that are four times shorter while a chain that is `kept` is slow, else four times longer.

        The last is with steps as they were, if chains get so far in `MOST_LOOKS`; else the look is the one before.
        """
        kernel = lambda run: self.where(run.pools.kernel)
        if not hasattr(kernel(run), "step_size"):
            return run, look
        step, now, times = kernel(run).step_size, look, 0
        with_step = lambda run, times: eqx.tree_at(lambda run: kernel(run).step_size, run, step * SHORTER**times)
        for _ in range(MOST_LOOKS):
            times += 1 if slow(now.stats)[kept].any() else -1
            if times > MOST_TIMES:
                break
            run, now = self._seen(engine, with_step(run, times), len(look.draws))
            if not times and not slow(now.stats)[kept].any():
                return run, now
        return with_step(run, 0), look

    def _judged(self, engine, theta, look, most):
        """θ of the best independence moves, as before where chains learned apart; what draws say; what more is wanted.

        R-hat takes longest, and is asked only where nothing else has more iterations looked at, of `most` at the most.
        """
        evidence = seen_but_rhat(look)
        if engine.settings.pooled:
            theta, found = best_independence(look)
            evidence |= found
        if more := wanted(evidence, look.draws.shape, most):
            return theta, evidence, more
        evidence = with_rhat(evidence, look)
        return theta, evidence, wanted(evidence, look.draws.shape, most)

    def end(self, engine, progress):
        run, theta = progress
        return engine.hand_over(run) if MOVES[engine.choice] == "local" else engine.hand_on(run, self.where, theta)


def wanted(evidence: Mapping[str, Any], shape: tuple[int, ...], most: tuple[int, int]) -> int:
    """How many iterations more have to be looked at, after draws of a shape (t, chains, n).

    Of which there are `most`: where only k̂ is left to decide, and where there is doubt.

    With M draws in the tail k̂ has the standard error (1 + k)/√M (Vehtari et al. 2024), and k/(1 + k), which is what
    the evidence holds, one of (1 − k/(1 + k))/√M.
    """
    made, draws = shape[0], shape[0] * shape[1]
    if evidence["doubt"]:
        return max(min(made, most[1] - made), 0)
    if "pareto_k" not in evidence or decide({**evidence, "pareto_k": 0.0}) != "independence":
        return 0
    k = evidence["pareto_k"]
    if abs(k - largest_pareto_k(evidence)) >= 2 * (1 - k) / np.sqrt(tail_size(draws)):
        return 0
    return max(min(made, most[0] - made), 0)


def largest_pareto_k(evidence: Mapping[str, Any]) -> float:
    """From which k̂ on independence proposals are not taken: with standard deviations alone no cycle is shorter."""
    return FINE_PARETO_K if evidence.get("diagonal") else LARGEST_PARETO_K


def decide(evidence: Mapping[str, Any]) -> str:
    """The move that the evidence speaks for."""
    if evidence["doubt"]:
        return "sturdy"
    independent = evidence.get("independence_efficiency", 0.0)
    if evidence.get("pareto_k", 1.0) >= largest_pareto_k(evidence) or independent <= LEAST_EFFICIENCY:
        return "local"
    local = evidence["efficiency"] / (TURN + GRADIENT * evidence["gradients"])
    return "independence" if independent / (OPTIMISM * VALUE) > local else "local"


def one_of_kind(move: str, evidence: Mapping[str, Any]) -> str:
    """Which of `MOVES` that is of its kind."""
    independence = move == "independence"
    if (move == "sturdy" and evidence["correlated"] <= MUCH_LONGER) or (independence and evidence.get("diagonal")):
        return f"{move}-diagonal"
    fine = evidence.get("independence_efficiency", 1.0) >= OFTEN and evidence.get("pareto_k", 0.0) < FINE_PARETO_K
    return f"{move}-often" if independence and not fine else move


def why(evidence: Mapping[str, Any]) -> str:
    """The choice in one line."""
    local = f"a move of split HMC is worth {evidence['efficiency']:.2f} draws, in {evidence['gradients']:.1f} gradients"
    nuts, independence = "NUTS with halved steps", "independence proposals"
    often = f"{independence} with more split HMC between them"
    names = (nuts, nuts, "split HMC", independence, independence, often)
    chosen = dict(zip(MOVES, names, strict=True))[evidence["move"]]
    if evidence["named"]:
        return f"{chosen}, as asked"
    if evidence["doubt"]:
        return f"{chosen}, because with split HMC {' and '.join(evidence['doubt'])}"
    if "pareto_k" not in evidence:
        return f"{chosen}: {local}"
    efficiency, k = evidence["independence_efficiency"], evidence["pareto_k"]
    return f"{chosen}: {local}, an independence proposal {efficiency:.2f} (Pareto k̂ {k:.2f})"
