"""NUTS of many chains while its step size and its metric are learned, in Stan's windows."""

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from gadabout.adaptations.windowed import doubling_windows
from gadabout.density.base import AbstractDensity
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.gaussian import factor_of
from gadabout.ensemble.move import Draws, State
from gadabout.ensemble.nuts import Nuts
from gadabout.ensemble.warmup import DualAveraging

AHEAD = 32
"""iterations that a chain may be ahead of the slowest: at the end of a window they are discarded"""


@dataclass(frozen=True)
class LearningNuts:
    r"""NUTS of all chains while the step size and the coordinates are learned, in Stan's windows.

    The step size follows dual averaging over all chains: of K chains, a trajectory that ends makes 1/K of an update,
    which applies to trajectories that begin later. At the end of a window between the buffers, covariance and mean are
    fitted to all chains' draws z in the window, regularised as in Stan, $\frac{N}{N+5}S + 10^{-3}\frac{5}{N+5}I$, but
    in z. The step size restarts from its average. All chains restart from their draw at the window's end: at most 32
    iterations that some are ahead, and trajectories under way, are discarded. Stan tries ten times longer steps after
    each window, at the price of one gradient where a trajectory diverges at once. With halvings such steps would take
    thousands, so the steps tried are as long as their average.

    Args:
        density: log π.
        iterations: of the warm-up.
        halvings: halvings of a leapfrog at most; 0 for plain NUTS.
        target_acceptance: the mean acceptance probability that the step size is adapted to.
        max_depth: doublings at most.
    """

    density: AbstractDensity
    iterations: int
    halvings: int = 0
    target_acceptance: float = 0.8
    max_depth: int = 10

    @property
    def rule(self) -> DualAveraging:
        """The rule that adapts the step size."""
        return DualAveraging(self.target_acceptance)

    @property
    def ends(self) -> list[int]:
        """The numbers of iterations after which windows end."""
        return list(accumulate(doubling_windows(self.iterations)))

    def init(
        self, x: np.ndarray, coordinates: Coordinates, rng: np.random.Generator, step_size: float | None = None
    ) -> State:
        """The state of chains at x, (chains, n); the first step size is 0.1 n^(-1/4) where it is not given."""
        first = float(0.1 * coordinates.dim**-0.25) if step_size is None else step_size
        return {"done": np.array(0)} | self._begun(x, coordinates, rng, self.rule.init(first))

    def advance(self, state: State, rng: np.random.Generator, iterations: int) -> tuple[State, Draws]:
        """The state after so many iterations, no more than are left, and their draws; given arrays are unchanged."""
        left, drawn = min(iterations, self.iterations - int(state["done"])), []
        while left or not drawn:
            done = int(state["done"])
            end = next((end for end in self.ends if end > done), done)
            piece = min(left, end - done)
            state, part = self._chains(*self.learned(state)).advance(state, rng, piece)
            state["done"] += piece
            self._add(state, part["position"])
            if piece and done + piece == end:
                state = self._window_ended(state, rng, self.ends.index(end))
            drawn.append(part)
            left -= piece
        return state, {name: np.concatenate([part[name] for part in drawn]) for name in drawn[0]}

    def positions(self, state: State) -> np.ndarray:
        """The positions of chains after the last iteration returned, of shape (chains, n)."""
        return state["position"]

    def learned(self, state: State) -> tuple[Coordinates, float]:
        """The coordinates, and the averaged step size."""
        return Coordinates.of(state), self.rule.finished(state["rule"])

    def _chains(self, coordinates: Coordinates, step_size: float) -> Nuts:
        return Nuts(self.density, coordinates, step_size, self.max_depth, self.halvings, AHEAD, self._steer)

    def _begun(self, x: np.ndarray, here: Coordinates, rng: np.random.Generator, rule: np.ndarray) -> State:
        """The state of chains at x with these coordinates, this memory of the step size, and an empty window."""
        learning = here.arrays() | {"rule": rule} | no_sums(here)
        return learning | self._chains(here, float(rule[0])).init(x, rng)

    def _steer(self, s: State, acceptance: np.ndarray) -> None:
        """Update the step size with the acceptance rates of m trajectories, (m,): m/K of an update."""
        share = len(acceptance) / len(s["position"])
        s["rule"] = self.rule.update(s["rule"], float(np.mean(acceptance)), share)
        s["next_step_size"] = np.array(s["rule"][0])

    def _add(self, state: State, x: np.ndarray) -> None:
        """Add draws (t, chains, n) to the window's sums in z, row by row, so that sums do not depend on the pieces."""
        here = Coordinates.of(state)
        for row in x:
            z = here.z(row)
            state["count"] += len(z)
            state["sum"] += np.sum(z, 0)
            state["squares"] += z.T @ z if here.dense else np.sum(z**2, 0)

    def _window_ended(self, state: State, rng: np.random.Generator, window: int) -> State:
        """The state after a window: coordinates are fitted to its sums unless it is a buffer; new sums are empty."""
        here, step_size = self.learned(state)
        if not 0 < window < len(self.ends) - 1:
            return state | no_sums(here)
        N = int(state["count"])
        mean = state["sum"] / N
        square = np.outer(mean, mean) if here.dense else mean**2
        weight, covariance = N / (N + 5), (state["squares"] - N * square) / (N - 1)
        identity = np.eye(len(mean)) if here.dense else np.ones(len(mean))
        covariance = weight * covariance + 1e-3 * (1 - weight) * identity
        fitted = here.then(mean, factor_of(covariance, identity))
        return state | self._begun(state["position"], fitted, rng, self.rule.init(step_size, longer=1.0))


def no_sums(coordinates: Coordinates) -> State:
    """The sums of an empty window: the number of draws, their sum, and that of their squares or products."""
    return {"count": np.array(0), "sum": np.zeros(coordinates.dim), "squares": np.zeros(coordinates.factor.shape)}
