r"""Draws by proposals from a fixed mixture, and local moves about its components.

Proposals are accepted with probability $\min\{1, w(y)/w(x)\}$, $w = \pi/q$, so chains change modes as often as the
masses of modes require. One in every `period` moves is local: a component k is drawn by its responsibility $r_k(x)$,
split HMC moves about it, and the end x' is accepted with $r_k(x')/r_k(x)$ as a factor of the ratio. The local move
leaves π(x) r_k(x) invariant, and with it π.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gadabout.density.base import AbstractDensity
from gadabout.ensemble.mixture import Mixture, log_sum
from gadabout.ensemble.move import AbstractMove, Draws, State, in_blocks
from gadabout.ensemble.split_hmc import DIVERGENCE, SplitHMC, accept, squares
from gadabout.ensemble.warmup import LONGEST_STEP, STEP_SIZE, DualAveraging

LEARNING = 30
"""local moves in which their step size is learned"""


@dataclass(frozen=True)
class OwnCoordinates:
    """Affine coordinates of each chain: `means` (chains, n) and `factors` (chains, n, n)."""

    means: np.ndarray
    factors: np.ndarray

    def x(self, z: np.ndarray) -> np.ndarray:
        """Positions, (chains, n)."""
        return self.means + np.einsum("aij,aj->ai", self.factors, z)

    def z(self, x: np.ndarray) -> np.ndarray:
        """Coordinates, (chains, n)."""
        return np.linalg.solve(self.factors, (x - self.means)[..., None])[..., 0]

    def pull(self, grad: np.ndarray) -> np.ndarray:
        """Gradients with respect to z, (chains, n)."""
        return np.einsum("aij,ai->aj", self.factors, grad)

    def value_and_grad(self, density: AbstractDensity, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π and its gradients with respect to z."""
        value, grad = density.value_and_grad(self.x(z))
        return value, self.pull(grad)


