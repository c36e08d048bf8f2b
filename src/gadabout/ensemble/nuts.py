"""The No-U-Turn sampler for many chains that do not wait for each other (Hoffman & Gelman 2014).

A tick is one batched gradient, with every chain at its own leaf of its own tree (`ensemble.tree`). A chain that ends a
trajectory begins the next at once. With halvings, a leaf is a stride of leapfrog steps in parts, each of which is a
tick (`ensemble.halving`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gadabout.density.base import AbstractDensity
from gadabout.ensemble import halving, tree
from gadabout.ensemble.coordinates import Coordinates
from gadabout.ensemble.move import STATISTICS, TREE, AbstractMove, State

DIVERGENCE = 1000.0
"""increase of the energy along a trajectory without halvings that counts as a divergence, in nats (as in Stan)"""
AHEAD = 1_024
"""iterations by which a chain may be ahead of the slowest; in a funnel, a few take a thousand times as long as most"""
ROOM = 2**22
"""maximum count of numbers in a state for iterations by which chains are ahead"""
RECORDED = STATISTICS | TREE
"""statistics of an iteration, in the columns after its position"""


@dataclass(frozen=True)
class Nuts(AbstractMove):
    r"""NUTS with momenta $p \sim N(0, I)$ in coordinates z, and a fixed step size.

    A trajectory diverges if its energy grows by more than 1000 or is not finite. It then ends, and no state is drawn
    from the half that diverged. `nonfinite` marks an energy that is not finite. `acceptance_rate` is the mean of
    $\min(1, e^{H_0 - H})$ over all states visited. `accepted` says whether the chain moved.

    With `halvings`, a leaf is a stride of two leapfrog steps, divided into parts by its range of energy
    (`ensemble.halving`, which also defines divergence). `acceptance_rate` is then the mean acceptance probability of
    the strides without halvings. `cut_short` says whether a trajectory ended before a stride that cannot be retraced.
    `discontinuous` says whether halving was abandoned in a stride with a large change of energy. `n_steps` counts
    leapfrog steps of size ε.

    `advance` ends when all chains have completed the requested rows, and returns these. Further rows of faster chains,
    and unfinished trajectories, stay in the state. Chains `ahead` iterations ahead of the slowest wait. Each tick draws
    uniforms for all chains, and the ticks of a run do not depend on how it is cut.

    Args:
        density: log π.
        coordinates: coordinates z.
        step_size: ε.
        max_depth: largest number of doublings; with halvings, it limits leapfrog steps too (see `ensemble.tree`).
        halvings: largest number of halvings of a leapfrog step; 0 for plain NUTS.
        ahead: iterations by which a chain may be ahead of the slowest; fewer if they take much memory.
        steer: changes `next_step_size` of a state, from the acceptance rates of trajectories that ended, or None.
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
        """Positions of chains after the last iteration returned, shape (chains, n); faster chains are further on."""
        return state["position"]

    def _ahead(self, s: State) -> int:
        """Iterations by which a chain may be ahead of the slowest."""
        return min(self.ahead, max(ROOM // math.prod(s["rows"].shape[1:]), 1))

    def _tick(self, s: State, rng: np.random.Generator) -> None:
        """Evaluate one gradient for all chains, and update their trees."""
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
        """Phases after leapfrog steps of these sizes (chains,), 0 for chains that wait; log π = ∞ counts as −∞."""
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
        """Log weight of a state in the draw from a trajectory, from `change`, H₀ − H."""
        return change

    def _log_odds(self, forth: np.ndarray, back: np.ndarray) -> np.ndarray:
        return halving.log_odds(forth, back)

    def _add(
        self, s: State, i: np.ndarray, leaf: np.ndarray, change: np.ndarray, cut: np.ndarray, energy: np.ndarray,
        uniforms: np.ndarray, cost: np.ndarray | None,
    ) -> None:  # fmt: skip
        """Add leaves to the trees of chains i (m,), and record the trajectories that end.

        `change` (m,) is H₀ − H. `cut` (m,) is true where a trajectory is cut short before its leaf. `energy` (chains,)
        is that after the last leapfrog steps. `cost` as in `tree.grow`.
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
