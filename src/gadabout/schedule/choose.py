"""To try several samplers, and to go on with the one that serves best."""

import equinox as eqx
import numpy as np

from gadabout.checks import check_whole, shown
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
        engine.choose(int(np.argmax(scores)), {"scores": scores.tolist()})
        return warm


class Chosen(AbstractStage):
    """One stage for each candidate of the `Choose` or `Judge` before it, of which that of the chosen one acts."""

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
    worst, centred = np.inf, draws - draws.mean((0, 1))
    for _ in range(2):
        squares, lagged = centred**2, np.mean(centred[1:] * centred[:-1], (0, 1))
        variance = np.mean(squares, (0, 1))
        rho = np.where(variance > 0, lagged / np.where(variance > 0, variance, 1), 1.0)
        worst = min(worst, float(np.min((1 - rho) / (1 + np.clip(rho, -0.9, 1)))))
        centred = squares - variance
    return worst
