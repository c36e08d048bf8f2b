"""What a run does, as data: stages that act on an engine and hand over what they learned."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, UInt

from gadabout.sampler import Learned, Sampler, State


class Warm(eqx.Module):
    """What one stage hands to the next: arrays alone.

    Args:
        chain_keys: the key of each chain's noise, shape (num_chains,) or as pools have them.
        t: iterations since the run's start. It goes on from stage to stage, so that no noise is used twice.
        positions: where chains stand, shape (num_chains, n); None before the search for starts, and where `pools` say.
        learned: what is known of the target, for kernels that begin; None if nothing is.
        pools: the whole state of the sampler that ran last, which a stage with the same sampler goes on with.
    """

    chain_keys: Key[Array, "..."]
    t: UInt[Array, ""]
    positions: Float[Array, "chains n"] | None = None
    learned: Learned | None = None
    pools: State | None = None


class AbstractStage(eqx.Module):
    """A part of a run: host code, one bounded piece of work a call; the run can be stopped and stored after each.

    A stage keeps nothing: all that changes is its progress, a pytree of arrays, and the number of iterations done.
    `engine` runs the programs and keeps the records; the same code called with an engine that only knows shapes gives
    the skeleton into which a stored progress is read.
    """

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """The samplers that may run in it."""
        return ()

    @abstractmethod
    def begin(self, engine: Any, warm: Warm) -> PyTree:
        """The progress before the first piece of work."""

    @abstractmethod
    def length(self, engine: Any) -> int:
        """The number of iterations after which the stage is over."""

    @abstractmethod
    def advance(self, engine: Any, progress: PyTree, done: int) -> tuple[PyTree, int]:
        """One piece of work: the new progress, and the iterations done with it."""

    @abstractmethod
    def end(self, engine: Any, progress: PyTree) -> Warm:
        """What is handed to the next stage."""


class Search(AbstractStage):
    """Looks for places to start where the log density and its derivatives are finite; one iteration, no noise of t."""

    def begin(self, engine, warm):
        return warm

    def length(self, engine):
        return 1

    def advance(self, engine, progress, done):
        return engine.search(progress), 1

    def end(self, engine, progress):
        return progress if progress.positions is not None else engine.search(progress)


class Learn(AbstractStage):
    """Runs a sampler while its θ is learned; its records are kept as warm-up.

    Args:
        sampler: what runs and learns.
        share: its share of the run's `num_warmup` iterations.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    share: float = eqx.field(static=True, default=1.0)
    name: str = eqx.field(static=True, default="warmup")

    @property
    def samplers(self):
        return (self.sampler,)

    def begin(self, engine, warm):
        return engine.start(self.sampler, warm)

    def length(self, engine):
        return engine.share_of_warmup(self)

    def advance(self, engine, progress, done):
        total, adaptation = self.length(engine), self.sampler.adaptation
        end = min(end for end in (*adaptation.window_ends(total), total) if end > done)
        run, made = engine.chunk(self.sampler, progress, self.name, done, end, total, adapt=True, warmup=True)
        if done + made == end and adaptation.finishes:
            run = engine.end_window(self.sampler, run, adaptation.ending(end, total))
        return run, done + made

    def end(self, engine, progress):
        return engine.hand_over(progress)


class Hold(AbstractStage):
    """Runs a sampler as warm-up with θ standing still."""

    sampler: Sampler
    share: float = eqx.field(static=True, default=1.0)
    name: str = eqx.field(static=True, default="hold")

    @property
    def samplers(self):
        return (self.sampler,)

    def begin(self, engine, warm):
        return engine.start(self.sampler, warm)

    def length(self, engine):
        return engine.share_of_warmup(self)

    def advance(self, engine, progress, done):
        total = self.length(engine)
        run, made = engine.chunk(self.sampler, progress, self.name, done, total, total, adapt=False, warmup=True)
        return run, done + made

    def end(self, engine, progress):
        return engine.hand_over(progress)


