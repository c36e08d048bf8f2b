"""The No-U-Turn sampler of many chains, in which no chain waits for another (Hoffman & Gelman 2014).

A tick is one batched gradient, with every chain at its own leaf of its own tree (`ensemble.tree`); a chain that ends a
trajectory begins the next at once. With halvings a leaf is a stride of leapfrogs in parts, each of which is a tick
(`ensemble.halving`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from gadabout.adaptations.windowed import doubling_windows
from gadabout.density.base import AbstractDensity
from gadabout.ensemble import halving, tree
from gadabout.ensemble.coordinates import Coordinates, unfolded
from gadabout.ensemble.gaussian import factor_of
from gadabout.ensemble.move import STATISTICS, TREE, AbstractMove, Draws, State
from gadabout.ensemble.warmup import DualAveraging

DIVERGENCE = 1000.0
"""growth of the energy along a trajectory without halvings that counts as a divergence, in nats (Stan's)"""
AHEAD, AHEAD_IN_WARMUP = 1_024, 32
"""iterations that a chain may be ahead of the slowest; in a funnel, few take a thousand times as long as most"""
ROOM = 2**22
"""numbers that a state holds of iterations that chains are ahead, at most"""
RECORDED = STATISTICS | TREE
"""of an iteration, in the columns after its position"""


@dataclass(frozen=True)
class Nuts(AbstractMove):
    r"""NUTS with momenta $p \sim N(0, I)$ in coordinates z, and a fixed step size.

    A trajectory whose energy grows by more than 1000, or is not finite, diverges: it ends, and the half that diverged
    is not drawn from. `nonfinite` counts those of the second kind. `acceptance_rate` is the mean of
    $\min(1, e^{H_0 - H})$ over all states visited, `accepted` says whether the chain moved.

    With `halvings` a leaf is a stride of two leapfrogs in as many parts as its energy asks for (`ensemble.halving`,
    which also says what diverges). `acceptance_rate` is then the mean probability of accepting each stride made without
    halvings. `cut_short` says whether a trajectory ended before a stride that cannot be retraced, `discontinuous`
    whether halving was given up in a stride whose energy changes much, and `n_steps` counts leapfrogs of size ε.

    `advance` ends when all chains have completed the rows that were wanted, and returns these; further rows of faster
    chains, and trajectories under way, are in the state. Chains `ahead` iterations ahead of the slowest wait. Uniforms
    are drawn for all chains each tick, and the ticks of a run do not depend on how it is cut.

    Args:
        density: log π.
        coordinates: of z.
        step_size: ε.
        max_depth: doublings at most; with halvings, of leapfrogs too (see `ensemble.tree`).
        halvings: of a leapfrog at most; 0 for plain NUTS.
        ahead: iterations that a chain may be ahead of the slowest; fewer where they take much room.
        steer: changes `next_step_size` of a state, by the acceptance rates of trajectories that ended; None for none.
    """

    density: AbstractDensity
    coordinates: Coordinates
    step_size: float
    max_depth: int = 10
    halvings: int = 0
    ahead: int = AHEAD
    steer: Callable[[State, np.ndarray], None] | None = None

    def init(self, x, rng):
        (chains, n), here = x.shape, self.coordinates
        z = here.z(x)
        lp, grad = here.value_and_grad(self.density, z)
        phases = np.column_stack([z, np.zeros((chains, n)), grad, lp, np.zeros(chains)])
        state = tree.no_trees(phases, self.max_depth) | (halving.no_strides(phases) if self.halvings else {})
        state |= {name: np.zeros(chains, int) for name in ("completed", "gradients")}
        state |= {name: np.zeros(chains) for name in ("acceptance", "step_size")}
        state |= {"next_step_size": np.array(float(self.step_size)), "position": np.array(x, float)}
        state |= {"rows": np.zeros((0, chains, n + len(RECORDED)))}
        uniforms = rng.random((4, chains))
        began = self._begin_idle(state, rng, uniforms)
        if self.halvings:
            halving.begin_strides(state, began, tree.energies(state["here"]), uniforms[3])
        return state

    def advance(self, state, rng, iterations):
        s = {name: values.copy() for name, values in state.items()}
        backlog, (chains, n) = s["rows"], s["position"].shape
        s["rows"] = rows = np.zeros((iterations + self._ahead(s), chains, backlog.shape[2]))
        rows[: len(backlog)] = backlog
        with np.errstate(all="ignore"):
            while s["completed"].min() < iterations:
                self._tick(s, rng)
        s["completed"] -= iterations
        s["rows"] = rows[iterations : iterations + s["completed"].max()].copy()
        if iterations:
            s["position"] = rows[iterations - 1, :, :n].copy()
        statistics = zip(RECORDED.items(), np.moveaxis(rows[:iterations, :, n:], 2, 0), strict=True)
        return s, {
            "position": rows[:iterations, :, :n].copy(),
            **{name: values.astype(kind) for (name, kind), values in statistics},
        }

    def positions(self, state):
        """Where chains stand after the last iteration returned, shape (chains, n); some are further."""
        return state["position"]

    def _ahead(self, s: State) -> int:
        """Iterations that a chain may be ahead of the slowest."""
        return min(self.ahead, max(ROOM // math.prod(s["rows"].shape[1:]), 1))

    def _tick(self, s: State, rng: np.random.Generator) -> None:
        """One gradient of all chains, and what follows from it."""
        uniforms = rng.random((4, len(s["position"])))
        step = s["direction"] * s["step_size"]
        s["here"] = here = self._leapfrog(s["here"], np.ldexp(step, -s["level"]) if self.halvings else step)
        s["gradients"] += 1
        energy = tree.energies(here)
        if not self.halvings:
            i = s["direction"].nonzero()[0]
            change = (s["initial_energy"] - energy)[i]
            s["acceptance"][i] += np.fmax(np.exp(np.minimum(change, 0.0)), 0.0)
            self._add(s, i, here[i], change, np.zeros(len(i), bool), energy, uniforms, None)
            self._begin_idle(s, rng, uniforms)
            return
        i, found, one_way, forth, back = halving.advance_part(s, energy, self.halvings)
        if not len(i):
            return
        leaf = s["end"][i]
        leaf[:, -1] += self._log_odds(forth, back)
        s["here"][i] = leaf
        change = np.where(found, s["initial_energy"][i] - tree.energies(leaf) + leaf[:, -1], -np.inf)
        self._add(s, i, leaf, change, one_way, energy, uniforms, halving.STRIDE << s["enough"][i])
        fresh = np.concatenate([i, self._begin_idle(s, rng, uniforms)])
        halving.begin_strides(s, fresh, tree.energies(s["here"]), uniforms[3])

    def _leapfrog(self, here: np.ndarray, step: np.ndarray) -> np.ndarray:
        """Phases after leapfrogs of these sizes (chains,), 0 for chains that wait; log π = ∞ counts as −∞."""
        n, there, step = self.coordinates.dim, here.copy(), step[:, None]
        half = 0.5 * step
        p = here[:, n : 2 * n] + half * here[:, 2 * n : 3 * n]
        there[:, :n] += step * p
        lp, grad = self.coordinates.value_and_grad(self.density, there[:, :n])
        there[:, n : 2 * n] = p + half * grad
        there[:, 2 * n : 3 * n] = grad
        there[:, -2] = np.where(lp < np.inf, lp, -np.inf)
        return there

    def _log_weight(self, change: np.ndarray) -> np.ndarray:
        """Of a state's weight in the draw from a trajectory, from H₀ − H."""
        return change

    def _log_odds(self, forth: np.ndarray, back: np.ndarray) -> np.ndarray:
        return halving.log_odds(forth, back)

    def _add(
        self, s: State, i: np.ndarray, leaf: np.ndarray, change: np.ndarray, cut: np.ndarray, energy: np.ndarray,
        uniforms: np.ndarray, cost: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Add leaves to the trees of chains i (m,), with H₀ − H, and whether trajectories are cut short before them.

        `energy` is that of the last leapfrogs, (chains,); `cost` as in `tree.grow`.
        """
        diverging = ~cut & ~(change > (-np.inf if self.halvings else -DIVERGENCE))
        weight = np.where(cut | diverging, -np.inf, self._log_weight(change))
        over, limit = tree.grow(s, i, leaf, weight, uniforms, cost)
        if not over.any():
            return
        i, diverging, cut, limit = i[over], diverging[over], cut[over], limit[over]
        drawn, states, n = s["drawn"][i], s["states"][i], self.coordinates.dim
        rate = s["acceptance"][i] / states
        nonfinite, steps = diverging & ~np.isfinite(energy[i]), states * (halving.STRIDE if self.halvings else 1)
        placed = self.coordinates.at(drawn[:, :n])
        abrupt = s["discontinuous"][i] if self.halvings else np.zeros(len(i), bool)
        values = (drawn[:, -2] - placed.log_det, rate, s["moved"][i], nonfinite, diverging, steps, s["gradients"][i],
                  tree.energies(drawn), s["step_size"][i], s["depth"][i], cut, abrupt, limit)  # fmt: skip
        row = np.empty((len(i), n + len(values)))
        row[:, :n] = placed.x
        for column, value in enumerate(values, n):
            row[:, column] = value
        s["rows"][s["completed"][i], i] = row
        s["completed"][i] += 1
        s["here"][i], s["direction"][i] = drawn, 0.0
        if self.steer is not None:
            self.steer(s, rate)

    def _begin_idle(self, s: State, rng: np.random.Generator, uniforms: np.ndarray) -> np.ndarray:
        """Begin trajectories of the chains that are idle and not too far ahead, and return these chains."""
        i = (s["direction"] == 0).nonzero()[0]
        if len(i):
            i = i[s["completed"][i] < s["completed"].min() + self._ahead(s)]
        if len(i):
            tree.begin(s, i, rng.standard_normal((len(i), self.coordinates.dim)), uniforms)
            s["step_size"][i], s["acceptance"][i], s["gradients"][i] = s["next_step_size"], 0.0, 0
            if self.halvings:
                s["discontinuous"][i] = False
        return i


@dataclass(frozen=True)
class LearningNuts:
    r"""NUTS of all chains while the step size and the coordinates are learned, in Stan's windows.

    The step size follows dual averaging over all chains: a trajectory that ends is 1/K of an update of K chains', and
    takes effect where a chain next begins one. At the end of a window between the buffers, covariance and mean are
    fitted to all chains' draws z in the window, regularised as in Stan, $\frac{N}{N+5}S + 10^{-3}\frac{5}{N+5}I$, but
    in z; the step size is begun anew from its average. All chains then begin anew from their draw at the window's end:
    at most 32 iterations that some are ahead, and trajectories under way, are discarded.

    Args:
        density: log π.
        iterations: of the warm-up.
        halvings: of a leapfrog at most; 0 for plain NUTS.
        target_acceptance: the mean probability to which the step size is steered.
        max_depth: doublings at most.
    """

    density: AbstractDensity
    iterations: int
    halvings: int = 0
    target_acceptance: float = 0.8
    max_depth: int = 10

    @property
    def rule(self) -> DualAveraging:
        """What learns the step size."""
        return DualAveraging(self.target_acceptance)

    @property
    def ends(self) -> list[int]:
        """After how many iterations windows end."""
        return list(accumulate(doubling_windows(self.iterations)))

    def init(
        self, x: np.ndarray, coordinates: Coordinates, rng: np.random.Generator, step_size: float | None = None
    ) -> State:
        """The state of chains that stand at x, (chains, n), with ε at first 0.1 n^(-1/4) where it is not given."""
        first = float(0.1 * coordinates.dim**-0.25) if step_size is None else step_size
        return {"done": np.array(0)} | self._begun(x, coordinates, rng, first)

    def advance(self, state: State, rng: np.random.Generator, iterations: int) -> tuple[State, Draws]:
        """The state after so many iterations, no more than are left, and their draws; arrays given do not change."""
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
        """Where chains stand after the last iteration returned, shape (chains, n)."""
        return state["position"]

    def learned(self, state: State) -> tuple[Coordinates, float]:
        """The coordinates, and the averaged step size."""
        return Coordinates.of(state), self.rule.finished(state["rule"])

    def _chains(self, coordinates: Coordinates, step_size: float) -> Nuts:
        return Nuts(self.density, coordinates, step_size, self.max_depth, self.halvings, AHEAD_IN_WARMUP, self._steer)

    def _begun(self, x: np.ndarray, here: Coordinates, rng: np.random.Generator, step_size: float) -> State:
        """The state of chains at x with nothing learned yet."""
        learning = here.arrays() | {"rule": self.rule.init(step_size)} | no_sums(here)
        return learning | self._chains(here, step_size).init(x, rng)

    def _steer(self, s: State, acceptance: np.ndarray) -> None:
        """Update the step size with the acceptance rates of m trajectories, (m,): m/K of an update."""
        share = len(acceptance) / len(s["position"])
        s["rule"] = self.rule.update(s["rule"], float(np.mean(acceptance)), share)
        s["next_step_size"] = np.array(s["rule"][0])

    def _add(self, state: State, x: np.ndarray) -> None:
        """Add draws (t, chains, n) to the window's sums in z, row by row: sums do not depend on how it is cut."""
        here = Coordinates.of(state)
        inverse = np.linalg.inv(here.factor).T if here.dense else 1 / here.factor
        for row in x:
            y = unfolded(here.layers, row) - here.mean
            z = y @ inverse if here.dense else y * inverse
            state["count"] += len(z)
            state["sum"] += np.sum(z, 0)
            state["squares"] += z.T @ z if here.dense else np.sum(z**2, 0)

    def _window_ended(self, state: State, rng: np.random.Generator, window: int) -> State:
        """The state after the sums of a window were used, unless it is a buffer."""
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
        return state | self._begun(state["position"], fitted, rng, step_size)


def no_sums(coordinates: Coordinates) -> State:
    """The sums of an empty window: draws, their sum, and that of their squares or products."""
    return {"count": np.array(0), "sum": np.zeros(coordinates.dim), "squares": np.zeros(coordinates.factor.shape)}
