"""To try several samplers, and to go on with the one that serves best."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import numpy as np

from gadabout.checks import check_whole, shown
from gadabout.diagnostics import judged
from gadabout.sampler import Sampler
from gadabout.schedule.stages import AbstractStage


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

    def __check_init__(self):
        several = isinstance(self.candidates, tuple) and self.candidates
        if not several or not all(isinstance(candidate, Sampler) for candidate in self.candidates):
            raise TypeError(f"candidates must be a tuple of at least one sampler, got {shown(self.candidates)}")
        check_whole("num_iterations", self.num_iterations)

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


class Trust(AbstractStage):
    """Looks at some iterations of a sampler with θ standing still, and goes on with it if they give no cause for doubt.

    Doubt is a diverging trajectory in a thousand, a chain that accepts less than half of what the median chain accepts,
    or an R-hat above 1.1. Of what stands in a `Chosen` after it the second acts where there is none; else the first,
    which is sturdier and is handed where chains stand and the fitted Gaussian.

    Args:
        sampler: what was learned in the stage before.
        where: the lens from its kernel to what has a `mean` and a `factor`.
        num_iterations: how many are looked at.
        name: what it is called in the display of progress.
    """

    sampler: Sampler
    where: Callable[[Any], Any] = eqx.field(static=True)
    num_iterations: int = eqx.field(static=True, default=100)
    name: str = eqx.field(static=True, default="trust")

    @property
    def samplers(self):
        return (self.sampler,)

    def begin(self, engine, warm):
        return engine.start(self.sampler, warm)

    def length(self, engine):
        return 1

    def advance(self, engine, progress, done):
        run, draws, stats = engine.look(self.sampler, progress, self.num_iterations)
        engine.choice = int(not doubtful(draws, stats))
        return run, 1

    def end(self, engine, progress):
        return engine.hand_over(progress) if engine.choice else engine.hand_on(progress, self.where)


def doubtful(draws: np.ndarray, stats: Mapping[str, np.ndarray]) -> bool:
    """Whether draws (t, chains, n) and their statistics (t, chains) give cause for doubt."""
    diverging = stats["diverging"].mean() if "diverging" in stats else 0.0
    rates = stats["acceptance_rate"].mean(0)
    rhat = judged(np.moveaxis(draws, 0, 1)).rhat
    return bool(diverging > 1e-3 or rates.min() < 0.5 * np.median(rates) or not rhat.max() <= 1.1)


class Chosen(AbstractStage):
    """One stage for each candidate of the `Choose` or `Trust` before it, of which that of the chosen one acts."""

    stages: tuple[AbstractStage, ...]

    @property
    def alternatives(self):
        return self.stages

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