class Draw(AbstractStage):
    """Makes the draws that are kept, with θ standing still but for adaptations that go on `ForEver`.

    Args:
        sampler: what draws; where the stage before ran the same, this one goes on from its state.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    name: str = eqx.field(static=True, default="sampling")

    @property
    def samplers(self):
        return (self.sampler,)

    def begin(self, engine, warm):
        return engine.settle(self.sampler, engine.start(self.sampler, warm))

    def length(self, engine):
        return engine.num_draws * engine.thinning

    def advance(self, engine, progress, done):
        total, adapt = self.length(engine), self.sampler.adaptation.continues
        sampler = self.sampler.drawing()
        run, made = engine.chunk(sampler, progress, self.name, done, total, total, adapt=adapt, warmup=False)
        return run, done + made

    def end(self, engine, progress):
        return engine.hand_over(progress)


class Choose(AbstractStage):
    """Tries samplers one after another, each from where the last one stopped, and hands over which serves best.

    The choice is a function of draws and counts, never of the clock: the smallest over coordinates of (1 − ρ)/(1 + ρ),
    ρ the larger of the first autocorrelations of x and of (x − mean)², divided by the evaluations of ∇ log π (or of
    log π, where there are none) that an iteration takes. Stages that depend on it stand in a `Chosen` after it.

    Args:
        candidates: the samplers.
        num_iterations: iterations of each; its θ is learned in the first half, and the second is judged.
        name: what it is called in the display of progress.
    """

    candidates: tuple[Sampler, ...]
    num_iterations: int = eqx.field(static=True, default=200)
    name: str = eqx.field(static=True, default="choose")

    @property
    def samplers(self):
        return self.candidates

    def begin(self, engine, warm):
        return warm, np.full(len(self.candidates), -np.inf)

    def length(self, engine):
        return len(self.candidates)

    def advance(self, engine, progress, done):
        warm, scores = progress
        sampler = self.candidates[done]
        warm, draws, gradients = engine.trial(sampler, warm, self.num_iterations)
        scores = scores.copy()
        scores[done] = score(draws) / max(gradients, 1.0)
        return (warm, scores), done + 1

    def end(self, engine, progress):
        warm, scores = progress
        engine.choice = int(np.argmax(scores))
        return warm


class Chosen(AbstractStage):
    """One stage for each candidate of the `Choose` before it, of which that of the chosen one acts."""

    stages: tuple[AbstractStage, ...]

    @property
    def samplers(self):
        return tuple(sampler for stage in self.stages for sampler in stage.samplers)

    def begin(self, engine, warm):
        return self.stages[engine.choice].begin(engine, warm)

    def length(self, engine):
        return self.stages[engine.choice].length(engine)

    def advance(self, engine, progress, done):
        return self.stages[engine.choice].advance(engine, progress, done)

    def end(self, engine, progress):
        return self.stages[engine.choice].end(engine, progress)


def score(draws: np.ndarray) -> float:
    """The worst coordinate's share of independent draws, by its first autocorrelations, of draws (t, chains, n)."""
    worst = np.inf
    for values in (draws, (draws - draws.mean((0, 1))) ** 2):
        centred = values - values.mean((0, 1))
        variance = np.mean(centred**2, (0, 1))
        lagged = np.mean(centred[1:] * centred[:-1], (0, 1))
        rho = np.where(variance > 0, lagged / np.where(variance > 0, variance, 1), 1.0)
        worst = min(worst, float(np.min((1 - rho) / (1 + np.clip(rho, -0.9, 1)))))
    return worst


class Plan(eqx.Module):
    """The stages of a run, one after another; accepted wherever a sampler is named.

    Raises ValueError where the last stage does not draw, or another does, or the shares of warm-up do not sum to 1.
    """

    stages: tuple[AbstractStage, ...]
    name: str = eqx.field(static=True, default="plan")

    def __check_init__(self):
        kinds = [each for stage in self.stages for each in getattr(stage, "stages", (stage,))[:1]]
        if not kinds or [isinstance(kind, Draw) for kind in kinds] != [False] * (len(kinds) - 1) + [True]:
            names = [type(kind).__name__ for kind in kinds]
            raise ValueError(f"stages: the last stage of a plan, and no other, must be Draw; got {names}")
        shares = [kind.share for kind in kinds if isinstance(kind, Learn | Hold)]
        if any(share < 0 for share in shares) or (shares and abs(sum(shares) - 1) > 1e-9):
            raise ValueError(f"stages: the shares of warm-up must be at least 0 and sum to 1, got {shares}")

    @property
    def samplers(self) -> tuple[Sampler, ...]:
        """All samplers that may run in it; the first of those that make the draws comes last."""
        return tuple(sampler for stage in self.stages for sampler in stage.samplers)


def plan_of(sampler: Sampler | Plan) -> Plan:
    """A sampler's own plan: to look for starts, to learn, to draw."""
    return sampler if isinstance(sampler, Plan) else Plan((Search(), Learn(sampler), Draw(sampler)), sampler.name)


def lengths(shares: list[float], num_warmup: int) -> list[int]:
    """Iterations of each stage of warm-up, which add up to `num_warmup`."""
    ends = [round(num_warmup * sum(shares[: i + 1])) for i in range(len(shares))]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]