@dataclass(frozen=True)
class FromMixture(AbstractMove):
    """Blocks of `period` iterations: a local move, then proposals from the mixture, evaluated in one batch.

    Its state is `x` and `grad`, of shape (chains, n), and `lp`, of shape (chains,).

    Args:
        density: log π.
        mixture: q.
        step_size: the step size of split HMC about a component, in radians.
        period: iterations from one local move to the next.
    """

    density: AbstractDensity
    mixture: Mixture
    step_size: float
    period: int = 8

    @np.errstate(all="ignore")
    def init(self, x, rng):
        lp, grad = self.density.value_and_grad(x)
        return {"x": np.array(x, float), "grad": grad, "lp": lp}

    def positions(self, state):
        return state["x"]

    @np.errstate(all="ignore")
    def advance(self, state, rng, iterations):
        if not iterations:
            return state, {name: rows[:0] for name, rows in self._proposals(state, rng.spawn(1)[0])[1].items()}
        return in_blocks(self._block, state, rng, -(-iterations // self.period))

    def _block(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        """The state after a local move and the proposals, and the draws, of `period` rows."""
        state, local = self.local(state, rng)
        state, proposed = self._proposals(state, rng)
        return state, {name: np.concatenate([rows[None], proposed[name]]) for name, rows in local.items()}

    def local(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        """The state after a local move of each chain, and its statistics, of shape (chains,)."""
        x, (chains, n) = state["x"], state["x"].shape
        at_modes = self.mixture.modes >= 0  # no local move about components between modes
        here = self.mixture.parts(x)[:, at_modes]
        k = np.argmax(here + rng.gumbel(size=here.shape), 1)
        own = OwnCoordinates(self.mixture.means[at_modes][k], self.mixture.factors[at_modes][k])
        move: Any = SplitHMC(self.density, own, self.step_size)  # pyright: ignore[reportArgumentType]
        z, momentum = own.z(x), rng.standard_normal((chains, n))
        begun = {"z": z, "residual": own.pull(state["grad"]) + z, "lp": state["lp"]}
        end, p = move.trajectory(begun, momentum, rng.random(chains))
        there_x = own.x(end["z"])
        there, each = self.mixture.parts(there_x)[:, at_modes], np.arange(chains)
        of_k = (there - log_sum(there)[:, None])[each, k] - (here - log_sum(here)[:, None])[each, k]
        log_ratio = end["lp"] - state["lp"] + 0.5 * (squares(momentum) - squares(p))
        finite = np.isfinite(end["lp"]) & np.isfinite(end["residual"]).all(1)
        diverging = ~(log_ratio > DIVERGENCE)
        accepted, log_ratio, finite = accept(rng.standard_exponential(chains), log_ratio + of_k, finite)
        grad = np.einsum("aji,aj->ai", np.linalg.inv(own.factors), end["residual"] - end["z"])
        after = {
            "x": np.where(accepted[:, None], there_x, x),
            "grad": np.where(accepted[:, None], grad, state["grad"]),
            "lp": np.where(accepted, end["lp"], state["lp"]),
        }
        return after, {
            "position": after["x"], "lp": after["lp"], "acceptance_rate": np.exp(np.minimum(0, log_ratio)),
            "accepted": accepted, "nonfinite": ~finite, "diverging": diverging,
            "n_steps": np.full(chains, move.steps), "gradient_evaluations": np.full(chains, move.steps + 1),
            "energy": 0.5 * squares(momentum) - state["lp"], "step_size": np.full(chains, float(self.step_size)),
        }  # fmt: skip

    def _proposals(self, state: State, rng: np.random.Generator) -> tuple[State, Draws]:
        """The state after `period` − 1 proposals from the mixture, and the draws."""
        P, (chains, n) = self.period - 1, state["x"].shape
        y = self.mixture.draw(rng, P * chains)
        lp, log_q = self.density.value(y), self.mixture.log_q(y)
        weight = np.where(np.isfinite(lp), lp - log_q, -np.inf).reshape(P, chains)
        y, lp = y.reshape(P, chains, n), lp.reshape(P, chains)
        waits = rng.standard_exponential((P, chains))
        x, here, own = state["x"], state["lp"] - self.mixture.log_q(state["x"]), state["lp"]
        drawn = {"position": np.empty((P, chains, n)), "lp": np.empty((P, chains))}
        ratios = np.empty((P, chains))
        for i in range(P):
            ratios[i] = weight[i] - here
            taken = -waits[i] <= ratios[i]
            x, own = np.where(taken[:, None], y[i], x), np.where(taken, lp[i], own)
            here = np.where(taken, weight[i], here)
            drawn["position"][i], drawn["lp"][i] = x, own
        accepted, ratios, finite = accept(waits, ratios)
        drawn |= {
            "acceptance_rate": np.exp(np.minimum(0, ratios)), "accepted": accepted, "nonfinite": ~finite,
            "diverging": np.zeros((P, chains), bool), "n_steps": np.zeros((P, chains), int),
            "gradient_evaluations": np.zeros((P, chains), int), "energy": -drawn["lp"],
            "step_size": np.full((P, chains), float(self.step_size)),
        }  # fmt: skip
        return {"x": x, "grad": self.density.value_and_grad(x)[1], "lp": own}, drawn


def local_step(
    density: AbstractDensity, mixture: Mixture, rng: np.random.Generator, chains: int, target_acceptance: float
) -> tuple[np.ndarray, float]:
    """Approximate draws of π, at which chains begin, (chains, n), and the step size of local moves."""
    y = mixture.draw(rng, 32 * chains)
    log_w = density.value(y) - mixture.log_q(y)
    log_w = np.where(np.isfinite(log_w), log_w, -np.inf)
    x = y[np.argsort(-(log_w + rng.gumbel(size=len(y))))[:chains]]
    rule = DualAveraging(target_acceptance, LONGEST_STEP)
    memory = rule.init(STEP_SIZE)
    state = FromMixture(density, mixture, STEP_SIZE).init(x, rng)
    for _ in range(LEARNING):
        state, told = FromMixture(density, mixture, float(memory[0])).local(state, rng)
        memory = rule.update(memory, float(told["acceptance_rate"].mean()))
    return state["x"], rule.finished(memory)
